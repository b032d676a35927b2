"""Builds what is published: an sdist, and from it a wheel for every Python on Linux x86-64.

The wheel's kernels are compiled by Zig against the C library of manylinux_2_17, so that they load
on any Linux that Paddle and JAX run on; auditwheel and twine look at what came out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import zipfile
from pathlib import Path

GLIBC = "2.17"
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
KERNELS = "paddle_ipu/xla/kernels/_kernels.so"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--output", type=Path, default=Path("dist"), help="folder (default dist)")
    return parser.parse_args()


def _run(*command: str, **environment: str) -> str:
    """What a tool of this environment prints; it ends the build where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def forget_earlier(output: Path) -> None:
    """Removes what an earlier build left in the folder, and nothing else of it."""
    for end in (".tar.gz", ".whl"):
        for path in output.glob(f"paddle_ipu-*{end}"):
            path.unlink()


def main() -> int:
    """Builds, checks and names the files."""
    output = _arguments().output
    forget_earlier(output)
    zig = f"{sys.executable} -m ziglang"
    target = f"-target x86_64-linux-gnu.{GLIBC}"
    _run("build", "--sdist", "--outdir", str(output))
    (sdist,) = output.glob("paddle_ipu-*.tar.gz")
    _run(
        "build", "--wheel", "--outdir", str(output), f"-C=--build-option=--plat-name={PLATFORM}",
        str(sdist), CC=f"{zig} cc {target}", CXX=f"{zig} c++ {target}",
    )  # fmt: skip
    (wheel,) = output.glob("paddle_ipu-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        if KERNELS not in archive.namelist():
            raise SystemExit(f"{wheel.name} has no {KERNELS}: its compilation failed, see above.")
    found = _run("auditwheel", "show", str(wheel))
    if f'"{PLATFORM}"' not in found:
        raise SystemExit(f"{wheel.name} needs more than {PLATFORM} has:\n{found}")
    _run("twine", "check", "--strict", str(sdist), str(wheel))
    for path in (sdist, wheel):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

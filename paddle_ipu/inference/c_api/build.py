"""``python -m paddle_ipu.inference.c_api.build``: the C library, by the C compiler at hand."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
NAME = "libpaddle_ipu_inference.so"

DESCRIPTION = """\
Build the C library over predictors on the IPU, for C and C++ programs.

The library starts this Python, with the packages it has now, inside the program that uses it;
PADDLE_IPU_PYTHON=/path/to/python chooses another one at run time, of the same version.
"""

EPILOG = """\
what it writes into the output folder:
  libpaddle_ipu_inference.so, paddle_ipu_inference.h

exit codes:
  0 done; 1 the compiler failed; 2 wrong arguments, no compiler, or a Python without shared library

a program of yours, built with it:
  g++ -std=c++17 sample.cc -I out/c -L out/c -lpaddle_ipu_inference -Wl,-rpath,$PWD/out/c
"""


def command(output: Path, compiler: str) -> list[str]:
    """The compiler's command line.

    Raises:
        RuntimeError: this Python has no shared library or no headers.
    """
    variables = sysconfig.get_config_vars()
    headers = Path(sysconfig.get_path("include"))
    if not variables.get("Py_ENABLE_SHARED"):
        raise RuntimeError(
            f"{sys.executable} was built without a shared library (--enable-shared), which a "
            "program needs to run Python inside. Use a Python that has one."
        )
    if not (headers / "Python.h").exists():
        raise RuntimeError(
            f"there is no {headers / 'Python.h'}. Install Python's headers, for instance the "
            "package python3-dev."
        )
    folder = variables["LIBDIR"]
    library = f"-lpython{sysconfig.get_python_version()}{sys.abiflags}"
    return [
        *shlex.split(compiler), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC",
        f'-DPI_PYTHON="{sys.executable}"', f"-I{headers}", str(HERE / "paddle_ipu_inference.c"),
        "-o", str(output / NAME), f"-L{folder}", library, f"-Wl,-rpath,{folder}", "-lpthread",
    ]  # fmt: skip


def build(output: Path, compiler: str) -> Path:
    """Builds the library; its path.

    Raises:
        RuntimeError: no compiler, a Python that cannot be used, or an error of the compiler.
    """
    if shutil.which(shlex.split(compiler)[0]) is None:
        raise RuntimeError(f"there is no C compiler {compiler!r}; --compiler names another one.")
    output.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command(output, compiler), capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.SubprocessError(done.stderr)
    shutil.copy(HERE / "paddle_ipu_inference.h", output)
    return output / NAME


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the library; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m paddle_ipu.inference.c_api.build",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("out/c"), help="folder (out/c)")
    parser.add_argument("--compiler", default=os.environ.get("CC", "cc"), help="CC, else cc")
    options = parser.parse_args(arguments)
    try:
        print(build(options.output, options.compiler))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    except subprocess.SubprocessError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Builds what pyproject.toml cannot say: the kernels in C++, in a wheel for every Python."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).parent

for name in ("ops", "passes"):
    if not (ROOT / "paddle_ipu" / name).is_dir():
        sys.exit(
            f"paddle_ipu/{name} must be a folder or a symbolic link to ../{name}, but is not: the "
            "source was unpacked or checked out without support for symbolic links. Clone it with "
            "git (on Windows with core.symlinks=true), or install a wheel."
        )


# What a run of that file leaves: the package itself cannot be imported before it is installed.
PLATFORMS = runpy.run_path(str(ROOT / "paddle_ipu/operating_system/platforms.py"))
HERE = PLATFORMS["this_platform"]()
if not HERE.is_tested:
    sys.stderr.write(f"{PLATFORMS['what_is_missing']()}\n")


class BuildKernels(build_ext):
    """Builds the kernels with the headers of XLA's foreign functions, which jaxlib ships."""

    def get_ext_filename(self, fullname: str) -> str:
        """One name for all Pythons: nothing of Python is in the library, which ctypes opens."""
        return f"{fullname.replace('.', '/')}.so"

    def build_extension(self, ext: Extension) -> None:
        """Builds them; where that fails, says what that means before setuptools goes on."""
        try:
            self._build_kernels(ext)
        except Exception:
            self.warn(
                "paddle_ipu is installed without its compiled kernels, which cannot be built here: "
                "XLA computes in their place. `paddle-ipu info` says which run."
            )
            raise

    def _build_kernels(self, ext: Extension) -> None:
        # Found without importing it: nothing of it is run here.
        jaxlib = importlib.util.find_spec("jaxlib")
        folders = jaxlib.submodule_search_locations if jaxlib is not None else None
        found = [Path(folder) / "include" for folder in folders or ()]
        include = next((i for i in found if (i / "xla/ffi/api/ffi.h").is_file()), None)
        if include is None:
            raise CompileError(
                "it needs the headers of jaxlib, which is not installed where it is built"
                if jaxlib is None
                else f"this jaxlib has no headers in {found[0]}"
            )
        # As the system's headers, so that there are no warnings of them.
        ext.extra_compile_args += ["-isystem", str(include)]
        super().build_extension(ext)


class WheelForAllPythons(bdist_wheel):
    """A wheel of one platform, or of any where it has no kernels, whatever the Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


# Without a compiler, or without jaxlib where it is built, XLA's own convolutions run.
FOLDER = "paddle_ipu/xla/kernels"
KERNELS = Extension(
    "paddle_ipu.xla.kernels._kernels",
    sorted(map(str, Path(FOLDER).rglob("*.cc"))),
    depends=[str(p) for end in ("*.h", "*.inc") for p in sorted(Path(FOLDER).rglob(end))],
    include_dirs=[FOLDER],
    extra_compile_args=["-std=c++17", "-O2", "-g0", "-fvisibility=hidden"],
    libraries=["dl", "pthread"],
    language="c++",
    optional=True,
)

setup(
    cmdclass={"bdist_wheel": WheelForAllPythons, "build_ext": BuildKernels},
    ext_modules=[KERNELS] if HERE.has_kernels else [],
)

"""Builds what pyproject.toml cannot say: the .pth file that activates the plugin, and C++."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.errors import CompileError

ROOT = Path(__file__).parent
PTH_NAME = "paddle_ipu_autoload.pth"
PTH_LINE = "import _paddle_ipu_autoload; _paddle_ipu_autoload.start()\n"

for name in ("ops", "passes"):
    if not (ROOT / "paddle_ipu" / name).is_dir():
        sys.exit(
            f"paddle_ipu/{name} must be a folder or a symbolic link to ../{name}, but is not: the "
            "source was unpacked or checked out without support for symbolic links. Clone it with "
            "git (on Windows with core.symlinks=true), or install a wheel."
        )


class BuildWithPth(build_py):
    """Puts the .pth file at the top of the wheel, beside the package."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self._pth()).write_text(PTH_LINE, encoding="utf-8")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, self._pth()]

    def _pth(self) -> str:
        return str(Path(self.build_lib) / PTH_NAME)


class StrategyWithPth:
    """An editable install's own strategy, plus the .pth file."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy

    def __call__(self, wheel: Any, files: Any, mapping: Any) -> None:
        self.strategy(wheel, files, mapping)
        wheel.writestr(PTH_NAME, PTH_LINE)

    def __enter__(self) -> StrategyWithPth:
        self.strategy.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.strategy.__exit__(*exception)


class EditableWithPth(editable_wheel):
    """Editable wheels hold no output of build_py, so the .pth file is written into them here."""

    def run(self) -> None:
        self.pth_written = False
        super().run()
        if not self.pth_written:
            raise RuntimeError(
                "this version of setuptools builds editable wheels without calling "
                "_select_strategy, so the plugin would not be activated; use setuptools >= 77, < 85"
            )

    def _select_strategy(self, *arguments: Any, **keywords: Any) -> StrategyWithPth:
        self.pth_written = True
        return StrategyWithPth(super()._select_strategy(*arguments, **keywords))


class BuildKernels(build_ext):
    """Builds the kernels with the headers of XLA's foreign functions, which jaxlib ships."""

    def build_extension(self, ext: Extension) -> None:
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


# ctypes opens it; nothing of Python is in it. Without a compiler, or without jaxlib where it is
# built, XLA's own convolutions run.
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
    cmdclass={
        "build_ext": BuildKernels,
        "build_py": BuildWithPth,
        "editable_wheel": EditableWithPth,
    },
    ext_modules=[KERNELS],
)

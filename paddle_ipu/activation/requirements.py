"""The packages that paddle_ipu is built on: one that it was not made for is refused by name."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from paddle_ipu.errors import ActivationError


@dataclass(frozen=True, slots=True)
class Requirement:
    """Versions of a package.

    Attributes:
        package: its name where it is installed from.
        module: its name where it is imported.
        oldest: the first version that has all that is used; the tests run with it, too.
        below: the first version that nobody has tried, "" where only public names are used.
    """

    package: str
    module: str
    oldest: str
    below: str = ""

    @property
    def specifier(self) -> str:
        """As pip takes it."""
        return f"{self.package}>={self.oldest}" + (f",<{self.below}" if self.below else "")

    def takes(self, version: str) -> bool:
        """Whether a version is one of them."""
        return _numbers(self.oldest) <= _numbers(version) and (
            not self.below or _numbers(version) < _numbers(self.below)
        )


REQUIREMENTS = (
    # `jax._src.distributed` is not public, nor is what kernels and kept executables rely on.
    Requirement("jax", "jax", "0.10.1", "0.13"),
    Requirement("numpy", "numpy", "2.0", "3"),
    Requirement("onnx", "onnx", "1.17", "2"),
    # `onnx_ir._symbolic_shapes` is not public.
    Requirement("onnx-ir", "onnx_ir", "0.2", "2"),
    Requirement("protobuf", "google.protobuf", "4.25"),
)
"""All but Paddle, whose versions ``patch.py`` has; ``pyproject.toml`` repeats them."""


def check() -> None:
    """Looks at what is installed, without importing it.

    Raises:
        ActivationError: a package is of a version that is not among those above.
    """
    for required in REQUIREMENTS:
        version = installed(required)
        if version is not None and not required.takes(version):
            raise ActivationError(
                f"paddle_ipu takes {required.specifier}, and {required.package} {version} is "
                f"installed. Run `pip install '{required.specifier}'`, or set "
                "PADDLE_IPU_AUTOLOAD=0 to use Paddle without the IPU."
            )


def installed(required: Requirement) -> str | None:
    """The version of a package by its folder beside the module; None where nothing tells it.

    `importlib.metadata` would tell it, too, and take a twentieth of a second to be imported.
    """
    top, *inner = required.module.split(".")
    found = importlib.util.find_spec(top)
    folders = (found.submodule_search_locations if found is not None else None) or ()
    stem = re.escape(required.package).replace(r"\-", "[-_]")
    name = re.compile(rf"{stem}-(?P<version>\d[^-]*)\.dist-info", re.IGNORECASE)
    for folder in map(Path, folders):
        if folder.joinpath(*inner).exists():
            matches = (name.fullmatch(path.name) for path in folder.parent.iterdir())
            return next((match["version"] for match in matches if match), None)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """The release's numbers without zeros at the end: "0.10.0rc1" is (0, 10)."""
    release = re.split(r"[^\d.]", version, maxsplit=1)[0]
    numbers = [int(part) for part in release.split(".") if part]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)

"""Makes ``paddle.fluid`` importable and an attribute of ``paddle``; unused, it is not imported.

None of its modules is a file: a finder makes each from a table.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NAME = "paddle.fluid"


class FluidFinder(MetaPathFinder):
    """Finds the modules of ``paddle.fluid``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_ours(fullname):
            return None
        from paddle_ipu.legacy import fluid_module

        return fluid_module.spec_of(fullname)


def install() -> None:
    """Makes ``paddle.fluid`` importable."""
    if not any(isinstance(finder, FluidFinder) for finder in sys.meta_path):
        sys.meta_path.append(FluidFinder())


def uninstall() -> None:
    """Removes the finder, and the modules that it made."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, FluidFinder)]
    for name in list(filter(_is_ours, sys.modules)):
        del sys.modules[name]
    if "paddle" in sys.modules:
        vars(sys.modules["paddle"]).pop("fluid", None)


def _is_ours(module: str) -> bool:
    return f"{module}.".startswith(f"{_NAME}.")


def importing_fluid(original: object) -> Callable[[str], Any]:
    """``paddle.__getattr__`` that imports ``paddle.fluid``; other names go to Paddle's, if any."""

    def get_attribute(name: str) -> Any:
        if name == "fluid":
            return importlib.import_module(_NAME)
        if callable(original):
            return original(name)
        raise AttributeError(f"module 'paddle' has no attribute {name!r}")

    return get_attribute

"""onnx_ir, imported without sympy.

onnx_ir computes with sympy where a dimension is a formula, which no program here has. Importing it
takes longer than all else that onnx_ir brings.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_PUT_OFF = ("sympy", "onnx_ir._symbolic_shapes")
"""The second reads names of the first while it is imported."""


class _PutOff:
    """Finds modules that are loaded when something is first read from them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _PUT_OFF else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def import_onnx_ir() -> None:
    """Imports onnx_ir, where that has not been done; sympy is loaded when it is first used."""
    if "onnx_ir" in sys.modules:
        return
    sys.meta_path.insert(0, _PutOff)
    try:
        import onnx_ir  # noqa: F401
    finally:
        sys.meta_path.remove(_PutOff)

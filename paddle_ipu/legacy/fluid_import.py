"""Makes ``paddle.fluid`` importable and an attribute of ``paddle``; unused, it is not imported.

The package lies in a folder of its own, ``on_paddle_path``, that is added to ``paddle.__path__``;
Python's import system does the rest.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

_NAME = "paddle.fluid"
_FOLDER = os.path.join(os.path.dirname(__file__), "on_paddle_path")


def with_fluid_folder(path: list[str]) -> list[str]:
    """``paddle.__path__`` with the folder that holds ``paddle.fluid``, behind Paddle's own."""
    return [*path, _FOLDER]


def importing_fluid(original: Any) -> Callable[[str], Any]:
    """``paddle.__getattr__`` that imports ``paddle.fluid``; other names go to Paddle's, if any."""

    def get_attribute(name: str) -> Any:
        if name == "fluid":
            return importlib.import_module(_NAME)
        if callable(original):
            return original(name)
        raise AttributeError(f"module 'paddle' has no attribute {name!r}")

    return get_attribute


def forget() -> None:
    """Takes ``paddle.fluid`` and its modules out of Python's tables of modules."""
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{_NAME}.")]:
        del sys.modules[name]
    vars(sys.modules["paddle"]).pop("fluid", None)

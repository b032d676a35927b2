"""Fills a module of ``paddle.fluid`` from the table of names, and answers for what is not there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from paddle_ipu.legacy import fluid_training
from paddle_ipu.legacy.fluid_names import (
    DELEGATES,
    FLUID_NAMES,
    INSTEAD,
    LAYER_FILES,
    LAYERS,
    MODULES,
    PACKAGES,
    PLACES_OF_TODAY,
)
from paddle_ipu.legacy.layers import activations, arithmetic, losses, networks, tensors

_OURS = {
    module.__name__: module
    for module in (fluid_training, activations, arithmetic, losses, networks, tensors)
}


class _Filling(Loader):
    """Makes modules by filling them."""

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"``{module.__name__}``."
        fill(module.__name__, vars(module))


def spec_of(module: str) -> ModuleSpec | None:
    """What Python's import system makes a module of the table by; None for another one."""
    if module not in MODULES:
        return None
    return spec_from_loader(module, _Filling(), is_package=module in PACKAGES)


def fill(module: str, namespace: dict[str, Any]) -> None:
    """Puts the table's names into a module, with ``__all__``, ``__getattr__`` and ``__dir__``.

    Args:
        module: the module's name, ``paddle.fluid`` or below.
        namespace: its globals.
    """
    table = LAYERS if module in {f"{LAYERS}.{file}" for file in LAYER_FILES} else module
    names = {row.name: row.source for row in FLUID_NAMES if row.module == table}
    for name, source in names.items():
        namespace[name] = _find(source)
    today = importlib.import_module(DELEGATES[module]) if module in DELEGATES else None
    public = list(names)
    if today is not None:
        public += [name for name in dir(today) if not name.startswith("_")]
    namespace["__all__"] = sorted(set(public))
    namespace["__getattr__"] = _answering(module, table, today)
    namespace["__dir__"] = lambda: sorted({*namespace, *public})


def _find(source: str) -> Any:
    module, _, name = source.partition(":")
    return getattr(_OURS.get(module) or importlib.import_module(module), name)


def _answering(module: str, table: str, today: Any) -> Callable[[str], Any]:
    def answer(name: str) -> Any:
        # Not kept in the module: today's own value may change.
        if today is not None and hasattr(today, name):
            return getattr(today, name)
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if f"{module}.{name}" in MODULES:
            return importlib.import_module(f"{module}.{name}")
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}: Paddle has had no paddle.fluid since "
            f"2.5, and paddle_ipu offers a part of it. {_advice(table, name)}"
        )

    return answer


def _advice(table: str, name: str) -> str:
    instead = INSTEAD.get(f"{table}.{name}")
    if instead is None:
        found = (
            f"{place}.{name}"
            for place in PLACES_OF_TODAY
            if hasattr(importlib.import_module(place), name)
        )
        instead = next(found, None)
    if instead is None:
        return "docs/old_api.md lists what there is; look for today's name in Paddle's API pages."
    return f"Write instead: {instead}."

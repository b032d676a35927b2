"""Makes the modules of ``paddle.fluid`` from the table of names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

import paddle

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
    FluidName,
)
from paddle_ipu.legacy.layers import activations, arithmetic, losses, networks, tensors

_OURS = {
    module.__name__: module
    for module in (fluid_training, activations, arithmetic, losses, networks, tensors)
}


class _TableLoader(Loader):
    """Executes a module by filling it from the table."""

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"``{module.__name__}``."
        fill(module.__name__, vars(module))


def spec_of(module: str) -> ModuleSpec | None:
    """The import system's spec of a module of the table; None for any other module."""
    if module not in MODULES:
        return None
    return spec_from_loader(module, _TableLoader(), is_package=module in PACKAGES)


def fill(module: str, namespace: dict[str, Any]) -> None:
    """Puts the table's names into a module, with ``__all__``, ``__getattr__`` and ``__dir__``.

    Args:
        module: the module's name, ``paddle.fluid`` or below.
        namespace: its globals.
    """
    table = LAYERS if module in {f"{LAYERS}.{file}" for file in LAYER_FILES} else module
    namespace.update({row.name: _object_of(row) for row in FLUID_NAMES if row.module == table})
    today = importlib.import_module(DELEGATES[module]) if module in DELEGATES else None
    public = [row.name for row in FLUID_NAMES if row.module == table]
    if today is not None:
        public += [name for name in dir(today) if not name.startswith("_")]
    namespace["__all__"] = sorted(set(public))
    namespace["__getattr__"] = _attributes(module, table, today)
    namespace["__dir__"] = lambda: sorted({*namespace, *public})


def _object_of(row: FluidName) -> object:
    module, _, name = row.source.partition(":")
    ours = _OURS.get(module)
    if ours is None:
        return getattr(importlib.import_module(module), name)
    layer = getattr(ours, "FORWARDED", {}).get(name)
    if layer is None:
        return getattr(ours, name)
    layer.__name__ = layer.__qualname__ = row.name
    layer.__doc__ = f"``{row.today}`` with the old arguments. {row.note}".rstrip()
    # Paddle cannot read the source of one entry of a table.
    return paddle.jit.not_to_static(layer)


def _attributes(module: str, table: str, today: ModuleType | None) -> Callable[[str], Any]:
    """The module's ``__getattr__``."""

    def get_attribute(name: str) -> Any:
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

    return get_attribute


def _advice(table: str, name: str) -> str:
    instead = INSTEAD.get(f"{table}.{name}")
    if instead is None:
        places = (p for p in PLACES_OF_TODAY if hasattr(importlib.import_module(p), name))
        instead = next((f"{place}.{name}" for place in places), None)
    if instead is None:
        return "docs/old_api.md lists what there is; look for today's name in Paddle's API pages."
    return f"Write instead: {instead}."

"""Optimizer state on the device, where equal numbers of many parameters are one.

Adam keeps the powers of its betas for each parameter, and nearly always they are the same for all:
the step has one argument for them instead of hundreds, and computes once what follows from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from paddle_ipu.xla.lowerings.registry import HostArray


class OptimizerState:
    """State arrays by name, and as the step takes them.

    Args:
        shapes: shape of each state array.
        alike: groups of arrays of one element that stay equal once they are. A group is one array
            of the step, under the name of its first member, until unequal values are put into it.
        dtypes: element types of those that are not float32.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        alike: Sequence[tuple[str, ...]],
        dtypes: Mapping[str, str] | None = None,
    ) -> None:
        self.shapes = dict(shapes)
        self._dtypes = dict(dtypes or {})
        self._groups = {names[0]: names for names in alike}
        self._leader = {name: names[0] for names in alike for name in names}
        # A group's values are in `_members` from when one is put until the step takes them.
        self._arrays: dict[str, jax.Array] = {}
        self._members: dict[str, HostArray] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._members or self._leader.get(name, name) in self._arrays

    def dtype(self, name: str) -> str:
        """The element type of a state array."""
        return self._dtypes.get(name, "float32")

    @property
    def is_complete(self) -> bool:
        """True when every state array has a value."""
        if self._members:
            return all(name in self for name in self.shapes)
        return len(self._arrays) == len(self.shapes) - len(self._leader) + len(self._groups)

    def put(self, name: str, array: HostArray) -> None:
        """Copies a host array to the device."""
        leader = self._leader.get(name)
        if leader is None:
            self._arrays[name] = owned(array)
            return
        self._take_apart(leader)
        self._members[name] = np.array(array)

    def keep(self, names: Collection[str]) -> None:
        """Drops every array but those named."""
        for leader in self._groups:
            self._take_apart(leader)
        self._arrays = {name: array for name, array in self._arrays.items() if name in names}
        self._members = {name: array for name, array in self._members.items() if name in names}

    def by_name(self) -> dict[str, Any]:
        """Every array that has a value, by its own name."""
        arrays: dict[str, Any] = {
            name: array for name, array in self._arrays.items() if name not in self._groups
        }
        for leader in self._groups:
            if leader in self._arrays:
                arrays.update(self._parts(leader))
        return arrays | self._members

    def split_unequal(self) -> bool:
        """Splits groups whose members are no longer equal; the step is another one then."""
        if not self._members:
            return False
        split = False
        for leader, names in list(self._groups.items()):
            if leader in self._arrays:
                continue
            by_value: dict[bytes, list[str]] = {}
            for name in names:
                by_value.setdefault(self._members[name].tobytes(), []).append(name)
            if len(by_value) > 1:
                split = True
                del self._groups[leader]
                self._groups.update((names[0], tuple(names)) for names in by_value.values())
                self._leader.update((n, names[0]) for names in by_value.values() for n in names)
        return split

    def device_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what :meth:`arrays` gives."""
        return {
            name: shape
            for name, shape in self.shapes.items()
            if self._leader.get(name, name) == name
        }

    def arrays(self) -> dict[str, jax.Array]:
        """The arrays as the step takes them; every state array must have a value."""
        if self._members:
            for leader, names in self._groups.items():
                if leader not in self._arrays:
                    self._arrays[leader] = owned(self._members[leader])
                    for name in names:
                        del self._members[name]
        return self._arrays

    def expanded(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """What :meth:`arrays` gave, with every state array under its own name."""
        return {name: arrays[self._leader.get(name, name)] for name in self.shapes}

    def replace(self, arrays: dict[str, jax.Array]) -> None:
        """Takes what a step gave back for :meth:`arrays`."""
        self._arrays = arrays

    def _take_apart(self, leader: str) -> None:
        if leader in self._arrays:
            self._members.update(self._parts(leader))
            del self._arrays[leader]

    def _parts(self, leader: str) -> dict[str, HostArray]:
        # Copies: the step reuses the device's memory.
        return {name: np.array(self._arrays[leader]) for name in self._groups[leader]}


def owned(array: HostArray) -> jax.Array:
    """A copy on the device, which a step may reuse."""
    # Of the host's array JAX shares aligned memory, which XLA cannot reuse; of its own it makes a
    # copy. `jnp.array` would compile a program for each shape.
    copy: jax.Array = jax.device_put(jax.device_put(array), may_alias=False)
    return copy.block_until_ready()

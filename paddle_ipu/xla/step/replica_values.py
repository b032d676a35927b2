"""Weights that the replicas do not share: groups of replicas have values of their own.

The host gives such a weight one entry for each group, and so the step has it, [groups, *shape], as
it has the optimizer's state and the sums of gradients; a replica computes with its group's. Of a
weight that the graph writes the step has one entry for each replica, as of any that it writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.lowerings.registry import HostArray

Tree = dict[str, Any]
Number = int | jax.Array
Values = TypeVar("Values", jax.Array, HostArray)


@dataclass(frozen=True, slots=True)
class ReplicaValues:
    """How the replicas have a weight's values, and which of them the host reads.

    Attributes:
        groups: the number of each replica's group.
        reads_all: the host reads the values of every replica, not of the first of each group.
    """

    groups: tuple[int, ...]
    reads_all: bool = False

    @property
    def dims(self) -> tuple[int, ...]:
        """(groups,), nothing for one."""
        count = max(self.groups) + 1
        return (count,) if count > 1 else ()

    @property
    def group_size(self) -> int:
        """Replicas of a group."""
        return self.groups.count(0)

    @property
    def places(self) -> tuple[int, ...]:
        """How many replicas of its group are before each replica."""
        return tuple(self.groups[:at].count(group) for at, group in enumerate(self.groups))

    @property
    def first_replicas(self) -> list[int]:
        """The first replica of each group."""
        return [self.groups.index(group) for group in range(max(self.groups) + 1)]

    def group_of(self, replica: Number) -> Number:
        """The number of a replica's group."""
        if isinstance(replica, int):
            return self.groups[replica]
        return jnp.asarray(self.groups, jnp.int32)[replica]

    def place_of(self, replica: Number) -> Number:
        """How many replicas of its group are before a replica."""
        if isinstance(replica, int):
            return self.places[replica]
        return jnp.asarray(self.places, jnp.uint32)[replica]

    def of_each_replica(self, array: Values) -> Values:
        """The values of each replica, [replicas, *shape], given those of each group."""
        return (
            array[np.asarray(self.groups)] if self.dims else array[None].repeat(len(self.groups), 0)
        )

    def read(self, array: Values, is_written: bool) -> Values:
        """What the host reads, given what the step has; `is_written` by the graph."""
        if self.reads_all:
            return array if is_written else self.of_each_replica(array)
        return self._of_first_replicas(array) if is_written else array

    def given(self, array: Values) -> Values:
        """What the host gives, given what it has read."""
        return self._of_first_replicas(array) if self.reads_all else array

    def _of_first_replicas(self, array: Values) -> Values:
        """The values of each group, given those of each replica."""
        each: Values = array[np.asarray(self.first_replicas)] if self.dims else array[0]
        return each


def of_replica(values: Mapping[str, ReplicaValues], arrays: Tree, replica: Number) -> Tree:
    """The arrays of one replica: of those in `values`, its group's."""
    if not values:
        return arrays
    return {
        name: array[values[name].group_of(replica)] if name in values else array
        for name, array in arrays.items()
    }


def with_replicas(
    values: Mapping[str, ReplicaValues], arrays: Tree, own: Tree, replica: Number
) -> Tree:
    """The arrays with those of one replica: of those in `values`, in the place of its group's."""
    return {
        name: arrays[name].at[values[name].group_of(replica)].set(array)
        if name in values
        else array
        for name, array in own.items()
    }

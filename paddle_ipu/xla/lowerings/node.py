"""A node of a PopART graph with the lowering that answers for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from paddle_ipu.xla.lowerings.index_ranges import Watch
from paddle_ipu.xla.lowerings.registry import Lowering


class Block(Protocol):
    """A subgraph of an operator; it reads tensors of the graph around it by their ids.

    Attributes:
        inputs: ids of its own inputs.
        outputs: ids of what it gives.
        captured: ids of the tensors around it that it reads.
        graph: its nodes, as the step evaluates them.
    """

    graph: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]

    def run(
        self,
        around: Mapping[str, Any],
        training: bool,
        arguments: Sequence[Any],
        key: jax.Array,
        ranges: Watch | None,
    ) -> list[Any]:
        """What the subgraph gives for `arguments`, its inputs in order."""

    def origin(self, output: int) -> Any:
        """What an output is without evaluating: an input's id, a constant, else None."""


@dataclass(frozen=True, slots=True)
class LoweredNode:
    """A node with its rule and its attributes as plain Python values.

    Attributes:
        random_index: the number of this node among those that draw random numbers; None for one
            that draws none.
        constants: initializers that the operator takes as constants, by input.
        blocks: its subgraphs, by attribute.
        captured: what the subgraphs read of the graph around them, at the end of `inputs`.
        bounds: inputs that say how far it goes, in which 64-bit numbers may be beyond 32 bits.
        partials: the type of partial sums that the node itself asks for, ``FLOAT`` or ``HALF``.
        indices: inputs that only say which elements are meant.
        in_64_bits: it computes with integers of 64 bits.
        scope: what XLA's names of the instructions it becomes begin with, by `scope_names`.
    """

    name: str
    domain: str
    op_type: str
    rule: Lowering
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    random_index: int | None
    constants: Mapping[int, np.ndarray[Any, Any]]
    blocks: Mapping[str, Block] = field(default_factory=dict)
    captured: tuple[str, ...] = ()
    bounds: frozenset[int] = frozenset()
    partials: str | None = None
    scope: str = ""
    indices: tuple[int, ...] = ()
    in_64_bits: bool = False

"""A node of a PopART graph with its lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import jax

from paddle_ipu.xla.lowerings.range_checks import Checks
from paddle_ipu.xla.lowerings.registry import Array, HostArray, Lowering, Operand

Kind = TypeVar("Kind")


class Block(Protocol):
    """A subgraph of an operator; it reads tensors of the graph around it by their ids.

    Attributes:
        inputs: ids of its own inputs.
        outputs: ids of its outputs.
        captured: ids of the tensors around it that it reads.
        graph: its nodes, as the step evaluates them.
    """

    graph: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]

    def run(
        self,
        around: Mapping[str, Array],
        training: bool,
        arguments: Sequence[Operand],
        key: jax.Array,
        ranges: Checks | None,
    ) -> list[Array]:
        """Its outputs for `arguments`, its inputs in order."""

    def origin(self, output: int) -> str | HostArray | None:
        """What an output is without evaluating: an input's id, a constant, else None."""


@dataclass(frozen=True, slots=True)
class LoweredNode:
    """A node with its lowering and its attributes as plain Python values.

    Attributes:
        random_index: the number of this node among those that draw random numbers; None for one
            that draws none.
        constants: initializers that the operator takes as constants, by input.
        blocks: its subgraphs, by attribute.
        captured: what the subgraphs read of the graph around them, at the end of `inputs`.
        bounds: inputs that are limits, such as a number of iterations, in which 64-bit numbers may
            be beyond 32 bits.
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
    constants: Mapping[int, HostArray]
    blocks: Mapping[str, Block] = field(default_factory=dict)
    captured: tuple[str, ...] = ()
    bounds: frozenset[int] = frozenset()
    partials: str | None = None
    scope: str = ""
    indices: tuple[int, ...] = ()
    in_64_bits: bool = False

    def own(self, operands: Sequence[Operand]) -> Sequence[Operand]:
        """Its operands without those that only its subgraphs read."""
        return operands[: len(operands) - len(self.captured)]

    def of_inputs(self, known: Mapping[str, Kind]) -> list[Kind | None]:
        """What is known of each input by its tensor id; None for nothing."""
        return [known.get(name) if name else None for name in self.inputs]

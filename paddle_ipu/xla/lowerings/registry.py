"""The table of lowerings: one rule for each PopART operator, found by domain and type.

A lowering is a pure function ``(context, inputs, attributes) -> output or outputs`` on JAX values.
Inputs that are constants of the program arrive as ``numpy.ndarray``, everything else as JAX
arrays; an omitted optional input is ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from paddle_ipu.errors import LoweringError
from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.xla.lowerings.index_ranges import BlockRanges, IndexRange, Watch
from paddle_ipu.xla.lowerings.residuals import Rematerialization
from paddle_ipu.xla.precision.settings import Precision

Attributes = Mapping[str, Any]
Array = jax.Array | np.ndarray[Any, Any]
Lowering = Callable[["LoweringContext", Sequence[Any], Attributes], Any]

REPLICA_AXIS = "replicas"
"""JAX's name for the replicas of a step in lockstep."""

INSTANCE_AXIS = "instances"
"""JAX's name for the instances of a distributed program."""

_LOWERINGS: dict[tuple[str, str], Lowering] = {}
_RANDOM: set[tuple[str, str]] = set()
_EFFECTS: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class BlockContext:
    """A subgraph of the operator that is lowered.

    Attributes:
        run: (its inputs, a random key, what watches its indices) -> its outputs.
        origin: number of an output -> the id of the input that it is, or its constant value, or
            None where it is computed.
        inputs: ids of its inputs.
        wide_inputs: which of them have integers of 64 bits.
        wide_outputs: which of its outputs have.
    """

    run: Callable[[Sequence[Any], jax.Array, Watch | None], list[Any]]
    origin: Callable[[int], Any]
    inputs: Sequence[str]
    wide_inputs: Sequence[bool] = ()
    wide_outputs: Sequence[bool] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a matrix that a Gather has read.

    Attributes:
        rows: what it made, which keeps its id.
        table: the matrix's tensor id.
        data: the matrix.
        indices: which rows, none below zero.
    """

    rows: Any
    table: str | None
    data: Any
    indices: Any


@dataclass(frozen=True, slots=True)
class LoweringContext:
    """What a lowering may ask about the operator it lowers.

    Attributes:
        domain: ``ai.onnx``, ``ai.graphcore`` or ``ai.paddle_ipu``.
        op_type: the operator's type, for instance ``MatMul``.
        name: the node's name, for messages.
        training: True in a training session; dropout is the identity otherwise.
        rng_key: gives this operator's own random key of the current micro-batch; raises where
            the lowering was not registered as random.
        num_outputs: how many outputs the node declares.
        sources: for each input, what a Reshape made it of; None where it comes from another
            operator.
        turned: for each input, the matrix of which it is the Transpose; None where it is of none.
        logits: for each input, what a Softmax over the last axis made it of; None without one.
        lookups: what Gathers of this graph have read, by the id of the array that they made of it.
        rematerializations: for each input, how backward makes it again; None where it keeps it.
        hands_on: the operator may give later readers of its first input, a large weight, what they
            read; it goes to `handed_on`.
        handed_on: number of an input -> what later readers of the same tensor are given.
        rematerialized: number of a result -> how backward may make it again; the lowering says so.
        kernel: of an operator that runs on the host, its kernel; see
            ``paddle_ipu.compiler.cpu_kernels``.
        is_watched: the program says what the operator takes, and `watch` sees to that.
        blocks: the operator's subgraphs, by attribute.
        input_ids: tensor ids of the inputs, None for an omitted one.
        ranges: watches indices, by `within`.
        dtypes: for each input, ``float16`` or ``bfloat16`` where it is one; its array is float32.
        precision: what the session's options say about rounding and sums.
        partials: the type of partial sums that the node itself asks for, ``FLOAT`` or ``HALF``.
        replicas: how many this process has; several that exchange values are the axis
            `REPLICA_AXIS`.
        instances: processes with as many replicas each; several are the axis `INSTANCE_AXIS`.
        in_64_bits: INT64 has 64 bits here, else 32.
        integers_of_paddle: casts to integers are those of C.
    """

    domain: str
    op_type: str
    name: str
    training: bool
    rng_key: Callable[[], jax.Array]
    num_outputs: int = 1
    sources: Sequence[Any] = ()
    turned: Sequence[Any] = ()
    logits: Sequence[Any] = ()
    lookups: dict[int, Lookup] = field(default_factory=dict)
    rematerializations: Sequence[Rematerialization | None] = ()
    hands_on: bool = False
    handed_on: dict[int, Any] = field(default_factory=dict)
    rematerialized: dict[int, Rematerialization] = field(default_factory=dict)
    dtypes: Sequence[str | None] = ()
    kernel: Any = None
    is_watched: bool = False
    blocks: Mapping[str, BlockContext] = field(default_factory=dict)
    ranges: Watch | None = None
    input_ids: Sequence[str | None] = ()
    precision: Precision = Precision()
    partials: str | None = None
    replicas: int = 1
    instances: int = 1
    in_64_bits: bool = False
    integers_of_paddle: bool = False

    @property
    def is_half(self) -> bool:
        """Whether the first input is float16."""
        return "float16" in self.dtypes[:1]

    def sums_in_half(self, by_option: bool) -> bool:
        """Whether partial sums are float16: the node says so, else `by_option`, of half inputs."""
        return self.is_half and (self.partials == "HALF" if self.partials else by_option)

    def within(
        self, what: str, indices: Any, low: int, high: int, ignored: int | None = None
    ) -> None:
        """Has the run raise IndexRangeError for an index that is not in `low` to `high`.

        Inside a subgraph only where the operator runs. Nothing where the program itself says what
        the operator takes.

        Args:
            what: how the message names one, for instance ``index``.
            indices: integers of any shape.
            ignored: a number that is no index.
        """
        if self.ranges is not None and not self.is_watched:
            taken = IndexRange(self.name, self.op_type, what, low, high, ignored)
            self.ranges.add(taken, indices)

    def watch(self, taken: OperandRange, numbers: Any) -> None:
        """Has the run raise OperandValueError for one of `numbers` that the program refuses."""
        if self.ranges is not None:
            found = IndexRange(
                self.name, self.op_type, taken.what, taken.low, taken.high, nonzero=taken.nonzero
            )
            self.ranges.add(found, numbers)

    def block_ranges(self) -> BlockRanges:
        """What watches the indices in one of the operator's subgraphs."""
        return BlockRanges([] if self.ranges is None else self.ranges.inside)

    def within_blocks(self, before: BlockRanges, found: jax.Array) -> None:
        """Has the run raise IndexRangeError for what was found in the subgraphs.

        Args:
            before: made by `block_ranges` before the subgraphs were evaluated.
            found: what the ones that watched them found.
        """
        if self.ranges is not None and before.watches:
            self.ranges.add_block(self.op_type, self.name, found)

    def static(self, inputs: Sequence[Any], index: int, what: str) -> np.ndarray[Any, Any]:
        """The constant input `index`, called `what` in the error if it is not constant."""
        value = inputs[index]
        if isinstance(value, (jax.core.Tracer, jax.Array)) or value is None:
            name = f" ({self.name})" if self.name else ""
            raise LoweringError(
                f"{self.domain}.{self.op_type}{name}: input {index}, {what}, must be a "
                f"constant, got {'nothing' if value is None else 'a tensor computed at run time'}. "
                "Write the value into the program instead of computing it from a feed."
            )
        return np.asarray(value)


def lowering(
    domain: str, *op_types: str, random: bool = False, effect: bool = False
) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of `op_types` in `domain`; a second one raises.

    Args:
        domain: ``ai.onnx``, ``ai.graphcore`` or ``ai.paddle_ipu``.
        op_types: the operators.
        random: it draws from ``context.rng_key``.
        effect: it does something on the host, whether its outputs are wanted or not.
    """

    def register(rule: Lowering) -> Lowering:
        for op_type in op_types:
            key = (domain, op_type)
            if key in _LOWERINGS:
                raise ValueError(f"{domain}.{op_type} already has a lowering: {_LOWERINGS[key]}")
            _LOWERINGS[key] = rule
            if random:
                _RANDOM.add(key)
            if effect:
                _EFFECTS.add(key)
        return rule

    return register


def find_lowering(domain: str, op_type: str) -> Lowering | None:
    """The lowering of an operator, or None."""
    return _LOWERINGS.get((domain, op_type))


def is_random(domain: str, op_type: str) -> bool:
    """Whether the operator's lowering draws random numbers."""
    return (domain, op_type) in _RANDOM


def has_effect(domain: str, op_type: str) -> bool:
    """Whether the operator's lowering does something on the host."""
    return (domain, op_type) in _EFFECTS


def lowered_operators() -> list[tuple[str, str]]:
    """(domain, type) of every operator with a lowering, sorted."""
    return sorted(_LOWERINGS)

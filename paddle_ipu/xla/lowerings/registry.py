"""The table of lowerings: one rule for each PopART operator, found by domain and type.

A lowering is a pure function ``(context, inputs, attributes) -> output or outputs`` on JAX values.
Inputs that are constants of the program arrive as ``numpy.ndarray``, everything else as JAX
arrays; an omitted optional input is ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.image_layouts import ImageLayouts
from paddle_ipu.xla.lowerings.range_checks import BlockRangeChecks, Checks, RangeCheck
from paddle_ipu.xla.lowerings.residuals import Rematerialization
from paddle_ipu.xla.precision.settings import Precision

Attributes = Mapping[str, Any]
HostArray = np.ndarray[Any, Any]
Array = jax.Array | HostArray
Operand = Array | None
"""None stands for an optional input that is left out."""

Lowering = Callable[["LoweringContext", Sequence[Any], Attributes], Any]

REWRITTEN = "paddle_ipu.xla"
"""The domain of operators that passes of ``xla/rewrites`` put into a graph."""

REPLICA_AXIS = "replicas"
"""JAX's name for the replicas of a step in lockstep."""

INSTANCE_AXIS = "instances"
"""JAX's name for the instances of a distributed program."""

_LOWERINGS: dict[tuple[str, str], Lowering] = {}
_RANDOM: set[tuple[str, str]] = set()
_EFFECTS: set[tuple[str, str]] = set()


class HostKernel(Protocol):
    """An operator's kernel on the host; ``paddle_ipu.compiler.cpu_kernels`` has Paddle's."""

    def forward(self, *operands: Any) -> Sequence[Any]:
        """The operator's results."""

    def backward(self, operands: Any, gradients: Any) -> Sequence[Any]:
        """Gradients of the floating-point operands, from those of such results."""

    def gradient_program(self) -> Any:
        """Builds what `backward` runs."""


@dataclass(frozen=True, slots=True)
class BlockContext:
    """A subgraph of the operator that is lowered.

    Attributes:
        run: (its inputs, a random key, what collects its range checks) -> its outputs.
        origin: number of an output -> the id of the input that it is, or its constant value, or
            None where it is computed.
        inputs: ids of its inputs.
        wide_inputs: which of them have integers of 64 bits.
        wide_outputs: which of its outputs have.
    """

    run: Callable[[Sequence[Operand], jax.Array, Checks | None], list[Array]]
    origin: Callable[[int], str | HostArray | None]
    inputs: Sequence[str]
    wide_inputs: Sequence[bool] = ()
    wide_outputs: Sequence[bool] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a matrix that a Gather has read.

    Attributes:
        rows: its result; held, so that no other array has its id.
        table: the matrix's tensor id.
        data: the matrix.
        indices: which rows, none below zero.
    """

    rows: jax.Array
    table: str | None
    data: jax.Array
    indices: jax.Array


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
        sources: for each input, the operand of the Reshape that made it; None where it comes from
            another operator.
        transposed: for each input, the matrix of which it is the Transpose; None without one.
        logits: for each input, the operand of the Softmax over the last axis that made it; None
            without one.
        lookups: what Gathers of this graph have read, by the id of their result.
        images: which arrays of this graph are there in channels-last layout, too.
        rematerializations: for each input, how backward makes it again; None where it is kept.
        may_rebind: the lowering may replace the array of its first input, a large weight, for later
            readers, by `rebound`.
        rebound: number of an input -> the array for later readers of the same tensor.
        rematerialized: number of a result -> how backward may make it again, by the lowering.
        kernel: of an operator that runs on the host, its kernel.
        is_checked: the program says what the operator takes, so that `within` need not.
        blocks: the operator's subgraphs, by attribute.
        input_ids: tensor ids of the inputs, None for an omitted one.
        ranges: collects range checks, by `within`.
        dtypes: for each input, ``float16`` or ``bfloat16`` where it is one; its array is float32.
        precision: what the session's options say about rounding and sums.
        partials: the type of partial sums that the node itself asks for, ``FLOAT`` or ``HALF``.
        replicas: how many this process has; several that exchange values are the axis
            `REPLICA_AXIS`.
        instances: processes with as many replicas each; several are the axis `INSTANCE_AXIS`.
        in_64_bits: INT64 has 64 bits here, else 32.
        integers_of_paddle: casts to integers are those of C, and a label that is no class is
            refused.
        is_joined: PopART differentiates this loss together with the softmax before it.
    """

    domain: str
    op_type: str
    name: str
    training: bool
    rng_key: Callable[[], jax.Array]
    num_outputs: int = 1
    sources: Sequence[Operand] = ()
    transposed: Sequence[Operand] = ()
    logits: Sequence[Operand] = ()
    lookups: dict[int, Lookup] = field(default_factory=dict)
    images: ImageLayouts = field(default_factory=ImageLayouts)
    rematerializations: Sequence[Rematerialization | None] = ()
    may_rebind: bool = False
    rebound: dict[int, Array] = field(default_factory=dict)
    rematerialized: dict[int, Rematerialization] = field(default_factory=dict)
    dtypes: Sequence[str | None] = ()
    kernel: HostKernel | None = None
    is_checked: bool = False
    blocks: Mapping[str, BlockContext] = field(default_factory=dict)
    ranges: Checks | None = None
    input_ids: Sequence[str | None] = ()
    precision: Precision = Precision()
    partials: str | None = None
    replicas: int = 1
    instances: int = 1
    in_64_bits: bool = False
    integers_of_paddle: bool = False
    is_joined: bool = False

    @property
    def is_half(self) -> bool:
        """Whether the first input is float16."""
        return "float16" in self.dtypes[:1]

    def sums_in_half(self, by_option: bool) -> bool:
        """Whether partial sums are float16: the node says so, else `by_option`, of half inputs."""
        return self.is_half and (self.partials == "HALF" if self.partials else by_option)

    def within(
        self,
        what: str,
        indices: Array,
        low: int,
        high: int,
        ignored: int | None = None,
        effect: str = "",
    ) -> None:
        """Has the run raise IndexRangeError for an index that is not in `low` to `high`.

        Inside a subgraph only where the operator runs. Nothing where the program itself says what
        the operator takes.

        Args:
            what: how the message names one, for instance ``index``.
            indices: integers of any shape.
            ignored: a number that is no index.
            effect: what such an index does, in sentences; then the run tells it once instead.
        """
        if self.ranges is not None and not self.is_checked:
            check = RangeCheck(self.name, self.op_type, what, low, high, ignored, effect=effect)
            self.ranges.add(check, indices)

    def block_ranges(self) -> BlockRangeChecks:
        """What collects the range checks in one of the operator's subgraphs."""
        return BlockRangeChecks([] if self.ranges is None else self.ranges.inside)

    def within_blocks(self, before: BlockRangeChecks, wrong: jax.Array) -> None:
        """Has the run raise IndexRangeError for what was found in the subgraphs.

        Args:
            before: made by `block_ranges` before the subgraphs were evaluated.
            wrong: by those that were made for the subgraphs.
        """
        if self.ranges is not None and before.has_checks:
            self.ranges.add_block(self.op_type, self.name, wrong)

    def static(self, inputs: Sequence[Operand], index: int, what: str) -> HostArray:
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
        domain: ``ai.onnx``, ``ai.graphcore``, ``ai.paddle_ipu`` or :data:`REWRITTEN`.
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
    """(domain, type) of every operator of PopART with a lowering, sorted."""
    return sorted(key for key in _LOWERINGS if key[0] != REWRITTEN)

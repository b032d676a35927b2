"""A node evaluated by its lowering, and the functions that wrap such an evaluation.

A wrapper is a function ``(node, operands, next) -> results``. It changes operands before it calls
``next``, or results after that, or looks at either. :func:`composed` makes one function of the
lowering and several wrappers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.xla.lowerings import image_layouts
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.node_values import POPARTS
from paddle_ipu.xla.lowerings.range_checks import Checks
from paddle_ipu.xla.lowerings.registry import (
    Array,
    BlockContext,
    HostKernel,
    LoweringContext,
    Operand,
)
from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.step.operand_origins import OperandOrigins

Evaluate = Callable[[LoweredNode, Sequence[Operand]], Sequence[Array]]
"""(a node, its operands) -> its results."""

Wrapper = Callable[[LoweredNode, Sequence[Operand], Evaluate], Sequence[Array]]


def composed(wrappers: Sequence[Wrapper], innermost: Evaluate) -> Evaluate:
    """`innermost` with wrappers around it, the outermost first."""
    evaluate = innermost
    for wrapper in reversed(wrappers):
        evaluate = functools.partial(_wrapped, wrapper, evaluate)
    return evaluate


def _wrapped(
    wrapper: Wrapper, inner: Evaluate, node: LoweredNode, operands: Sequence[Operand]
) -> Sequence[Array]:
    return wrapper(node, operands, inner)


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """What holds for a graph and its subgraphs.

    Attributes:
        precision: what the session's options say about rounding and sums.
        replicas: of this process.
        instances: processes that run the program together.
        in_64_bits: tensors that are integers of 64 bits.
        integers_of_paddle: casts to integers are those of C, and a label that is no class is
            refused.
        joined_losses: first results of losses that PopART differentiates together with the softmax
            before them.
        kernels: first result of an operator that runs on the host -> what runs it there.
        operand_ranges: first result of an operator -> which numbers the program has it take.
    """

    precision: Precision = field(default_factory=Precision)
    replicas: int = 1
    instances: int = 1
    in_64_bits: frozenset[str] = frozenset()
    integers_of_paddle: bool = False
    joined_losses: frozenset[str] = frozenset()
    kernels: Mapping[str, HostKernel] = field(default_factory=dict)
    operand_ranges: Mapping[str, Sequence[OperandRange]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeLowering:
    """Calls a node's lowering.

    Attributes:
        settings: of the graph.
        half_dtypes: tensor -> ``float16`` or ``bfloat16``; its array is float32.
        training: as in a training session.
        random_key: gives the key of a node, or raises where it draws nothing.
        origins: what the operands were made of.
        checks: collects the operands whose range is checked at run time; None where none is.
        rebindable: large weights whose array a lowering may replace for later readers.
    """

    settings: GraphSettings
    half_dtypes: Mapping[str, str]
    training: bool
    random_key: Callable[[LoweredNode], jax.Array]
    origins: OperandOrigins
    checks: Checks | None = None
    rebindable: Collection[str] = ()

    def __call__(self, node: LoweredNode, operands: Sequence[Operand]) -> Sequence[Array]:
        """The node's results."""
        settings, origins = self.settings, self.origins
        first = node.outputs[0] if node.outputs else ""
        context = LoweringContext(
            domain=node.domain,
            op_type=node.op_type,
            name=node.name,
            training=self.training,
            rng_key=functools.partial(self.random_key, node),
            num_outputs=len(node.outputs),
            dtypes=[self.half_dtypes.get(name) if name else None for name in node.inputs],
            sources=node.of_inputs(origins.reshaped),
            transposed=node.of_inputs(origins.transposed),
            logits=node.of_inputs(origins.logits),
            lookups=origins.lookups,
            images=origins.images,
            may_rebind=bool(node.inputs) and node.inputs[0] in self.rebindable,
            rematerializations=node.of_inputs(origins.rematerializations),
            kernel=settings.kernels.get(first),
            is_checked=bool(settings.operand_ranges.get(first)),
            blocks=_blocks(node, operands, self.training),
            ranges=self.checks,
            input_ids=node.inputs,
            precision=settings.precision,
            partials=node.partials,
            replicas=settings.replicas,
            instances=settings.instances,
            in_64_bits=node.in_64_bits,
            integers_of_paddle=settings.integers_of_paddle,
            is_joined=first in settings.joined_losses,
        )
        results = self._computed(node, context, operands)
        origins.rebind(node, context.rebound)
        origins.remember(node, context.rematerialized, self.half_dtypes)
        origins.record(node, operands, results)
        return results

    def _computed(
        self, node: LoweredNode, context: LoweringContext, operands: Sequence[Operand]
    ) -> Sequence[Array]:
        own, images = node.own(operands), self.origins.images
        is_elementwise = node.domain in POPARTS and node.op_type in image_layouts.ELEMENTWISE
        turned = images.operands(own) if is_elementwise else None
        made = node.rule(context, own if turned is None else turned, node.attributes)
        results: Sequence[Array] = made if isinstance(made, (tuple, list)) else (made,)
        return results if turned is None else [images.first(jnp.asarray(r)) for r in results]


def _blocks(
    node: LoweredNode, operands: Sequence[Operand], training: bool
) -> Mapping[str, BlockContext]:
    """The blocks of a node with the arrays that they read of the graph around them."""
    if not node.blocks:
        return {}
    captured = operands[len(node.own(operands)) :]
    around = {
        name: array
        for name, array in zip(node.captured, captured, strict=True)
        if array is not None
    }
    return {
        name: BlockContext(
            functools.partial(block.run, around, training),
            block.origin,
            block.inputs,
            [name in block.graph.widths.in_64_bits for name in block.inputs],
            [name in block.graph.widths.in_64_bits for name in block.outputs],
        )
        for name, block in node.blocks.items()
    }

"""Wrappers of a few lines, each one concern; larger ones have files of their own.

``node_lowering.py`` says what a wrapper is, ``Evaluation`` has their order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.popart.wide_integers import check_fits
from paddle_ipu.xla.lowerings.image_layouts import ImageLayouts
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.range_checks import Checks, RangeCheck
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.precision.half import Narrow
from paddle_ipu.xla.step.node_lowering import Evaluate

VIEWS = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Identity"})
"""Operators that XLA looks through when it adds constants."""


def tapped(
    taps: Mapping[str, jax.Array],
    node: LoweredNode,
    operands: Sequence[Operand],
    evaluate: Evaluate,
) -> Sequence[Array]:
    """Wraps a node: adds zeros to its results, whose gradient is then that of the results."""
    results = evaluate(node, operands)
    return [
        result + taps[name] if name in taps else result
        for name, result in zip(node.outputs, results, strict=False)
    ]


def reported(
    progress: Callable[[int], None],
    numbers: Iterator[int],
    node: LoweredNode,
    operands: Sequence[Operand],
    evaluate: Evaluate,
) -> Sequence[Array]:
    """Wraps a node: calls `progress` with the node's number behind its evaluation."""
    results = evaluate(node, operands)
    progress(next(numbers))
    return results


def rounded(
    narrow: Narrow,
    images: ImageLayouts,
    node: LoweredNode,
    operands: Sequence[Operand],
    evaluate: Evaluate,
) -> Sequence[Array]:
    """Wraps a node: rounds its results, and the gradient that it gives each operand."""
    operands = [
        None
        if name is None or operand is None
        else images.changed(operand, functools.partial(narrow.operand, name))
        for name, operand in zip(node.inputs, operands, strict=True)
    ]
    results = evaluate(node, operands)
    return [
        images.changed(result, functools.partial(narrow.result, node.op_type, name))
        for name, result in zip(node.outputs, results, strict=False)
    ]


def with_constants(
    training: bool, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: gives it initializers as constants; training may change those of floats."""
    operands = list(operands)
    for index, constant in node.constants.items():
        if not training or constant.dtype.kind in "iu":
            operands[index] = constant
    return evaluate(node, operands)


def summed_in_order(
    sums: set[str], node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: constants that are added one after another are not added to each other.

    XLA makes ``(1 + 1e-8) - x`` of ``(1 - x) + 1e-8``, which is 0 where `x` is 1, and its logarithm
    infinite. A barrier around the constant keeps XLA from it and is gone in the compiled step.

    Args:
        sums: results of sums with constants, and their views; grows by the node's.
    """
    if node.op_type in VIEWS and node.inputs[0] in sums:
        sums.update(node.outputs)
    if node.op_type in ("Add", "Sub"):
        is_constant = [isinstance(o, np.ndarray) and o.dtype.kind == "f" for o in operands]
        if sum(is_constant) == 1:
            index = is_constant.index(True)
            if node.inputs[1 - index] in sums:
                operands = list(operands)
                constant = jnp.asarray(operands[index])
                operands[index] = lax.optimization_barrier(constant)  # type: ignore[no-untyped-call]
            sums.update(node.outputs)
    return evaluate(node, operands)


def within_32_bits(
    node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: constants beyond 32 bits do not reach the device.

    Raises:
        popart_exception: a result on the device comes from such a constant.
    """
    results = evaluate(node, operands)
    if node.in_64_bits or all(isinstance(result, np.ndarray) for result in results):
        return results
    own = node.own(operands)
    for index, (name, operand) in enumerate(zip(node.inputs, own, strict=False)):
        if isinstance(operand, np.ndarray) and index not in node.bounds:
            check_fits(operand, str(name), f"{node.domain}.{node.op_type} ({node.outputs[0]}): ")
    return results


def range_checked(
    ranges: Mapping[str, Sequence[OperandRange]],
    checks: Checks,
    node: LoweredNode,
    operands: Sequence[Operand],
    evaluate: Evaluate,
) -> Sequence[Array]:
    """Wraps a node: has the run raise OperandValueError for a number that the program refuses.

    Args:
        ranges: first result of an operator -> which numbers it takes.
        checks: collects them.
    """
    for accepted in ranges.get(node.outputs[0], ()) if node.outputs else ():
        check = RangeCheck(
            node.name, node.op_type, accepted.what, accepted.low, accepted.high,
            nonzero=accepted.nonzero,
        )  # fmt: skip
        integers = operands[accepted.operand]
        assert integers is not None
        checks.add(check, integers)
    return evaluate(node, operands)

"""Range checks that the program itself asks for, beside those of the lowerings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.range_checks import Checks, RangeCheck
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate


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

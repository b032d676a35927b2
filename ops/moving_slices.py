"""Slices of constant lengths from places computed at run time: ``x[:, i : i + 2]``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from paddle_ipu import dialect
from paddle_ipu.ops.context import TranslationContext

_COPIES = frozenset({"assign", "cast", "reshape", "share_data", "squeeze", "unsqueeze"})
_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)


def cut_at_run_time(context: TranslationContext, axes: list[int]) -> str:
    """The part of a tensor along `axes`, whose bounds are tensors, before dimensions are dropped.

    Raises:
        NotSupported: a length does not follow from the program: an end is not its start and a
            constant.
    """
    part = context.input("x" if context.has("x") else "input")
    dropped = [int(axis) for axis in context.attr("decrease_axis", ())]
    starts, ends = _bounds(context, "starts", len(axes)), _bounds(context, "ends", len(axes))
    for axis, start, end in zip(axes, starts, ends, strict=True):
        fixed = [_constant(context, bound) for bound in (start, end)]
        if fixed[0] is not None and fixed[1] is not None:
            numbers = [context.shape_const([number]) for number in (fixed[0], fixed[1], axis)]
            part = str(context.onnx.slice([part, *numbers]))
            continue
        (first, before), (last, behind) = _origin(context, start), _origin(context, end)
        is_one = axis in dropped
        if not is_one and (first is not last or behind <= before):
            raise context.refuse(
                f"the bounds of axis {axis} are computed at run time, and its length does not "
                "follow from the program. An IPU program has static shapes: write x[i : i + 2], "
                "with a constant number of elements, or take them by paddle.gather or "
                "paddle.index_select with that many indices."
            )
        offset = context.reshape(context.tensor(start), [1])
        steps = np.arange(1 if is_one else behind - before)
        places = context.onnx.add([offset, context.const(steps, context.dtype(offset))])
        part = str(context.onnx.gather([part, str(places)], axis % context.rank(part)))
        if not is_one:
            # From the end, a slice that reaches the front is empty.
            context.from_zero.add(part)
    return part


def _bounds(context: TranslationContext, name: str, count: int) -> list[ir.Value]:
    values = context.values(name)
    while len(values) == 1 and (node := values[0].producer()) is not None:
        if node.op_type not in ("stack", "concat"):
            break
        values = [value for found, value in dialect.operands(node) if found == "x" and value]
    if len(values) != count:
        raise context.refuse(
            f"its {name} are {count} numbers in one tensor that is computed at run time. Give "
            "them one by one: x[i : i + 2, j : j + 3]."
        )
    return values


def _constant(context: TranslationContext, bound: ir.Value) -> int | None:
    array = context.constants.get(id(bound))
    return None if array is None else int(np.asarray(array).reshape(()))


def _origin(context: TranslationContext, value: ir.Value) -> tuple[ir.Value, int]:
    """(the tensor a bound is computed from, the constant that was added to it)."""
    added = 0
    while (node := value.producer()) is not None:
        source = dialect.operand(node, "x")
        if source is None or source.dtype not in _INTEGERS:
            break
        if node.op_type == "scale":
            factor = dialect.operand(node, "scale")
            bias = float(dialect.attribute(node, "bias", 0.0))
            by = 1 if factor is None else context.constants.get(id(factor))
            if by is None or np.asarray(by).reshape(()) != 1 or not bias.is_integer():
                break
            added += int(bias)
        elif node.op_type not in _COPIES:
            break
        value = source
    return value, added

"""Slices of constant length that start at an index computed at run time: ``x[:, i : i + 2]``."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext

_COPIES = frozenset({"assign", "cast", "reshape", "share_data", "squeeze", "unsqueeze"})
_PURE = _COPIES | {
    "add", "argmax", "argmin", "concat", "floor_divide", "gather", "gather_nd", "max", "maximum",
    "min", "minimum", "multiply", "remainder", "scale", "slice", "split", "stack",
    "strided_slice", "subtract", "sum",
}  # fmt: skip
"""Operators without side effects or randomness, in which bounds are often written twice."""
_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)


@dataclass(frozen=True, slots=True)
class Moving:
    """`count` consecutive indices of an axis, the first computed at run time.

    Attributes:
        start: the first index, a tensor of one element.
        count: how many indices.
        from_zero: a negative start is out of range. As a slice's start it would count from the end,
            and a slice that crosses index 0 is empty.
    """

    start: ir.Value
    count: int
    from_zero: bool

    def places(self, context: TranslationContext) -> str:
        """The indices, a vector of `count` integers; negative ones count from the end."""
        offset = context.reshape(context.tensor(self.start), [1])
        return context.onnx.add(
            [offset, context.const(np.arange(self.count), context.dtype(offset))]
        )


def onnx_bounds(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """(start, end) for ONNX's Slice that selects what Paddle and NumPy select.

    They differ for a negative step and a start before the front: Paddle selects nothing, ONNX
    clamps the start to the first element.

    Args:
        size: the length of the axis.
        start: Paddle's start.
        end: Paddle's end.
        step: the step.
    """
    return (0, 0) if step < 0 and start < -size else (start, end)


def bounds_at_run_time(
    context: TranslationContext,
    axes: Sequence[int],
    steps: Sequence[int],
    dropped: Collection[int],
) -> list[tuple[int, int] | Moving]:
    """The slice of each axis: constant (start, end), or indices known at run time only.

    Args:
        context: of the node, whose operands ``starts`` and ``ends`` are read.
        axes: the sliced axes.
        steps: the step of each.
        dropped: axes that a single index removes.

    Raises:
        NotSupported: a length is not constant: the end is not the start plus a constant; or such a
            slice has a step other than 1.
    """
    slices: list[tuple[int, int] | Moving] = []
    starts, ends = _bounds(context, "starts", len(axes)), _bounds(context, "ends", len(axes))
    for axis, step, start, end in zip(axes, steps, starts, ends, strict=True):
        fixed = _constant(context, start), _constant(context, end)
        if fixed[0] is not None and fixed[1] is not None:
            slices.append((fixed[0], fixed[1]))
            continue
        (first, before), (last, behind) = _origin(context, start), _origin(context, end)
        is_one = axis in dropped
        if not is_one and (first != last or behind <= before):
            raise context.refuse(
                f"the bounds of axis {axis} are computed at run time, and its length does not "
                "follow from the program. An IPU program has static shapes: write x[i : i + 2], "
                "with a constant number of elements, or take them by paddle.gather or "
                "paddle.index_select with that many indices."
            )
        if step != 1:
            raise context.refuse(
                f"the bounds of axis {axis} are computed at run time, with a step of {step}: "
                "places that move have a step of 1. Use paddle.gather or paddle.scatter with "
                "indices of your own."
            )
        slices.append(Moving(start, 1 if is_one else behind - before, not is_one))
    return slices


def cut_at_run_time(context: TranslationContext, axes: list[int], steps: list[int]) -> str:
    """The sliced operand ``x`` or ``input``, before single indices remove axes.

    Args:
        context: of the node.
        axes: the sliced axes.
        steps: the step of each.

    Raises:
        NotSupported: as in `bounds_at_run_time`.
    """
    part = context.input("x" if context.has("x") else "input")
    dropped = context.ints("decrease_axis")
    cuts = bounds_at_run_time(context, axes, steps, dropped)
    for axis, step, cut in zip(axes, steps, cuts, strict=True):
        if isinstance(cut, Moving):
            places = cut.places(context)
            axis %= context.rank(part)
            size = context.shape(part)[axis]
            part = context.onnx.gather([part, places], axis)
            if cut.from_zero:
                context.check_range(part, 1, "index", 0, size - 1)
        else:
            bounds = onnx_bounds(context.shape(part)[axis], *cut, step)
            numbers = [context.shape_const([number]) for number in (*bounds, axis, step)]
            part = context.onnx.slice([part, *numbers])
    return part


def _bounds(context: TranslationContext, name: str, count: int) -> list[ir.Value]:
    """One value for each sliced axis, from a list or the operator that stacked them."""
    values = context.values(name)
    while len(values) == 1 and (node := values[0].producer()) is not None:
        if node.op_type not in ("stack", "concat"):
            break
        values = [value for operand, value in dialect.operands(node) if operand == "x" and value]
    if len(values) != count:
        raise context.refuse(
            f"its {name} are {count} numbers in one tensor that is computed at run time. Give "
            "them one by one: x[i : i + 2, j : j + 3]."
        )
    return values


def _constant(context: TranslationContext, bound: ir.Value) -> int | None:
    array = context.constants.get(id(bound))
    return None if array is None else int(np.asarray(array).reshape(()))


def _origin(context: TranslationContext, value: ir.Value) -> tuple[Hashable, int]:
    """(a key of the expression that a bound is computed from, the constant added to it).

    Two bounds with equal keys differ by the difference of their constants. The key is structural:
    ``i[0]`` written twice is two operators, and one key.
    """
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
        elif node.op_type in ("add", "subtract"):
            sign = 1 if node.op_type == "add" else -1
            other = dialect.operand(node, "y")
            number = None if other is None else _number(context, other)
            if number is None:
                break
            added += sign * number
        elif node.op_type not in _COPIES:
            break
        value = source
    return _expression(context, value, {}), added


def _number(context: TranslationContext, value: ir.Value) -> int | None:
    array = context.constants.get(id(value))
    if (
        array is None
        or np.size(array) != 1
        or not np.issubdtype(np.asarray(array).dtype, np.integer)
    ):
        return None
    return int(np.asarray(array).reshape(()))


def _expression(
    context: TranslationContext, value: ir.Value, known: dict[int, Hashable]
) -> Hashable:
    """A key that is equal for equal pure expressions of the same values."""
    if id(value) in known:
        return known[id(value)]
    node, array = value.producer(), context.constants.get(id(value))
    expression: Hashable = id(value)
    if array is not None:
        constant = np.asarray(array)
        expression = (str(constant.dtype), constant.shape, constant.tobytes())
    elif node is not None and node.op_type in _PURE:
        attributes = [
            (key, repr(attribute.value)) for key, attribute in sorted(node.attributes.items())
        ]
        inputs = [item and _expression(context, item, known) for item in node.inputs]
        expression = (node.op_type, *attributes, *inputs, node.outputs.index(value))
    known[id(value)] = expression
    return expression

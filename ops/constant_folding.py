"""Evaluates shape arithmetic at compile time, so that it stays a constant of the program.

A program that writes ``paddle.reshape(x, [paddle.shape(x)[0], -1])`` computes a shape at run time.
On an IPU every shape is static, so the integer operators between ``shape`` and ``reshape`` are
evaluated with NumPy. Only results of at most 64 elements are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import Array, TranslationContext

Folder = Callable[[TranslationContext], Array]
_LARGEST = 64
_DIVISIONS = ("divide", "floor_divide", "remainder")


def fold(context: TranslationContext) -> bool:
    """Evaluates the context's node if all its operands are constants.

    Returns:
        True if the result is in ``context.constants``, and nothing needs to be emitted.
    """
    node = context.node
    name = str(node.op_type)
    folder = find_folder(name)
    operands = [value for value in node.inputs if value is not None]
    if folder is None or not operands:
        return False
    if any(id(value) not in context.constants for value in operands):
        return False
    if name in _DIVISIONS and _by_zero(context.static("y")):
        return False
    # The device gives infinities and NaN without a warning, and so does this.
    with np.errstate(all="ignore"):
        result = np.asarray(folder(context))
        dtype = np.dtype(dialect.dtype_name(node.outputs[0]))
        if result.size > _LARGEST or _is_beyond(result, dtype):
            return False
        context.constants[id(node.outputs[0])] = result.astype(dtype)
    return True


def _by_zero(divisor: Array) -> bool:
    """Whether an integer divisor has a zero: then the operator is emitted, and a run raises."""
    return divisor.dtype.kind in "iu" and not divisor.all()


def _is_beyond(result: Array, dtype: np.dtype[Any]) -> bool:
    """Whether a float result does not fit its integer dtype.

    NumPy's cast then depends on the CPU, while the device has a defined one.
    """
    if result.dtype.kind != "f" or dtype.kind not in "iu":
        return False
    limits = np.iinfo(dtype)
    # limits.max of int64 is not representable as a float; limits.max + 1 is.
    return not bool(np.all((result >= limits.min) & (result < float(limits.max) + 1.0)))


def find_folder(op_type: str) -> Folder | None:
    """The function that evaluates an operator; an in-place form shares that of the plain one."""
    return FOLDERS.get(op_type) or FOLDERS.get(op_type.removesuffix("_"))


def _binary(function: Callable[..., Any]) -> Folder:
    return lambda context: np.asarray(function(context.static("x"), context.static("y")))


def _scale(context: TranslationContext) -> Array:
    x = context.static("x")
    # Paddle casts both numbers to the dtype of x first.
    factor = context.static("scale").reshape(()).astype(x.dtype)
    bias = np.asarray(context.attr("bias", 0.0)).astype(x.dtype)
    if context.attr("bias_after_scale", 1):
        return np.asarray(x * factor + bias)
    return np.asarray((x + bias) * factor)


def _slice(context: TranslationContext) -> Array:
    x = context.static("input")
    cut = [slice(None)] * x.ndim
    axes = context.attr("axes")
    for axis, start, end in zip(axes, context.ints("starts"), context.ints("ends"), strict=True):
        cut[axis] = slice(start, end)
    return np.squeeze(x[tuple(cut)], axis=tuple(context.attr("decrease_axis", ())))


def _stack(context: TranslationContext) -> Array:
    arrays = [context.constants[id(value)] for value in context.values("x")]
    return np.stack(arrays, axis=context.attr("axis", 0))


def _concat(context: TranslationContext) -> Array:
    arrays = [context.constants[id(value)] for value in context.values("x")]
    return np.concatenate(arrays, axis=int(context.static("axis").reshape(())))


FOLDERS: Mapping[str, Folder] = {
    "add": _binary(np.add),
    "subtract": _binary(np.subtract),
    "multiply": _binary(np.multiply),
    "floor_divide": _binary(np.floor_divide),
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "remainder": _binary(np.remainder),
    "equal": _binary(np.equal),
    "not_equal": _binary(np.not_equal),
    "less_than": _binary(np.less),
    "less_equal": _binary(np.less_equal),
    "greater_than": _binary(np.greater),
    "greater_equal": _binary(np.greater_equal),
    "logical_and": _binary(np.logical_and),
    "logical_or": _binary(np.logical_or),
    "logical_not": lambda context: np.logical_not(context.static("x")),
    "increment": lambda context: np.asarray(context.static("x") + context.attr("value", 1.0)),
    "scale": _scale,
    "slice": _slice,
    "stack": _stack,
    "concat": _concat,
    "divide": _binary(np.true_divide),
    "cast": lambda context: context.static("x"),
    "assign": lambda context: context.static("x"),
    "prod": lambda context: np.asarray(np.prod(context.static("x"))),
    "reshape": lambda context: context.static("x").reshape(context.ints("shape")),
    "squeeze": lambda context: np.squeeze(context.static("x"), axis=tuple(context.ints("axis"))),
    "unsqueeze": lambda context: np.expand_dims(
        context.static("x"), axis=tuple(context.ints("axis"))
    ),
}
"""Paddle operator -> the function that evaluates it when all its operands are constants."""

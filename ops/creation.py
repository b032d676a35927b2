"""Translators of operators whose result is a constant of the program, or a filled tensor.

A constant is returned as an array and becomes a tensor only if an operator reads it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import Array, TranslationContext, product
from paddle_ipu.ops.registry import translator

_Real = np.integer[Any] | np.floating[Any]


def _as_result(context: TranslationContext, values: npt.ArrayLike) -> Array:
    """`values` in the dtype of the node's result."""
    return np.asarray(values).astype(dialect.dtype_name(context.node.outputs[0]))


def _number(context: TranslationContext, name: str) -> Any:
    return context.static(name).reshape(())[()]


def _shape_of(context: TranslationContext, name: str) -> list[int]:
    """The shape of operand `name`, of a constant too."""
    constant = context.constants.get(id(context.values(name)[0]))
    return context.shape(context.input(name)) if constant is None else list(constant.shape)


def _count(context: TranslationContext, count: int) -> int:
    """A number of elements, where memory has room for them.

    Raises:
        InvalidProgramError: it has not.
    """
    dialect.check_constant(context.node, [count])
    return count


def _steps(start: _Real, end: _Real, step: _Real) -> int:
    """How many steps lead from `start` to `end`, the last one perhaps beyond it.

    Raises:
        ArithmeticError, ValueError: no number of them does.
    """
    # Python's numbers raise where NumPy's warn, and integers do not overflow.
    first, last, each = (value.item() for value in (start, end, step))
    count: int = math.ceil((last - first) / each)
    return count


@translator("full", "full_int_array", "assign_value", emits=())
def constant(context: TranslationContext) -> Array:
    """A constant that the program holds."""
    value = dialect.constant(context.node.outputs[0])
    assert value is not None
    return value


@translator("full_batch_size_like", emits=())
def full_batch_size_like(context: TranslationContext) -> Array:
    """A filled tensor; dimension ``output_dim_idx`` is dimension ``input_dim_idx`` of the input."""
    shape = context.ints("shape")
    batch = _shape_of(context, "input")[int(context.attr("input_dim_idx", 0))]
    shape[int(context.attr("output_dim_idx", 0))] = batch
    dialect.check_constant(context.node, shape)
    return _as_result(context, np.full(shape, context.attr("value", 0.0)))


@translator("empty", emits=(), limits="the shape must be constant; it holds zeros")
def empty(context: TranslationContext) -> Array:
    """An uninitialised tensor in Paddle; zeros here."""
    return _zeros(context, context.ints("shape"))


@translator("empty_like", emits=(), limits="it holds zeros")
def empty_like(context: TranslationContext) -> Array:
    """An uninitialised tensor in another's shape in Paddle; zeros here."""
    return _zeros(context, _shape_of(context, "x"))


def _zeros(context: TranslationContext, shape: list[int]) -> Array:
    dialect.check_constant(context.node, shape)
    return _as_result(context, np.zeros(shape))


@translator("is_empty", emits=())
def is_empty(context: TranslationContext) -> Array:
    """Whether a tensor has no elements; a constant, since shapes are static."""
    return _as_result(context, product(_shape_of(context, "x")) == 0)


@translator("tril_indices", emits=())
def tril_indices(context: TranslationContext) -> Array:
    """Row and column indices [2, n] of the elements on and below a diagonal."""
    rows, columns, offset = (int(context.attr(name)) for name in ("rows", "cols", "offset"))
    dialect.check_constant(context.node, [rows, columns])
    return _as_result(context, np.asarray(np.tril_indices(rows, offset, columns)))


@translator("triu_indices", emits=())
def triu_indices(context: TranslationContext) -> Array:
    """Row and column indices [2, n] of the elements on and above a diagonal."""
    rows, columns, offset = (int(context.attr(name)) for name in ("row", "col", "offset"))
    dialect.check_constant(context.node, [rows, columns])
    return _as_result(context, np.asarray(np.triu_indices(rows, offset, columns)))


@translator("logspace", emits=(), limits="start, stop, num and base must be constant")
def logspace(context: TranslationContext) -> Array:
    """``base ** linspace(start, stop, num)``."""
    start, stop, base = (float(_number(context, name)) for name in ("start", "stop", "base"))
    number = _count(context, context.ints("num")[0])
    return _as_result(context, np.logspace(start, stop, number, base=base))


def _filled(context: TranslationContext, shape: list[int]) -> Array | str:
    """A tensor of that shape filled with operand ``value``; a constant if ``value`` is one."""
    if context.is_constant("value"):
        dialect.check_constant(context.node, shape)
        return _as_result(context, np.full(shape, _number(context, "value")))
    value = context.cast(context.input("value"), context.output_dtype())
    reshaped = context.reshape(value, [1] * len(shape))
    return context.onnx.expand([reshaped, context.shape_const(shape)])


@translator("full_like", emits=("Cast", "Reshape", "Expand"))
def full_like(context: TranslationContext) -> Array | str:
    """A tensor filled with ``value``, in the shape of x."""
    return _filled(context, _shape_of(context, "x"))


@translator("full_with_tensor", emits=("Reshape", "Expand"), limits="the shape must be constant")
def full_with_tensor(context: TranslationContext) -> Array | str:
    """A tensor filled with ``value``; the shape is an operand."""
    return _filled(context, context.ints("shape"))


@translator("shape", "shape64", emits=())
def shape(context: TranslationContext) -> Array:
    """The shape of a tensor; a constant, since shapes are static."""
    return _as_result(context, _shape_of(context, "input"))


@translator("numel", emits=())
def numel(context: TranslationContext) -> Array:
    """The number of elements; a constant, since shapes are static."""
    return _as_result(context, product(_shape_of(context, "x")))


@translator("assign_value_", emits=())
def assign_value(context: TranslationContext) -> Array:
    """A constant with its values and shape as attributes."""
    return _as_result(context, context.attr("values")).reshape(context.attr("shape"))


@translator("arange", emits=(), limits="start, end and step must be constant")
def arange(context: TranslationContext) -> Array:
    """``start + i * step`` up to ``end``, excluded."""
    start, end, step = (_number(context, name) for name in ("start", "end", "step"))
    _count(context, _steps(start, end, step))
    return _as_result(context, np.arange(start, end, step))


@translator("range_v2", emits=(), limits="start, end and step must be constant")
def range_v2(context: TranslationContext) -> Array:
    """``start + i * step`` up to ``end``, included."""
    start, end, step = (_number(context, name) for name in ("start", "end", "step"))
    count = _count(context, int((end - start) // step) + 1)
    return _as_result(context, start + step * np.arange(count))


@translator("linspace", emits=(), limits="start, stop and number must be constant")
def linspace(context: TranslationContext) -> Array:
    """``number`` evenly spaced values from ``start`` to ``stop``, both included."""
    start, stop = (float(_number(context, name)) for name in ("start", "stop"))
    number = _count(context, context.ints("number")[0])
    return _as_result(context, np.linspace(start, stop, number))


@translator("eye", emits=(), limits="the size must be constant")
def eye(context: TranslationContext) -> Array:
    """The identity matrix, square if ``num_columns`` is negative."""
    rows, columns = context.ints("num_rows")[0], context.ints("num_columns")[0]
    columns = rows if columns < 0 else columns
    dialect.check_constant(context.node, [rows, columns])
    return _as_result(context, np.eye(rows, columns))


@translator(
    "sequence_mask",
    emits=("Less", "Reshape", "Cast"),
    limits="maxlen must be given, unless the lengths are constant",
)
def sequence_mask(context: TranslationContext) -> str:
    """1 at positions below each length, 0 elsewhere, along a new last axis of ``max_len``."""
    lengths = context.input("x")
    longest = context.ints("max_len")[0] if context.has("max_len") else -1
    if longest < 0 and context.is_constant("x"):
        longest = int(context.static("x").max())
    if longest < 0:
        raise context.refuse("maxlen must be given: an IPU program has static shapes.")
    positions = context.const(np.arange(_count(context, longest)), context.dtype(lengths))
    ends = context.reshape(lengths, [*context.shape(lengths), 1])
    return context.cast(context.onnx.less([positions, ends]), context.output_dtype())

"""What the lowerings share: their types, constant folding, ONNX data types, checked axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.popart.program import narrowed_dtype
from paddle_ipu.xla.lowerings.registry import Array, Attributes, Lowering, LoweringContext

Constant = np.ndarray[Any, Any]
"""A constant of the program."""

Inputs = Sequence[Array]
"""The operands of an operator; one that may be omitted is read by :func:`optional_input`."""

Single = tuple[jax.Array]
"""Primals or tangents of a function of one array."""

Pair = tuple[jax.Array, jax.Array]
"""A result and its tangent; an array and its residual; or two results."""

Results = jax.Array | tuple[jax.Array, ...]
"""What an operator of computed inputs gives."""

_ON_DEVICE = (
    ir.DataType.FLOAT, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.UINT16, ir.DataType.INT16,
    ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.FLOAT16,
    ir.DataType.DOUBLE, ir.DataType.UINT32, ir.DataType.UINT64, ir.DataType.BFLOAT16,
)  # fmt: skip
"""Types that tensors may have. Those of 64 bits become narrower, but INT64 of Paddle programs."""


def where_in_program(context: LoweringContext) -> str:
    """The operator as messages name it, for instance ``ai.onnx.Add (encoder/add)``."""
    name = f" ({context.name})" if context.name else ""
    return f"{context.domain}.{context.op_type}{name}"


def are_constants(values: Iterable[Array]) -> bool:
    """Whether every value is a constant of the program, so that the result can stay one."""
    return all(isinstance(value, np.ndarray) for value in values)


def array_module(values: Iterable[Array]) -> ModuleType:
    """``numpy`` when every value is a constant of the program, else ``jax.numpy``."""
    return np if are_constants(values) else jnp


def element_type(context: LoweringContext, to: int | str) -> np.dtype[Any]:
    """The device's dtype for an ONNX data type, given by number or by PopART's name."""
    kind = next((known for known in _ON_DEVICE if to in (known, known.name)), None)
    if kind is None:
        raise LoweringError(
            f"{where_in_program(context)}: the data type {to!r} does not exist on the device; "
            f"expected one of {', '.join(known.name for known in _ON_DEVICE)} or its ONNX number."
        )
    keeps_bits = context.in_64_bits and kind is ir.DataType.INT64
    return np.dtype(np.int64 if keeps_bits else narrowed_dtype(kind))


def checked_axis(context: LoweringContext, axis: int, rank: int) -> int:
    """`axis` counted from the front; raises `LoweringError` unless -rank <= axis < rank."""
    if not -rank <= axis < rank:
        raise LoweringError(
            f"{where_in_program(context)}: axis {axis} does not fit a tensor of rank {rank}; "
            f"expected a value from {-rank} to {rank - 1}."
        )
    return axis % rank


def checked_axes(context: LoweringContext, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """`axes` counted from the front, in order; raises `LoweringError` on a value out of range."""
    return tuple(checked_axis(context, int(axis), rank) for axis in axes)


def static_integers(context: LoweringContext, inputs: Inputs, index: int, what: str) -> list[int]:
    """The constant integer input `index` as a flat list."""
    return [int(value) for value in context.static(inputs, index, what).reshape(-1)]


def optional_input(inputs: Sequence[Array | None], index: int) -> Array | None:
    """Input `index`, or None where it is omitted."""
    return inputs[index] if index < len(inputs) else None


def on_axis(inputs: Inputs, attributes: Attributes) -> Inputs:
    """The operands, the second reshaped so that its first axis is ``axis`` of the first operand.

    Opset 6 asks for that with ``broadcast``; later opsets broadcast as NumPy.
    """
    axis = attributes.get("axis")
    if not attributes.get("broadcast") or axis is None:
        return inputs
    first, second = inputs
    behind = first.ndim - int(axis) % max(first.ndim, 1) - second.ndim
    return first, second.reshape(second.shape + (1,) * behind)


def integers(attributes: Attributes, name: str) -> list[int] | None:
    """The integer list attribute `name`, or None where it is absent."""
    value = attributes.get(name)
    return None if value is None else [int(item) for item in value]


def is_floating(value: Array) -> bool:
    """Whether the elements are floating-point numbers, bfloat16 included."""
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


def lowest_number(value: Array) -> Constant:
    """The lowest finite number of the element type, of rank 0."""
    info: Any = jnp.finfo if is_floating(value) else jnp.iinfo
    return np.asarray(info(value.dtype).min, value.dtype)


def shifted(x: jax.Array, axis: int, fill: float, reverse: bool = False) -> jax.Array:
    """Each element's predecessor along `axis`, or successor in reverse; `fill` at the end."""
    size = x.shape[axis]
    if not size:
        return x
    kept = (
        lax.slice_in_dim(x, 1, None, axis=axis)
        if reverse
        else lax.slice_in_dim(x, 0, size - 1, axis=axis)
    )
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (0, 1, 0) if reverse else (1, 0, 0)
    return lax.pad(kept, jnp.full((), fill, x.dtype), widths)


def unary(function: Callable[[jax.Array], Results]) -> Lowering:
    """The lowering of an operator that is a function of its one input."""

    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Results:
        return function(jnp.asarray(inputs[0]))

    return rule


def binary(function: Callable[[Array, Array], jax.Array]) -> Lowering:
    """The lowering of an operator that is a function of its two inputs, which it broadcasts."""

    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
        return function(*inputs)

    return rule


def numpy_function(name: str) -> Lowering:
    """The lowering of an operator that NumPy and jax.numpy both have as the function `name`.

    Its result is a constant where all inputs are. Opset 6's ``broadcast`` and ``axis`` are obeyed.
    """
    on_constants, on_tensors = getattr(np, name), getattr(jnp, name)

    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Array:
        operands = on_axis(inputs, attributes)
        result: Array = (
            np.asarray(on_constants(*operands))
            if are_constants(operands)
            else on_tensors(*operands)
        )
        return result

    return rule

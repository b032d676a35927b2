"""Lowerings of matrix products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import input_or_none, is_floating
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering
from paddle_ipu.xla.lowerings.residuals import Rematerialization, due, on_cpu, together
from paddle_ipu.xla.precision import partials

Make = Callable[..., Any]


def _contracted(first: Any, second: Any, first_axis: int, second_axis: int) -> Any:
    """Product of two matrices over one axis of each."""
    return lax.dot_general(first, second, (((first_axis,), (second_axis,)), ((), ())))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _dense(x: Any, weights: Any, make: Make, arrays: tuple[Any, ...]) -> Any:
    """[N, H] @ [H, O]; backward makes the first factor again, by ``make(*arrays)``."""
    return _contracted(x, weights, 1, 0)


def _dense_forward(x: Any, weights: Any, make: Make, arrays: tuple[Any, ...]) -> tuple[Any, Any]:
    return _dense(x, weights, make, arrays), (weights, arrays)


def _dense_backward(make: Make, residuals: tuple[Any, Any], gradient: Any) -> tuple[Any, Any, None]:
    weights, arrays = residuals
    arrays, gradient = due(arrays, gradient)
    x = make(*arrays).reshape(gradient.shape[0], weights.shape[0])
    of_x = _contracted(gradient, weights, 1, 1)
    if not on_cpu():
        return of_x, _contracted(x, gradient, 0, 0), None
    # XLA's CPU backend is 6 to 18 % faster on row-major factors than on a contraction over the
    # rows of both (N = 512), the transpose included; the barrier keeps it from being folded back.
    turned = lax.optimization_barrier(lax.transpose(x, (1, 0)))  # type: ignore[no-untyped-call]
    return of_x, _contracted(turned, gradient, 1, 0), None


_dense.defvjp(_dense_forward, _dense_backward)


def _itself(x: Any) -> Any:
    return x


@jax.custom_vjp
def _projected(x: Any, table: Any) -> Any:
    """[N, H] and [O, H] -> [N, O], the product with the second matrix's transpose."""
    out = lax.optimization_barrier(_contracted(table, x, 1, 1))  # type: ignore[no-untyped-call]
    return lax.transpose(out, (1, 0))


def _projected_forward(x: Any, table: Any) -> tuple[Any, tuple[Any, Any]]:
    return _projected(x, table), (x, table)


def _projected_backward(residuals: tuple[Any, Any], gradient: Any) -> tuple[Any, Any]:
    (x, table), gradient = due(residuals, gradient)
    turned = lax.optimization_barrier(lax.transpose(x, (1, 0)))  # type: ignore[no-untyped-call]
    return _contracted(gradient, table, 1, 0), _contracted(gradient, turned, 0, 1)


_projected.defvjp(_projected_forward, _projected_backward)


def _pays_to_turn(rows: int, table: Any) -> bool:
    """Whether to make the transpose of a product with a large matrix instead of the product.

    XLA's CPU backend first copies the second factor of ``x @ table.T``, transposed: a second word
    embedding, in memory that is mapped anew each time, for a product with the few rows that are
    masked. Of the transposed product it copies the rows instead. Measured for 80 rows and
    [30522, 768] the step needs 94 MB less and the product half of the processor time; with rows
    by the hundred it takes longer.
    """
    large = table.size * table.dtype.itemsize >= _LARGE
    return large and rows <= _FEW and on_cpu()


_FEW, _LARGE = 128, 1 << 26


@lowering("ai.onnx", "MatMul")
def matmul(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """NumPy's matmul: the last two axes multiply, those before broadcast."""
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    if context.sums_in_half(context.precision.half_matmuls):
        return _summed_in_half(x, weights)
    if weights.ndim != 2 or x.ndim < 2 or not is_floating(x):
        return jnp.matmul(x, weights)
    # As matrices, [B, S, H] x [H, O] has one product each way; over three axes the gradient of
    # the weights would copy the incoming gradient.
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x
    table = context.transposed[1] if context.transposed else None
    if table is not None and _pays_to_turn(rows.shape[0], table):
        rows, table = together((rows, table))
        return _projected(rows, table).reshape(*x.shape[:-1], weights.shape[1])
    remake = context.rematerializations[0] if context.rematerializations else None
    again = remake or Rematerialization(_itself, (rows,))
    kept = lax.stop_gradient(again.arrays)
    return _dense(rows, weights, again.make, kept).reshape(*x.shape[:-1], weights.shape[1])


def _summed_in_half(x: Any, weights: Any) -> Any:
    out = partials.matmul(
        x[None] if x.ndim == 1 else x, weights[:, None] if weights.ndim == 1 else weights
    )
    if x.ndim == 1:
        out = jnp.squeeze(out, -2)
    return jnp.squeeze(out, -1) if weights.ndim == 1 else out


@lowering("ai.onnx", "Gemm")
def gemm(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """``alpha * A' @ B' + beta * C``, where ``transA`` and ``transB`` transpose the factors."""
    x, y = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    turn_x, turn_y = bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0))
    if context.sums_in_half(context.precision.half_matmuls):
        out = partials.matmul(x.T if turn_x else x, y.T if turn_y else y)
    else:
        out = _contracted(x, y, 0 if turn_x else 1, 1 if turn_y else 0)
    alpha, beta = float(attributes.get("alpha", 1.0)), float(attributes.get("beta", 1.0))
    if alpha != 1.0:
        out = out * alpha
    bias = input_or_none(inputs, 2)
    if bias is None:
        return out
    return out + (bias if beta == 1.0 else beta * bias)

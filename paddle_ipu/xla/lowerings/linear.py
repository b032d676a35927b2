"""Lowerings of matrix products."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from paddle_ipu.xla.kernels import ways
from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, is_floating, optional_input
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering
from paddle_ipu.xla.lowerings.residuals import Rematerialization, due, on_cpu, together
from paddle_ipu.xla.precision import partials

Rebuild = Callable[..., jax.Array]


_ROW_MAJOR = Layout(major_to_minor=(0, 1))

_DenseResiduals = tuple[jax.Array, tuple[jax.Array, ...]]
"""(weights, what the first factor is rematerialized from)."""


def _contracted(
    first: jax.Array, second: jax.Array, first_axis: int, second_axis: int, narrow: bool = False
) -> jax.Array:
    """Product of two matrices over one axis of each, in float32.

    With `narrow` their elements are numbers of bfloat16, which the processor multiplies as such:
    products are exact as in float32, and so are the sums but for the order of their terms.
    """
    if narrow:
        first, second = (lax.convert_element_type(x, jnp.bfloat16) for x in (first, second))
    return lax.dot_general(
        first, second, (((first_axis,), (second_axis,)), ((), ())),
        preferred_element_type=jnp.float32 if narrow else None,
    )  # fmt: skip


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _dense(
    x: jax.Array,
    weights: jax.Array,
    rebuild: Rebuild,
    narrow: bool,
    arrays: tuple[jax.Array, ...],
) -> jax.Array:
    """[N, H] @ [H, O]; backward rematerializes the first factor by ``rebuild(*arrays)``."""
    return _contracted(x, weights, 1, 0, narrow)


def _dense_forward(
    x: jax.Array,
    weights: jax.Array,
    rebuild: Rebuild,
    narrow: bool,
    arrays: tuple[jax.Array, ...],
) -> tuple[jax.Array, _DenseResiduals]:
    return _dense(x, weights, rebuild, narrow, arrays), (weights, arrays)


def _dense_backward(
    rebuild: Rebuild, narrow: bool, residuals: _DenseResiduals, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    weights, arrays = residuals
    arrays, gradient = due(arrays, gradient)
    x = rebuild(*arrays).reshape(gradient.shape[0], weights.shape[0])
    of_x = _contracted(gradient, weights, 1, 1, narrow)
    if narrow:
        # The processor's instructions need row-major factors. Without the constraint XLA turns
        # nothing in memory and reads the columns.
        turned = lax.transpose(lax.convert_element_type(x, jnp.bfloat16), (1, 0))
        turned = with_layout_constraint(turned, _ROW_MAJOR)  # type: ignore[no-untyped-call]
        return of_x, _contracted(turned, gradient, 1, 0, narrow), None
    if not on_cpu():
        return of_x, _contracted(x, gradient, 0, 0), None
    # XLA's CPU backend is 6 to 18 % faster on row-major factors than on a contraction over the
    # rows of both (N = 512), the transpose included; the barrier keeps it from being folded back.
    transposed = lax.optimization_barrier(lax.transpose(x, (1, 0)))  # type: ignore[no-untyped-call]
    return of_x, _contracted(transposed, gradient, 1, 0), None


_dense.defvjp(_dense_forward, _dense_backward)


def _identity(x: jax.Array) -> jax.Array:
    return x


@jax.custom_vjp
def _projected(x: jax.Array, table: jax.Array) -> jax.Array:
    """[N, H] and [O, H] -> [N, O], the product with the second matrix's transpose."""
    out = lax.optimization_barrier(_contracted(table, x, 1, 1))  # type: ignore[no-untyped-call]
    return lax.transpose(out, (1, 0))


def _projected_forward(x: jax.Array, table: jax.Array) -> tuple[jax.Array, Pair]:
    return _projected(x, table), (x, table)


def _projected_backward(residuals: Pair, gradient: jax.Array) -> Pair:
    (x, table), gradient = due(residuals, gradient)
    transposed = lax.optimization_barrier(lax.transpose(x, (1, 0)))  # type: ignore[no-untyped-call]
    return _contracted(gradient, table, 1, 0), _contracted(gradient, transposed, 0, 1)


_projected.defvjp(_projected_forward, _projected_backward)


def _is_transposed_product_cheaper(rows: int, table: jax.Array) -> bool:
    """Whether to compute ``table @ x.T`` and transpose it, instead of ``x @ table.T``.

    XLA's CPU backend first copies the second factor of ``x @ table.T``, transposed: a second word
    embedding, in newly mapped memory at each step, for a product with the few masked rows. Of
    ``table @ x.T`` it copies the rows instead. Measured for 80 rows and [30522, 768] the step needs
    94 MB less and the product half of the processor time; with hundreds of rows it takes longer.
    """
    is_large = table.size * table.dtype.itemsize >= _LARGE_TABLE
    return is_large and rows <= _FEW_ROWS and on_cpu()


_FEW_ROWS = 128
_LARGE_TABLE = 1 << 26
"""Bytes."""


@lowering("ai.onnx", "MatMul")
def matmul(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """NumPy's matmul: the last two axes multiply, those before broadcast."""
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    if context.sums_in_half(context.precision.half_matmuls):
        return _summed_in_half(x, weights)
    if weights.ndim != 2 or x.ndim < 2 or not is_floating(x):
        return jnp.matmul(x, weights)
    # As matrices, [B, S, H] x [H, O] is one product forward and two backward; with three axes the
    # weights' gradient would copy the incoming gradient.
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x
    source = context.transposed[1] if context.transposed else None
    table = None if source is None else jnp.asarray(source)
    if table is not None and _is_transposed_product_cheaper(rows.shape[0], table):
        rows, table = together((rows, table))
        return _projected(rows, table).reshape(*x.shape[:-1], weights.shape[1])
    known = context.rematerializations[0] if context.rematerializations else None
    remat = known or Rematerialization(_identity, (rows,))
    kept = lax.stop_gradient(remat.arrays)
    narrow = _has_narrow_products(context, rows)
    return _dense(rows, weights, remat.make, narrow, kept).reshape(*x.shape[:-1], weights.shape[1])


def _has_narrow_products(context: LoweringContext, rows: jax.Array) -> bool:
    """Whether the processor multiplies bfloat16 itself, faster than float32."""
    return (
        list(context.dtypes[:2]) == ["bfloat16"] * 2
        and on_cpu()
        and ways.has_narrow_products(rows.shape[0])
    )


def _summed_in_half(x: jax.Array, weights: jax.Array) -> jax.Array:
    """NumPy's matmul with partial sums in float16; vectors become matrices for it."""
    out = partials.matmul(
        x[None] if x.ndim == 1 else x, weights[:, None] if weights.ndim == 1 else weights
    )
    if x.ndim == 1:
        out = jnp.squeeze(out, -2)
    return jnp.squeeze(out, -1) if weights.ndim == 1 else out


@lowering("ai.onnx", "Gemm")
def gemm(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``alpha * A' @ B' + beta * C``, where ``transA`` and ``transB`` transpose the factors."""
    x, y = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    transposes_x, transposes_y = (bool(attributes.get(name, 0)) for name in ("transA", "transB"))
    if context.sums_in_half(context.precision.half_matmuls):
        out = partials.matmul(x.T if transposes_x else x, y.T if transposes_y else y)
    else:
        out = _contracted(x, y, 0 if transposes_x else 1, 1 if transposes_y else 0)
    alpha, beta = float(attributes.get("alpha", 1.0)), float(attributes.get("beta", 1.0))
    if alpha != 1.0:
        out = out * alpha
    bias = optional_input(inputs, 2)
    if bias is None:
        return out
    return out + (bias if beta == 1.0 else beta * bias)

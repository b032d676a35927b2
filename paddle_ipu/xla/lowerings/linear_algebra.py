"""Lowerings of decompositions and solvers of matrices; leading dimensions are stacks of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import linalg

from paddle_ipu.xla.lowerings.arrays import unary
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _turned(x: Any) -> Any:
    return jnp.swapaxes(x, -1, -2)


@jax.custom_vjp
def _cholesky(x: Any) -> Any:
    """The lower factor of what stands in the lower triangle."""
    return lax.linalg.cholesky(x, symmetrize_input=False)


def _cholesky_forward(x: Any) -> tuple[Any, Any]:
    factor = _cholesky(x)
    return factor, factor


def _cholesky_backward(factor: Any, gradient: Any) -> tuple[Any]:
    # Both triangles have half of the gradient.
    inner = jnp.tril(_turned(factor) @ jnp.tril(gradient))
    size = factor.shape[-1]
    inner = inner * (1 - 0.5 * jnp.eye(size, dtype=factor.dtype))
    solve = functools.partial(
        lax.linalg.triangular_solve, factor, left_side=True, lower=True, transpose_a=True
    )
    found = _turned(solve(_turned(solve(inner))))
    return (0.5 * (found + _turned(found)),)


_cholesky.defvjp(_cholesky_forward, _cholesky_backward)


@lowering("ai.paddle_ipu", "Cholesky")
def cholesky(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The triangular factor of positive definite matrices."""
    x = jnp.asarray(inputs[0])
    if attributes.get("upper", 0):
        return _turned(_cholesky(_turned(x)))
    return _cholesky(x)


_SINGULAR = 1e-5


@jax.custom_jvp
def _determinant(x: Any) -> Any:
    return jnp.linalg.det(x)


@_determinant.defjvp
def _determinant_jvp(primals: Any, tangents: Any) -> Any:
    # Paddle gives no gradient to any matrix where it takes one of the stack for singular.
    (x,), (tangent,) = primals, tangents
    out = _determinant(x)
    singular = jnp.any(jnp.abs(out) < _SINGULAR)
    safe = jnp.where(singular, jnp.eye(x.shape[-1], dtype=x.dtype), x)
    slope = out * jnp.trace(jnp.linalg.solve(safe, tangent), axis1=-2, axis2=-1)
    return out, jnp.where(singular, jnp.zeros_like(out), slope)


lowering("ai.paddle_ipu", "Determinant")(unary(_determinant))
lowering("ai.paddle_ipu", "SlogDeterminant")(unary(lambda x: tuple(jnp.linalg.slogdet(x))))
lowering("ai.paddle_ipu", "MatrixInverse")(unary(jnp.linalg.inv))


def _of_lower_triangle(x: Any) -> Any:
    """Symmetric matrices whose derivative stays with both triangles, by halves."""
    triangle = jnp.tril(x) + _turned(jnp.tril(x, -1))
    whole = 0.5 * (x + _turned(x))
    return lax.stop_gradient(triangle - whole) + whole


@lowering("ai.paddle_ipu", "Eigh")
def eigh(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Eigenvalues and eigenvectors of what stands in one triangle of symmetric matrices."""
    x = jnp.asarray(inputs[0])
    x = x if attributes.get("lower", 1) else _turned(x)
    vectors, values = lax.linalg.eigh(_of_lower_triangle(x), symmetrize_input=False)
    return values, vectors


@lowering("ai.paddle_ipu", "Svd")
def svd(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Singular values in descending order between the two factors."""
    x = jnp.asarray(inputs[0])
    if attributes.get("values_only", 0):
        return jnp.linalg.svd(x, compute_uv=False)
    return tuple(jnp.linalg.svd(x, full_matrices=bool(attributes.get("full_matrices", 0))))


@lowering("ai.paddle_ipu", "Qr")
def qr(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Orthogonal columns times an upper triangle."""
    mode = "complete" if attributes.get("complete", 0) else "reduced"
    return tuple(jnp.linalg.qr(jnp.asarray(inputs[0]), mode=mode))


@lowering("ai.paddle_ipu", "Lu")
def lu(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """L below and U on and above the diagonal; rows are exchanged as in LAPACK, from 1."""
    packed, pivots, _ = lax.linalg.lu(jnp.asarray(inputs[0]))
    return packed, pivots + 1


@lowering("ai.paddle_ipu", "LuUnpack")
def lu_unpack(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The permutation matrix and the two triangles."""
    packed, pivots = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    rows, columns = packed.shape[-2:]
    inner = min(rows, columns)
    context.within("pivot", inputs[1], 1, rows)
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)
    exchange = _turned(jax.nn.one_hot(order, rows, dtype=packed.dtype))
    lower = jnp.tril(packed[..., :, :inner], -1) + jnp.eye(rows, inner, dtype=packed.dtype)
    return exchange, lower, jnp.triu(packed[..., :inner, :])


def _one_stack(x: Any, y: Any) -> tuple[Any, Any]:
    """Two stacks of matrices, broadcast to one."""
    stack = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return (
        jnp.broadcast_to(x, (*stack, *x.shape[-2:])),
        jnp.broadcast_to(y, (*stack, *y.shape[-2:])),
    )


@lowering("ai.paddle_ipu", "Solve")
def solve(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """What the matrix times gives the right side."""
    return jnp.linalg.solve(*_one_stack(*map(jnp.asarray, inputs)))


def _triangular(matrix: Any, right: Any, *, lower: bool, transpose: bool, unit: bool) -> Any:
    return lax.linalg.triangular_solve(
        matrix,
        right,
        left_side=True,
        lower=lower,
        transpose_a=transpose,
        unit_diagonal=unit,
    )


@lowering("ai.paddle_ipu", "TriangularSolve")
def triangular_solve(
    context: LoweringContext, inputs: Sequence[Any], attributes: Attributes
) -> Any:
    """What a triangle of the matrix, transposed if asked, times gives the right side."""
    return _triangular(
        *_one_stack(*map(jnp.asarray, inputs)),
        lower=not attributes.get("upper", 1),
        transpose=bool(attributes.get("transpose", 0)),
        unit=bool(attributes.get("unit", 0)),
    )


@lowering("ai.paddle_ipu", "CholeskySolve")
def cholesky_solve(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """What the matrix with that Cholesky factor times gives the right side."""
    factor, right = _one_stack(*map(jnp.asarray, inputs))
    return linalg.cho_solve((factor, not attributes.get("upper", 0)), right)


@lowering("ai.paddle_ipu", "LeastSquares")
def least_squares(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The solution of least squares; of several the shortest. The matrix has full rank."""
    x, y = (lax.stop_gradient(jnp.asarray(value)) for value in inputs)
    if x.shape[-2] >= x.shape[-1]:
        columns, triangle = jnp.linalg.qr(x)
        return _triangular(triangle, _turned(columns) @ y, lower=False, transpose=False, unit=False)
    columns, triangle = jnp.linalg.qr(_turned(x))
    return columns @ _triangular(triangle, y, lower=False, transpose=True, unit=False)

"""Lowerings of decompositions and solvers of matrices; leading dimensions are stacks of them."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import linalg

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, Results, Single, unary
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _transposed(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, -1, -2)


@jax.custom_vjp
def _cholesky(x: jax.Array) -> jax.Array:
    """The lower factor of symmetric matrices, of which only the lower triangle is read."""
    return lax.linalg.cholesky(x, symmetrize_input=False)


def _cholesky_forward(x: jax.Array) -> Pair:
    factor = _cholesky(x)
    return factor, factor


def _cholesky_backward(factor: jax.Array, gradient: jax.Array) -> Single:
    # L^-T phi(L^T G) L^-1, phi being the lower triangle with half of its diagonal (Murray,
    # arXiv:1602.07527); made symmetric, so that either triangle has half of the gradient.
    inner = jnp.tril(_transposed(factor) @ jnp.tril(gradient))
    size = factor.shape[-1]
    inner = inner * (1 - 0.5 * jnp.eye(size, dtype=factor.dtype))
    solve = functools.partial(
        lax.linalg.triangular_solve, factor, left_side=True, lower=True, transpose_a=True
    )
    of_x = _transposed(solve(_transposed(solve(inner))))
    return (0.5 * (of_x + _transposed(of_x)),)


_cholesky.defvjp(_cholesky_forward, _cholesky_backward)


@lowering("ai.paddle_ipu", "Cholesky")
def cholesky(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The triangular factor of positive definite matrices."""
    x = jnp.asarray(inputs[0])
    if attributes.get("upper", 0):
        return _transposed(_cholesky(_transposed(x)))
    return _cholesky(x)


_SINGULAR = 1e-5
"""Paddle's gradient counts a matrix with a smaller determinant as singular."""


def _factors_of_determinant(x: jax.Array) -> Pair:
    """(U's diagonal, the sign of the row exchanges), as Paddle takes the product of."""
    packed, pivots, _ = lax.linalg.lu(x)
    exchanges = jnp.sum(pivots != jnp.arange(pivots.shape[-1]), axis=-1)
    sign = jnp.where(exchanges % 2 == 1, -1.0, 1.0).astype(x.dtype)
    return jnp.diagonal(packed, axis1=-2, axis2=-1), sign


@jax.custom_jvp
def _determinant(x: jax.Array) -> jax.Array:
    factors, sign = _factors_of_determinant(x)
    return jnp.prod(factors, axis=-1) * sign


@_determinant.defjvp
def _determinant_jvp(primals: Single, tangents: Single) -> Pair:
    # d det(X) = det(X) tr(X^-1 dX). If one matrix of the stack is singular, Paddle gives none a
    # gradient.
    (x,), (tangent,) = primals, tangents
    out = _determinant(x)
    singular = jnp.any(jnp.abs(out) < _SINGULAR)
    safe = jnp.where(singular, jnp.eye(x.shape[-1], dtype=x.dtype), x)
    slope = out * jnp.trace(jnp.linalg.solve(safe, tangent), axis1=-2, axis2=-1)
    return out, jnp.where(singular, jnp.zeros_like(out), slope)


lowering("ai.paddle_ipu", "Determinant")(unary(_determinant))


@jax.custom_jvp
def _log_determinant(x: jax.Array) -> Pair:
    """(sign, log of the magnitude) of determinants; the sign of NaN is 0, as in Paddle."""
    factors, sign = _factors_of_determinant(x)
    sign = jnp.prod(jnp.sign(factors), axis=-1) * sign
    magnitude = jnp.sum(jnp.log(jnp.abs(factors)), axis=-1)
    return jnp.where(jnp.isnan(magnitude), 0.0, sign).astype(x.dtype), magnitude


@_log_determinant.defjvp
def _log_determinant_jvp(primals: Single, tangents: Single) -> tuple[Pair, Pair]:
    # d log|det(X)| = tr(X^-1 dX). If one matrix of the stack is singular, Paddle gives NaN to all.
    (x,), (tangent,) = primals, tangents
    sign, magnitude = _log_determinant(x)
    slope = jnp.trace(jnp.linalg.solve(x, tangent), axis1=-2, axis2=-1)
    slope = slope * jnp.where(jnp.any(sign == 0), jnp.nan, 1.0)
    return (sign, magnitude), (jnp.zeros_like(sign), slope)


lowering("ai.paddle_ipu", "SlogDeterminant")(unary(_log_determinant))
lowering("ai.paddle_ipu", "MatrixInverse")(unary(jnp.linalg.inv))


@jax.custom_jvp
def _of_lower_triangle(x: jax.Array) -> jax.Array:
    """Symmetric matrices of the lower triangles."""
    return jnp.tril(x) + _transposed(jnp.tril(x, -1))


@_of_lower_triangle.defjvp
def _of_lower_triangle_jvp(primals: Single, tangents: Single) -> Pair:
    # The gradient is split evenly between triangles.
    (x,), (tangent,) = primals, tangents
    return _of_lower_triangle(x), 0.5 * (tangent + _transposed(tangent))


@jax.custom_jvp
def _eigh(x: jax.Array) -> Pair:
    """(eigenvectors, eigenvalues) of symmetric matrices."""
    vectors, values = lax.linalg.eigh(x, symmetrize_input=False)
    return vectors, values


@_eigh.defjvp
def _eigh_jvp(primals: Single, tangents: Single) -> tuple[Pair, Pair]:
    # JAX's own adds the matrix to its transpose, which may be beyond the range.
    vectors, values = _eigh(*primals)
    inner = _transposed(vectors) @ tangents[0] @ vectors
    identity = jnp.eye(values.shape[-1], dtype=values.dtype)
    apart = 1 / (identity + values[..., None, :] - values[..., :, None]) - identity
    return (vectors, values), (
        vectors @ (apart * inner),
        jnp.diagonal(inner, axis1=-2, axis2=-1),
    )


@lowering("ai.paddle_ipu", "Eigh")
def eigh(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(eigenvalues, eigenvectors) of symmetric matrices, of which one triangle is read."""
    x = jnp.asarray(inputs[0])
    x = x if attributes.get("lower", 1) else _transposed(x)
    vectors, values = _eigh(_of_lower_triangle(x))
    return values, vectors


def _of_numbers(x: jax.Array) -> jax.Array:
    """NaN for each of the matrices that has infinities, of which LAPACK's gesdd may not end."""
    finite = jnp.isfinite(x).all((-2, -1), keepdims=True)
    return x + lax.stop_gradient(jnp.where(finite, 0.0, jnp.nan)).astype(x.dtype)


@jax.custom_jvp
def _full_svd(x: jax.Array) -> tuple[jax.Array, ...]:
    """(U, singular values, V transposed), both bases complete."""
    return tuple(jnp.linalg.svd(x, full_matrices=True))


@_full_svd.defjvp
def _full_svd_jvp(
    primals: Single, tangents: Single
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    # As Paddle: the vectors that complete a basis have no gradient.
    left, values, right = out = _full_svd(*primals)
    thin = functools.partial(jnp.linalg.svd, full_matrices=False)
    (thin_left, _, _), (of_left, of_values, of_right) = jax.jvp(thin, primals, tangents)
    count = values.shape[-1]
    # A pair of vectors may have the other sign.
    sign = jnp.sign(jnp.sum(thin_left * left[..., :count], axis=-2))
    of_left = jnp.zeros_like(left).at[..., :count].set(of_left * sign[..., None, :])
    of_right = jnp.zeros_like(right).at[..., :count, :].set(of_right * sign[..., None])
    return out, (of_left, of_values, of_right)


@lowering("ai.paddle_ipu", "Svd")
def svd(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Results:
    """(U, singular values in descending order, V transposed); with ``values_only`` the values."""
    x = _of_numbers(jnp.asarray(inputs[0]))
    if attributes.get("values_only", 0):
        return jnp.linalg.svd(x, compute_uv=False)
    if attributes.get("full_matrices", 0):
        return _full_svd(x)
    return tuple(jnp.linalg.svd(x, full_matrices=False))


@lowering("ai.paddle_ipu", "Qr")
def qr(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Results:
    """(Q, R): orthogonal columns and an upper triangular matrix."""
    x = jnp.asarray(inputs[0])
    # A column that begins with -0 is reflected as one with 0, which not every LAPACK does.
    x = x - lax.stop_gradient(jnp.where(x == 0, x, jnp.zeros_like(x)))
    mode = "complete" if attributes.get("complete", 0) else "reduced"
    return tuple(jnp.linalg.qr(x, mode=mode))


@jax.custom_vjp
def _factors(x: jax.Array) -> Pair:
    """(L below and U on and above the diagonal, row exchanges counted from 0)."""
    packed, pivots, _ = lax.linalg.lu(x)
    return packed, pivots


def _factors_forward(x: jax.Array) -> tuple[Pair, Pair]:
    factors = _factors(x)
    return factors, factors


def _factors_backward(factors: Pair, gradients: Pair) -> Single:
    # JAX's own derivative multiplies the part of U beside the leading square by that square's
    # inverse and by the square, which cancels.
    packed, pivots = factors
    rows, inner = packed.shape[-2], min(packed.shape[-2:])
    upper, below = jnp.triu(packed[..., :inner, :]), packed[..., inner:, :inner]
    square = packed[..., :inner, :inner]
    lower = jnp.tril(square, -1) + jnp.eye(inner, dtype=packed.dtype)
    of_upper, of_below = jnp.triu(gradients[0][..., :inner, :]), gradients[0][..., inner:, :inner]
    of_lower = jnp.tril(gradients[0][..., :inner, :inner], -1)
    solve = functools.partial(lax.linalg.triangular_solve, square, transpose_a=True)
    # With M = L^-1 dX of the leading rows and R = M U^-1 of the leading square, dU is the upper
    # triangle of M - tril(R, -1) U; dL is L tril(R, -1) in the square, dX U^-1 - L triu(R) below.
    inside = jnp.tril(_transposed(lower) @ of_lower - of_upper @ _transposed(upper), -1)
    inside -= jnp.triu(_transposed(below) @ of_below)
    of_rows = of_upper.at[..., :inner].add(solve(inside, left_side=False, lower=False))
    of_rows = solve(of_rows, left_side=True, lower=True, unit_diagonal=True)
    if rows > inner:
        of_rows = jnp.concatenate([of_rows, solve(of_below, left_side=False, lower=False)], axis=-2)
    order = jnp.argsort(lax.linalg.lu_pivots_to_permutation(pivots, rows), axis=-1)
    return (jnp.take_along_axis(of_rows, order[..., None], axis=-2),)


_factors.defvjp(_factors_forward, _factors_backward)


@lowering("ai.paddle_ipu", "Lu")
def lu(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """LAPACK's getrf: (L below and U on and above the diagonal, row exchanges, info).

    Exchanges are counted from 1. Info is the first i with ``U[i, i] == 0``, counted from 1, or 0.
    """
    packed, pivots = _factors(jnp.asarray(inputs[0]))
    is_zero = jnp.diagonal(packed, axis1=-2, axis2=-1) == 0
    first = jnp.argmax(is_zero, axis=-1) if is_zero.shape[-1] else jnp.zeros(is_zero.shape[:-1])
    info = jnp.where(is_zero.any(-1), first + 1, 0).astype(jnp.int32)
    return packed, pivots + 1, info


@lowering("ai.paddle_ipu", "LuUnpack")
def lu_unpack(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The permutation matrix and the two triangles."""
    packed, pivots = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    rows, columns = packed.shape[-2:]
    inner = min(rows, columns)
    context.within("pivot", inputs[1], 1, rows)
    order = lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)
    exchange = _transposed(jax.nn.one_hot(order, rows, dtype=packed.dtype))
    lower = jnp.tril(packed[..., :, :inner], -1) + jnp.eye(rows, inner, dtype=packed.dtype)
    return exchange, lower, jnp.triu(packed[..., :inner, :])


def _one_stack(x: jax.Array, y: jax.Array) -> Pair:
    """Two stacks of matrices, broadcast to one."""
    stack = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return (
        jnp.broadcast_to(x, (*stack, *x.shape[-2:])),
        jnp.broadcast_to(y, (*stack, *y.shape[-2:])),
    )


@lowering("ai.paddle_ipu", "Solve")
def solve(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """X of A X = B."""
    out: jax.Array = jnp.linalg.solve(*_one_stack(*map(jnp.asarray, inputs)))
    return out


def _triangular(
    matrix: jax.Array, right: jax.Array, *, lower: bool, transpose: bool, unit: bool
) -> jax.Array:
    return lax.linalg.triangular_solve(
        matrix,
        right,
        left_side=True,
        lower=lower,
        transpose_a=transpose,
        unit_diagonal=unit,
    )


@lowering("ai.paddle_ipu", "TriangularSolve")
def triangular_solve(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """X of A X = B, where A is a triangle of the first input, with ``transpose`` transposed."""
    return _triangular(
        *_one_stack(*map(jnp.asarray, inputs)),
        lower=not attributes.get("upper", 1),
        transpose=bool(attributes.get("transpose", 0)),
        unit=bool(attributes.get("unit", 0)),
    )


@lowering("ai.paddle_ipu", "CholeskySolve")
def cholesky_solve(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """X of A X = B for the Cholesky factor of A."""
    factor, right = _one_stack(*map(jnp.asarray, inputs))
    return linalg.cho_solve((factor, not attributes.get("upper", 0)), right)


@lowering("ai.paddle_ipu", "LeastSquares")
def least_squares(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The solution of least squares; of several the shortest.

    Singular values up to ``rcond`` times the largest count as 0. Below 0 it says that the matrix
    has full rank.
    """
    x, y = (lax.stop_gradient(jnp.asarray(value)) for value in inputs)
    rcond = float(attributes.get("rcond", -1.0))
    if rcond >= 0:
        left, values, right = jnp.linalg.svd(_of_numbers(x), full_matrices=False)
        limit = rcond * jnp.max(values, axis=-1, keepdims=True, initial=0)
        inverse = jnp.where(values > limit, 1 / values, jnp.where(values >= 0, 0.0, values))
        return _transposed(right) @ (inverse[..., None] * (_transposed(left) @ y))
    if x.shape[-2] >= x.shape[-1]:
        columns, triangle = jnp.linalg.qr(x)
        return _triangular(
            triangle, _transposed(columns) @ y, lower=False, transpose=False, unit=False
        )
    columns, triangle = jnp.linalg.qr(_transposed(x))
    return columns @ _triangular(triangle, y, lower=False, transpose=True, unit=False)

"""Cases of linear algebra, on well-conditioned matrices.

Where a sign is arbitrary, what is compared is what does not depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.operator_case import Array, CaseTable, Since, floats, normal

TABLE = CaseTable()
_add = TABLE.add


def _regular(*shape: int, seed: int = 0) -> Array:
    """Matrices with a heavy diagonal."""
    return normal(*shape, seed=seed) + 4 * np.eye(*shape[-2:], dtype=np.float32)


def _positive(*shape: int, seed: int = 0) -> Array:
    """Symmetric positive definite matrices with eigenvalues well apart."""
    rng = np.random.default_rng(seed)
    columns = np.linalg.qr(rng.standard_normal(shape))[0]
    found = columns * np.arange(1.0, shape[-1] + 1) @ np.swapaxes(columns, -1, -2)
    return np.asarray(found, np.float32)


def _rectangular(*shape: int, seed: int = 0) -> Array:
    """Matrices with singular values well apart."""
    rng = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    return np.asarray(left * np.arange(1.0, min(shape[-2:]) + 1) @ right, np.float32)


_add("conj", paddle.conj, x=normal(2, 3))
_add(
    "cholesky",
    lambda x, y: [
        paddle.linalg.cholesky(x),
        paddle.linalg.cholesky(x, upper=True),
        paddle.linalg.cholesky(y),
    ],
    gradient=("x", "y"),
    x=_positive(3, 3),
    y=_positive(2, 4, 4, seed=1),
)
_add(
    "cholesky",
    lambda x: [paddle.linalg.cholesky(x), paddle.linalg.cholesky(x, upper=True)],
    label="one triangle",
    x=_positive(3, 3) + np.asarray([[0, 9, 0], [0, 0, 0], [0, 0, 0]], np.float32) * 0.05,
)
_add(
    "cholesky_solve",
    lambda b, y, z: [
        paddle.linalg.cholesky_solve(b, y, upper=False),
        paddle.linalg.cholesky_solve(b, z, upper=True),
    ],
    gradient=("b", "y", "z"),
    b=normal(3, 2),
    y=np.linalg.cholesky(_positive(3, 3)),
    z=np.linalg.cholesky(_positive(3, 3)).T.copy(),
)
_add(
    "inverse",
    lambda x, y: [paddle.inverse(x), paddle.inverse(y)],
    gradient=("x", "y"),
    x=_regular(3, 3),
    y=_regular(2, 4, 4, seed=1),
)
_add(
    "matrix_power",
    lambda x: [paddle.linalg.matrix_power(x, n) for n in (1, 2, 3, 5, -1, -2, 0)],
    gradient=("x",),
    x=_regular(2, 3, 3) * 0.3,
)
_add(
    "det",
    # Paddle 2 declares the matrices' shape for the result of a stack.
    lambda x, y: [paddle.linalg.det(x), paddle.sum(paddle.linalg.det(y))],
    gradient=("x", "y"),
    x=_regular(3, 3),
    y=_regular(2, 4, 4, seed=1),
)
_add(
    "det",
    paddle.linalg.det,
    gradient=("x",),
    label="singular",
    x=np.asarray([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 3.0]]], np.float32),
)
_add(
    "slogdet",
    # Paddle declares the matrices' shape for the result.
    lambda x, y: [
        paddle.sum(paddle.linalg.slogdet(x)),
        paddle.sum(paddle.linalg.slogdet(y)),
    ],
    gradient=("x", "y"),
    x=-_regular(3, 3),
    y=_regular(2, 4, 4, seed=1),
)
_add(
    "slogdet",
    lambda x, y: [paddle.linalg.slogdet(x), paddle.linalg.slogdet(y)],
    label="parts",
    x=-_regular(3, 3),
    y=_regular(2, 4, 4, seed=1),
)
_add("det", paddle.linalg.det, label="stack", x=_regular(2, 3, 3))
_add(
    "det",
    lambda x: [paddle.linalg.det(x[at]) for at in range(3)],
    label="infinite",
    x=floats(
        [[np.inf, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, 1.0, 4.0]],
        [[2.0, 1.0, 0.5], [-np.inf, 3.0, -1.0], [0.5, 1.0, 4.0]],
        [[2.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, 1.0, np.inf]],
    ),
)
_add(
    "slogdet",
    lambda x: paddle.sum(paddle.linalg.slogdet(x)),
    gradient=("x",),
    label="one is singular",
    x=floats([[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 3.0]]),
)
_SLOGDET_V2 = Since("3.3", "the operator does not exist")
_add(
    "slogdet_v2",
    lambda x: [*paddle._C_ops.slogdet_v2(x)],
    gradient=("x",),
    since=_SLOGDET_V2,
    x=_regular(2, 3, 3) * np.asarray([1.0, -1.0], np.float32).reshape(2, 1, 1),
)
_NOT_FINITE = floats(
    [[np.nan, 1.0], [1.0, 2.0]],
    [[1.0, 2.0], [1.0, np.nan]],
    [[0.0, 1.0], [np.nan, 2.0]],
    [[0.0, 0.0], [0.0, np.nan]],
    [[np.inf, 1.0], [1.0, 2.0]],
    [[-np.inf, 1.0], [1.0, 2.0]],
    [[0.0, np.inf], [np.inf, 0.0]],
    [[np.inf, 0.0], [0.0, 0.0]],
    [[np.inf, np.inf], [np.inf, np.inf]],
    [[1.0, 1.0], [1.0, 1.0]],
)
_add("slogdet", paddle.linalg.slogdet, label="not finite", x=_NOT_FINITE)
_add(
    "slogdet_v2",
    lambda x: [*paddle._C_ops.slogdet_v2(x)],
    label="not finite",
    since=_SLOGDET_V2,
    x=_NOT_FINITE,
)


_STACKS = "Paddle's gradient mixes the matrices of a stack"


def _eigenvalues(x: Array) -> Array:
    """The slope of either triangle is half of the whole."""
    return np.linalg.eigvalsh((x + np.swapaxes(x, -1, -2)) / 2)


def _eigh(x: Any, triangle: str = "L") -> list[Any]:
    values, vectors = paddle.linalg.eigh(x, triangle)
    whole = paddle.matmul(vectors * paddle.unsqueeze(paddle.sin(values), -2), vectors, False, True)
    return [values, paddle.square(vectors), whole]


_add("eigh", _eigh, gradient=("x",), x=_positive(4, 4))
_add("eigh", lambda x: _eigh(x, "U"), gradient=("x",), label="upper", x=_positive(3, 3, seed=1))
_add(
    "eigh",
    lambda x: paddle.linalg.eigh(x)[0],
    gradient=("x",),
    label="stack",
    limitation=_STACKS,
    oracle=_eigenvalues,
    x=_positive(2, 3, 3, seed=1),
)
_add(
    "eigh",
    lambda x: [*_eigh(x), *_eigh(x, "U")],
    label="one triangle",
    x=_positive(3, 3) + np.asarray([[0, 3, 0], [0, 0, 0], [0, 0, 0]], np.float32),
)
_add(
    "eigvalsh",
    lambda x: [paddle.linalg.eigvalsh(x), paddle.linalg.eigvalsh(x, "U")],
    gradient=("x",),
    x=_positive(4, 4),
)
_add(
    "eigvalsh",
    lambda x: [
        paddle.linalg.eigvalsh(paddle.tril(x) + paddle.triu(x * np.inf, 1)),
        paddle.linalg.eigvalsh(paddle.triu(x) + paddle.tril(x * np.nan, -1), "U"),
    ],
    label="not finite outside of the triangle",
    x=_positive(4, 4),
)
_add(
    "eigvalsh",
    paddle.linalg.eigvalsh,
    gradient=("x",),
    label="beyond half of the range",
    x=np.asarray([[2e38, 1e38], [1e38, -1e38]], np.float32),
)
_add(
    "eigvalsh",
    paddle.linalg.eigvalsh,
    gradient=("x",),
    label="stack",
    limitation=_STACKS,
    oracle=_eigenvalues,
    x=_positive(2, 3, 3, seed=1),
)


def _svd(x: Any, full: bool = False) -> list[Any]:
    left, values, right = paddle.linalg.svd(x, full_matrices=full)
    found = [paddle.abs(left), values, paddle.abs(right)]
    if not full:
        whole = paddle.matmul(left * paddle.unsqueeze(paddle.sin(values), -2), right)
        found.append(whole)
    return found


_add("svd", _svd, gradient=("x",), x=_rectangular(4, 3))
_add("svd", _svd, gradient=("x",), label="wide", x=_rectangular(2, 3, 5, seed=1))
_add("svd", _svd, gradient=("x",), label="square", x=_rectangular(3, 3, seed=2))
_INFINITE = np.asarray([[1, 0, -np.inf, -1, 1], [0, 2, -1, -1, 0], [0, 0, 1, 1, 0]], np.float32)
for _full in (False, True):
    _add(
        "svd",
        lambda x, full=_full: list(paddle.linalg.svd(x, full_matrices=full)[1:]),
        label=f"infinities, {'full matrices' if _full else 'thin'}",
        x=_INFINITE,
    )
for _label, _x in (
    ("tall", _rectangular(4, 3)),
    # Of seed 1 Paddle's own gradient is 1.2e-6 off, by its float64.
    ("wide", _rectangular(2, 3, 4, seed=3)),
    ("square", _rectangular(3, 3, seed=2)),
):
    _add("svd", lambda x: _svd(x, True), gradient=("x",), label=f"full matrices, {_label}", x=_x)
_add(
    "svdvals",
    lambda x, y: [paddle.linalg.svdvals(x), paddle.linalg.svdvals(y)],
    gradient=("x", "y"),
    since=Since("3.0", "the function does not exist"),
    x=_rectangular(4, 3),
    y=_rectangular(2, 3, 5, seed=1),
)


def _qr(x: Any) -> list[Any]:
    columns, triangle = paddle.linalg.qr(x)
    return [paddle.abs(columns), paddle.abs(triangle), paddle.matmul(columns, triangle)]


_add("qr", _qr, gradient=("x",), x=_regular(5, 3))
_add("qr", _qr, gradient=("x",), label="square", x=_regular(2, 3, 3, seed=1))
_add("qr", _qr, gradient=("x",), label="wide", x=_regular(3, 5, seed=2))
_add(
    "qr",
    lambda x: [*paddle.linalg.qr(x)],
    gradient=("x",),
    label="negative zeros",
    x=floats([-0.0, 1.5], [-2.5, -0.0], [0.5, 0.25]),
)
_add(
    "qr",
    lambda x: [
        paddle.abs(paddle.linalg.qr(x, mode="complete")[1]),
        paddle.abs(paddle.linalg.qr(x, mode="complete")[0][:, :3]),
        paddle.abs(paddle.linalg.qr(x, mode="r")),
    ],
    label="modes",
    x=_regular(5, 3),
)
_add(
    "lu",
    lambda x: [*paddle.linalg.lu(x, get_infos=True)],
    gradient=("x",),
    x=normal(4, 4),
)
_add(
    "lu",
    lambda x: [*paddle.linalg.lu(x)],
    gradient=("x",),
    label="stack",
    x=normal(2, 3, 3, seed=1),
)
_add("lu", lambda x: [*paddle.linalg.lu(x)], gradient=("x",), label="tall", x=normal(5, 3, seed=2))
_add("lu", lambda x: [*paddle.linalg.lu(x)], gradient=("x",), label="wide", x=normal(3, 5, seed=3))
_add(
    "lu",
    lambda x, y: [*paddle.linalg.lu(x), *paddle.linalg.lu(y)],
    gradient=("x", "y"),
    label="factors of very different sizes",
    x=floats([-4e-5, 2e6, 1e6, -3e6]),
    y=floats([1e-4, 2.0, 3e4, 5.0], [0.5e-4, 1.0, 2.0, 1e5]),
)
_add(
    "lu_unpack",
    lambda x: [*paddle.linalg.lu_unpack(*paddle.linalg.lu(x))],
    gradient=("x",),
    x=normal(4, 4),
)
_add(
    "lu_unpack",
    lambda x, y: [
        *paddle.linalg.lu_unpack(*paddle.linalg.lu(x)),
        *paddle.linalg.lu_unpack(*paddle.linalg.lu(y)),
    ],
    label="rectangular",
    x=normal(2, 5, 3),
    y=normal(3, 4, seed=1),
)
_add(
    "lu_unpack",
    lambda x: [
        paddle.linalg.lu_unpack(*paddle.linalg.lu(x), unpack_ludata=False)[0],
        *paddle.linalg.lu_unpack(*paddle.linalg.lu(x), unpack_pivots=False)[1:],
    ],
    label="parts",
    x=normal(3, 3),
)
_add(
    "lu_solve",
    lambda b, x: paddle.linalg.lu_solve(b, *paddle.linalg.lu(x)),
    gradient=("b", "x"),
    since=Since("3.1", "the function does not exist"),
    b=normal(2, 3, 2),
    x=_regular(2, 3, 3, seed=1),
)
_add(
    "lu_solve",
    lambda b, x: paddle.linalg.lu_solve(b, *paddle.linalg.lu(x), trans="T"),
    gradient=("b", "x"),
    label="transposed",
    limitation="Paddle's gradient is not that of the transposed matrix",
    since=Since("3.1", "the function does not exist"),
    oracle=lambda b, x: np.linalg.solve(np.swapaxes(x, -1, -2), b),
    b=normal(2, 3, 2),
    x=_regular(2, 3, 3, seed=1),
)
_add(
    "solve",
    lambda x, y, z: [paddle.linalg.solve(x, y), paddle.linalg.solve(x, z)],
    gradient=("x", "y", "z"),
    x=_regular(3, 3),
    y=normal(3, 2, seed=1),
    z=normal(3, seed=2),
)
_add(
    "solve",
    paddle.linalg.solve,
    gradient=("x", "y"),
    label="stack",
    x=_regular(2, 3, 3),
    y=normal(2, 3, 4),
)
_add(
    "triangular_solve",
    lambda x, y: [
        paddle.linalg.triangular_solve(x, y),
        paddle.linalg.triangular_solve(x, y, upper=False),
        paddle.linalg.triangular_solve(x, y, transpose=True),
        paddle.linalg.triangular_solve(x, y, upper=False, transpose=True),
        paddle.linalg.triangular_solve(x, y, unitriangular=True),
    ],
    gradient=("x", "y"),
    x=_regular(3, 3),
    y=normal(3, 2, seed=1),
)
_add(
    "triangular_solve",
    paddle.linalg.triangular_solve,
    gradient=("x", "y"),
    label="stack",
    x=_regular(2, 3, 3),
    y=normal(2, 3, 2, seed=1),
)
_add(
    "lstsq",
    lambda x, y: [*paddle.linalg.lstsq(x, y, driver="gelsd")],
    x=_rectangular(5, 3),
    y=normal(5, 2, seed=1),
)
_add(
    "lstsq",
    lambda x, y: paddle.linalg.lstsq(x, y, driver="gelsy")[:3:2],
    label="pivots",
    x=_rectangular(4, 3),
    y=normal(4, 2, seed=1),
)
_add(
    "lstsq",
    lambda x, y, z: [
        paddle.linalg.lstsq(x, y, driver="gels")[0],
        paddle.linalg.lstsq(z, y, driver="gels")[0],
    ],
    label="triangles",
    x=_rectangular(2, 3, 5),
    y=normal(2, 3, 2, seed=1),
    z=_regular(2, 3, 3, seed=2),
)
_add(
    "lstsq",
    lambda x, y: [
        found
        for driver in ("gelsd", "gelss")
        for found in paddle.linalg.lstsq(x, y, 1e-5, driver)[::2]
    ],
    label="of lower rank",
    x=normal(2, 5, 2) @ normal(2, 2, 3, seed=1),
    y=normal(2, 5, 2, seed=2),
)
_LOW_RANK = np.asarray([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]], np.float32)
_add(
    "lstsq",
    lambda x, y: paddle.linalg.lstsq(x, y, rcond=1e-3, driver="gelsy")[0],
    label="rank by pivots",
    limitation="by driver gelsy Paddle's last digits differ from run to run without full rank",
    oracle=lambda x, y: np.linalg.lstsq(x, y, rcond=1e-3)[0],
    x=_LOW_RANK,
    y=normal(3, 2, seed=1),
)
_add(
    "lstsq",
    lambda x, y: [
        paddle.linalg.lstsq(x, y, rcond=rcond, driver=driver)[at]
        for driver, rcond in (("gelsd", 0.0), ("gelsd", None), ("gelss", -1.0))
        for at in (0, 2)
    ],
    label="rcond",
    x=_LOW_RANK,
    y=normal(3, 2, seed=1),
)


_NEWER_RANKS = Since("3.1", "the operator does not exist")
_RANKS = Since("3.1", "3.0 declares float32 for a result that is int32, which nothing can read")
_add(
    "matrix_rank",
    lambda x, y, z: [
        paddle.linalg.matrix_rank(x),
        paddle.linalg.matrix_rank(y),
        paddle.linalg.matrix_rank(y, tol=1.5),
        paddle.linalg.matrix_rank(z, hermitian=True),
        paddle.linalg.matrix_rank(z, tol=2.5, hermitian=True),
    ],
    since=_RANKS,
    x=_LOW_RANK,
    y=_rectangular(2, 4, 3),
    z=_positive(4, 4),
)
_add(
    "matrix_rank_tol",
    lambda x, y, z, t, s: [
        paddle.linalg.matrix_rank(x, t),
        paddle.linalg.matrix_rank(y, s),
        paddle.linalg.matrix_rank(z, t, hermitian=True),
    ],
    since=_RANKS,
    x=_LOW_RANK,
    y=_rectangular(2, 4, 3),
    z=_positive(4, 4),
    t=np.asarray(1.5, np.float32),
    s=floats(1.5, 2.5),
)
_add(
    "matrix_rank_tol",
    lambda x, y, t, s: [
        paddle.linalg.matrix_rank(x, t),
        paddle.linalg.matrix_rank(x, s),
        paddle.linalg.matrix_rank(y, s, hermitian=True),
    ],
    label="a list of tolerances",
    since=_RANKS,
    x=_LOW_RANK,
    y=_positive(4, 4),
    t=floats(1.5),
    s=floats(0.5, 2.5),
)
_add(
    "matrix_rank_tol",
    lambda x, y, t, s: [
        paddle.linalg.matrix_rank(x, t),
        paddle.linalg.matrix_rank(y, s, hermitian=True),
    ],
    label="no tolerance",
    since=_RANKS,
    x=_rectangular(2, 4, 3),
    y=_positive(4, 4),
    t=floats(1.5, np.nan),
    s=floats(np.nan),
)
_add(
    "matrix_rank_atol_rtol",
    lambda x, y, t: [
        paddle._C_ops.matrix_rank_atol_rtol(x, t, None, False),
        paddle._C_ops.matrix_rank_atol_rtol(y, t, None, False),
    ],
    label="nothing",
    since=_NEWER_RANKS,
    x=np.zeros((2, 0, 3), np.float32),
    y=np.zeros((0, 3, 3), np.float32),
    t=np.asarray(1.5, np.float32),
)
_add(
    "matrix_rank_atol_rtol",
    lambda x, y, t, s: [
        paddle._C_ops.matrix_rank_atol_rtol(x, t, s, False),
        paddle._C_ops.matrix_rank_atol_rtol(y, s, t, False),
        paddle._C_ops.matrix_rank_atol_rtol(y, s, None, False),
        paddle._C_ops.matrix_rank_atol_rtol(paddle.matmul(x, x, False, True), t, s, True),
    ],
    since=_NEWER_RANKS,
    x=np.stack([_LOW_RANK, _LOW_RANK + np.eye(3, dtype=np.float32)]),
    y=_rectangular(2, 4, 3),
    t=floats(0.1, 0.4),
    s=floats(0.2, 1.5),
)

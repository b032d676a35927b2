"""Translators of decompositions, solvers and determinants of batches of matrices."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


@translator(
    "conj",
    emits=("Identity",),
    limits="of real numbers, as IPUs have no complex ones; not in training",
)
def conj(context: TranslationContext) -> str:
    """The identity: all numbers are real."""
    return context.onnx.identity([context.input("x")])


@translator("cholesky", emits=("paddle_ipu.Cholesky",))
def cholesky(context: TranslationContext) -> str:
    """The triangular factor L of ``x = L @ L^T``, or with ``upper`` U of ``x = U^T @ U``."""
    upper = int(context.attr("upper", 0))
    return context.extension("Cholesky", [context.input("x")], {"upper": upper})[0]


@translator("inverse", emits=("paddle_ipu.MatrixInverse",))
def inverse(context: TranslationContext) -> str:
    """The inverse of square matrices."""
    return context.extension("MatrixInverse", [context.input("x")])[0]


@translator("matrix_power", emits=("paddle_ipu.MatrixInverse", "MatMul", "Identity"))
def matrix_power(context: TranslationContext) -> str:
    """``x`` to the power of ``n`` by repeated squaring; of the inverse if ``n`` is negative."""
    x, power = context.input("x"), int(context.attr("n"))
    shape = context.shape(x)
    if power == 0:
        return context.const(np.broadcast_to(np.eye(shape[-1], dtype=context.dtype(x)), shape))
    base = context.extension("MatrixInverse", [x])[0] if power < 0 else x
    result: str | None = None
    remaining = abs(power)
    while True:
        if remaining % 2:
            result = base if result is None else context.onnx.matmul([result, base])
        remaining //= 2
        if not remaining:
            break
        base = context.onnx.matmul([base, base])
    return context.onnx.identity([x]) if result == x or result is None else result


@translator("det", emits=("paddle_ipu.Determinant",))
def det(context: TranslationContext) -> str:
    """The determinant of square matrices."""
    return context.extension("Determinant", [context.input("x")])[0]


@translator("slogdet", emits=("paddle_ipu.SlogDeterminant", "Unsqueeze", "Concat"))
def slogdet(context: TranslationContext) -> str:
    """The sign of the determinant and the logarithm of its magnitude, stacked: [2, ...]."""
    parts = context.extension("SlogDeterminant", [context.input("x")], num_outputs=2)
    return context.onnx.concat([context.onnx.unsqueeze([part], [0]) for part in parts], 0)


@translator("slogdet_v2", emits=("paddle_ipu.SlogDeterminant",))
def slogdet_v2(context: TranslationContext) -> list[str]:
    """The sign of the determinant and the logarithm of its magnitude."""
    return context.extension("SlogDeterminant", [context.input("x")], num_outputs=2)


def _eigh(context: TranslationContext, triangle: str) -> list[str]:
    lower = int(str(context.attr(triangle, "L")) == "L")
    return context.extension("Eigh", [context.input("x")], {"lower": lower}, 2)


@translator("eigh", emits=("paddle_ipu.Eigh",))
def eigh(context: TranslationContext) -> list[str]:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors.

    The sign of an eigenvector is arbitrary, and may differ from Paddle's. ``UPLO`` chooses the
    triangle that is read.
    """
    return _eigh(context, "UPLO")


@translator("eigvalsh", emits=("paddle_ipu.Eigh",))
def eigvalsh(context: TranslationContext) -> list[str]:
    """Eigenvalues of symmetric matrices, ascending."""
    return _eigh(context, "uplo")


def _singular_values(context: TranslationContext, x: str) -> str:
    return context.extension("Svd", [x], {"values_only": 1}, 1)[0]


@translator("svdvals", emits=("paddle_ipu.Svd",))
def svdvals(context: TranslationContext) -> str:
    """Singular values, descending."""
    return _singular_values(context, context.input("x"))


@translator("svd", emits=("paddle_ipu.Svd",))
def svd(context: TranslationContext) -> list[str]:
    """U, the singular values s and V^T of ``x = U @ diag(s) @ V^T``; signs are arbitrary."""
    full = int(context.attr("full_matrices", 0))
    return context.extension("Svd", [context.input("x")], {"full_matrices": full}, 3)


@translator(
    "qr",
    emits=("paddle_ipu.Qr",),
    limits="mode 'complete' of more rows than columns has no gradient",
)
def qr(context: TranslationContext) -> list[str | None]:
    """Q and R of ``x = Q @ R``; with ``mode`` r only R. The signs of columns are arbitrary."""
    mode = str(context.attr("mode", "reduced"))
    complete = {"complete": int(mode == "complete")}
    factors = context.extension("Qr", [context.input("x")], complete, 2)
    return [None, factors[1]] if mode == "r" else [*factors]


@translator("lu", emits=("paddle_ipu.Lu", "Reshape"), limits="pivot must be set")
def lu(context: TranslationContext) -> list[str]:
    """L and U in one matrix, the pivots, and the first 0 on U's diagonal; both counted from 1.

    Where the diagonal has no 0, the third is 0.
    """
    if not context.attr("pivot", 1):
        raise context.refuse(
            "pivot=False is not supported, nor on Paddle's CPU: without exchanges of rows a "
            "decomposition may not exist. Leave it set."
        )
    packed, pivots, singular = context.extension("Lu", [context.input("x")], num_outputs=3)
    # For a single matrix Paddle 2 gives shape [1], Paddle 3 shape [].
    alone = [1] if dialect.dims_of(context.node.outputs[2]) else []
    shape = context.shape_const(context.shape(packed)[:-2] or alone)
    return [packed, pivots, context.onnx.reshape([singular, shape])]


@translator("lu_unpack", emits=("paddle_ipu.LuUnpack",))
def lu_unpack(context: TranslationContext) -> list[str | None]:
    """The permutation P, L and U of ``x = P @ L @ U``, from the results of `lu`."""
    pair = [context.input("x"), context.input("y")]
    *stack, rows, columns = context.shape(pair[0])
    if context.shape(pair[1]) != [*stack, min(rows, columns)]:
        raise context.refuse(
            f"x is {context.shape(pair[0])}, and its pivots have to be "
            f"{[*stack, min(rows, columns)]}, not {context.shape(pair[1])}."
        )
    exchange, lower, upper = context.extension("LuUnpack", pair, num_outputs=3)
    triangles = bool(context.attr("unpack_ludata", 1))
    return [
        exchange if context.attr("unpack_pivots", 1) else None,
        lower if triangles else None,
        upper if triangles else None,
    ]


def _as_columns(context: TranslationContext, matrix: str, right: str) -> str:
    """The right-hand side as matrices; vectors get an axis of size 1."""
    shape = context.shape(right)
    is_vector = len(shape) == 1 or shape == context.shape(matrix)[:-1]
    return context.reshape(right, [*shape, 1]) if is_vector else right


@translator("solve", emits=("paddle_ipu.Solve", "Reshape"))
def solve(context: TranslationContext) -> str:
    """The solution of ``x @ result = y``."""
    x = context.input("x")
    y = _as_columns(context, x, context.input("y"))
    solution = context.extension("Solve", [x, y])[0]
    return context.reshape(solution, dialect.dims_of(context.node.outputs[0]))


@translator("triangular_solve", emits=("paddle_ipu.TriangularSolve",))
def triangular_solve(context: TranslationContext) -> str:
    """The solution of ``x @ result = y`` for triangular x.

    ``upper`` chooses the triangle that is read, ``transpose`` transposes it, ``unitriangular``
    takes its diagonal for ones.
    """
    attributes = {
        "upper": int(context.attr("upper", 1)),
        "transpose": int(context.attr("transpose", 0)),
        "unit": int(context.attr("unitriangular", 0)),
    }
    pair = [context.input("x"), context.input("y")]
    return context.extension("TriangularSolve", pair, attributes)[0]


@translator("cholesky_solve", emits=("paddle_ipu.CholeskySolve",))
def cholesky_solve(context: TranslationContext) -> str:
    """The solution of ``A @ result = x``, A given by its Cholesky factor ``y``."""
    pair = [context.input("y"), context.input("x")]
    return context.extension("CholeskySolve", pair, {"upper": int(context.attr("upper", 0))})[0]


@translator(
    "lu_solve", emits=("paddle_ipu.LuUnpack", "paddle_ipu.TriangularSolve", "MatMul", "Transpose")
)
def lu_solve(context: TranslationContext) -> str:
    """The solution of ``A @ result = b``, A given by `lu`.

    ``trans`` other than N stands for ``A^T @ result = b``.
    """
    right = context.input("b")
    pair = [context.input("lu"), context.input("pivots")]
    exchange, lower, upper = context.extension("LuUnpack", pair, num_outputs=3)
    steps = [(lower, {"upper": 0, "unit": 1}), (upper, {"upper": 1, "unit": 0})]
    transposed = str(context.attr("trans", "N")) != "N"
    if not transposed:
        right = context.onnx.matmul([context.swap_last_axes(exchange), right])
    for matrix, kind in steps[::-1] if transposed else steps:
        attributes = {**kind, "transpose": int(transposed)}
        right = context.extension("TriangularSolve", [matrix, right], attributes)[0]
    return context.onnx.matmul([exchange, right]) if transposed else right


@translator(
    "lstsq",
    emits=("paddle_ipu.LeastSquares", "paddle_ipu.Svd", "MatMul", "Sub", "ReduceSumSquare",
           "ReduceMax", "Mul", "Greater", "Cast", "ReduceSum"),
    limits="residuals are given whatever the rank; driver gels needs full rank and gives no rank",
)  # fmt: skip
def lstsq(context: TranslationContext) -> list[str | None]:
    """The least-squares solution, the sums of squared residuals, the rank and the singular values.

    Residuals are given for more rows than columns; rank and singular values by the driver, as in
    Paddle. Singular values up to ``rcond`` of the largest are none, but for driver gels.
    """
    x, y = context.input("x"), context.input("y")
    rows, columns = context.shape(x)[-2:]
    driver = str(context.attr("driver", "gels"))
    relative = -1.0 if driver == "gels" else _least_share(driver, context.number("rcond"))
    solution = context.extension("LeastSquares", [x, y], {"rcond": relative})[0]
    distances: str | None = None
    if rows > columns and context.is_used(1):
        distance = context.onnx.sub([context.onnx.matmul([x, solution]), y])
        distances = context.onnx.reducesumsquare([distance], [context.rank(x) - 2], 0)
    if driver == "gels" or not (context.is_used(2) or context.is_used(3)):
        return [solution, distances, None, None]
    values = _singular_values(context, x)
    limit = context.onnx.mul([_largest(context, values), context.const_like(relative, x)])
    rank = _count_above(context, values, limit, 2)
    return [solution, distances, rank, None if driver == "gelsy" else values]


def _least_share(driver: str, rcond: float) -> float:
    """The share of the largest singular value up to which LAPACK's driver takes one for zero."""
    is_default = rcond < 0 or (driver == "gelsd" and not 0 < rcond < 1)
    return float(np.finfo(np.float32).eps) if is_default and driver != "gelsy" else max(rcond, 0.0)


def _count_above(context: TranslationContext, values: str, limit: str, result: int = 0) -> str:
    """The number of elements along the last axis above `limit`, as result `result` of the node."""
    if not dialect.dtype_name(context.node.outputs[result]).startswith("int"):
        # A PIR program declares the matrix's dtype.
        context.node.outputs[result].dtype = ir.DataType.INT32 if result else ir.DataType.INT64
    above = context.cast(context.onnx.greater([values, limit]), "int32")
    return context.onnx.reducesum([above], [context.rank(above) - 1], 0)


def _largest(context: TranslationContext, values: str) -> str:
    """The largest along the last axis, which stays; 0 of none."""
    if 0 in (shape := context.shape(values)):
        return context.const(np.zeros([*shape[:-1], 1]), context.dtype(values))
    return context.onnx.reducemax([values], [context.rank(values) - 1], 1)


def _spectrum(context: TranslationContext) -> tuple[str, str, float]:
    """(magnitudes of singular or eigenvalues, the largest of each, Paddle's default tolerance)."""
    x = context.input("x")
    if context.attr("hermitian", 0):
        values = context.onnx.abs([context.extension("Eigh", [x], {"lower": 1}, 2)[0]])
    else:
        values = _singular_values(context, x)
    relative = float(np.finfo(np.float32).eps) * max(context.shape(x)[-2:])
    return values, _largest(context, values), relative


_RANK = (
    "paddle_ipu.Svd", "paddle_ipu.Eigh", "Abs", "ReduceMax", "Mul", "Greater", "Cast", "ReduceSum",
)  # fmt: skip


@translator("matrix_rank", emits=_RANK)
def matrix_rank(context: TranslationContext) -> str:
    """The number of singular values above a tolerance.

    The default is ``eps * max(rows, columns) * largest``, as in Paddle and NumPy.
    """
    values, largest, own = _spectrum(context)
    if context.attr("use_default_tol", 1):
        limit = context.onnx.mul([largest, context.const_like(own, values)])
    else:
        limit = context.const_like(float(context.attr("tol")), values)
    return _count_above(context, values, limit)


def _above_both(
    context: TranslationContext, values: str, largest: str, absolute: str, relative: str
) -> str:
    """The number of values above ``max(absolute, relative * largest)``."""
    limits = [
        context.reshape(limit, [*context.shape(limit), 1]) if context.rank(limit) else limit
        for limit in (absolute, relative)
    ]
    scaled = context.onnx.mul([limits[1], largest])
    # Paddle compares by >: an absolute tolerance that is NaN gives way to the relative one.
    is_larger = context.onnx.greater([limits[0], scaled])
    return _count_above(context, values, context.onnx.where([is_larger, limits[0], scaled]))


@translator("matrix_rank_tol", emits=(*_RANK, "Where", "Reshape"))
def matrix_rank_tol(context: TranslationContext) -> str:
    """`matrix_rank` with a tensor as tolerance."""
    values, largest, own = _spectrum(context)
    relative = own if context.attr("use_default_tol", 1) else 0.0
    absolute = context.input("atol_tensor")
    return _above_both(context, values, largest, absolute, context.const_like(relative, values))


@translator("matrix_rank_atol_rtol", emits=(*_RANK, "Where", "Reshape"))
def matrix_rank_atol_rtol(context: TranslationContext) -> str:
    """`matrix_rank` above ``max(atol, rtol * largest)``."""
    values, largest, own = _spectrum(context)
    relative = context.optional("rtol") or context.const_like(own, values)
    return _above_both(context, values, largest, context.input("atol"), relative)

"""Rows of ai.paddle_ipu: linear algebra."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    NO_GRADIENT,
    READS_EVERYTHING,
    UNPRICED,
    float_,
    int_,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import linear_algebra

paddle_ipu_row(
    "Cholesky", 1, linear_algebra.square, FLOATS, UNPRICED, READS_EVERYTHING, [int_("upper", 0)]
)
paddle_ipu_row("MatrixInverse", 1, linear_algebra.square, FLOATS, UNPRICED, READS_EVERYTHING)
paddle_ipu_row("Determinant", 1, linear_algebra.determinant, FLOATS, UNPRICED, READS_EVERYTHING)
paddle_ipu_row(
    "SlogDeterminant", 1, linear_algebra.determinant, FLOATS, UNPRICED, READS_EVERYTHING, outputs=2
)
paddle_ipu_row(
    "Eigh", 1, linear_algebra.eigh, FLOATS, UNPRICED, READS_EVERYTHING,
    [int_("lower", 1)], outputs=2,
)  # fmt: skip
paddle_ipu_row(
    "Svd", 1, linear_algebra.svd, FLOATS, UNPRICED, READS_EVERYTHING,
    [int_("full_matrices", 0), int_("values_only", 0)], outputs=(1, 3), counted=True,
)  # fmt: skip
paddle_ipu_row(
    "Qr", 1, linear_algebra.qr, FLOATS, UNPRICED, READS_EVERYTHING, [int_("complete", 0)], outputs=2
)
paddle_ipu_row("Lu", 1, linear_algebra.lu, FLOATS, UNPRICED, READS_EVERYTHING, outputs=3)
paddle_ipu_row(
    "LuUnpack", 2, linear_algebra.lu_unpack, (FLOATS, INTS), UNPRICED, READS_EVERYTHING, outputs=3
)
paddle_ipu_row("Solve", 2, linear_algebra.solve, FLOATS, UNPRICED, READS_EVERYTHING)
paddle_ipu_row(
    "CholeskySolve", 2, linear_algebra.solve, FLOATS, UNPRICED, READS_EVERYTHING, [int_("upper", 0)]
)
paddle_ipu_row(
    "TriangularSolve", 2, linear_algebra.solve, FLOATS, UNPRICED, READS_EVERYTHING,
    [int_("upper", 1), int_("transpose", 0), int_("unit", 0)],
)  # fmt: skip
paddle_ipu_row(
    "LeastSquares", 2, linear_algebra.least_squares, FLOATS, UNPRICED, NO_GRADIENT,
    [float_("rcond", -1.0)],
)  # fmt: skip

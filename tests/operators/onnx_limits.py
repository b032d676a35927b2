"""What ONNX has no operators for, and which cases of the operator table it leaves open."""

from __future__ import annotations

import numpy as np

from tests.operators.operator_case import OperatorCase

NOT_IN_ONNX = frozenset(
    """
    Abort BesselI0 BesselI0e BesselI1 BesselI1e Binomial BipartiteMatch Cholesky CholeskySolve
    ClassCenterSample CrfDecode Ctc CtcAlign DequantGather Digamma EditDistance Eigh ErfInv Gamma
    Gammaincc LeastSquares Lgamma Lu LuUnpack MatrixInverse NextAfter Auc Poisson
    Polygamma PsRoiPool Qr Rnnt SeededPermutation Solve Svd TopPSampling TriangularSolve
    TruncatedNormal ViterbiDecode YoloLoss
    """.split()
)
"""What has no expression in ONNX's operators but a loop of its own kernel."""

_OPEN_TO_NAN = frozenset(
    "argmax argmin max_pool2d_with_index max_pool3d_with_index maxout pool2d pool3d relu".split()
)

_OTHERWISE = frozenset({"leaky_relu-infinities"})
"""Rows of which ONNX says something else: 0 times infinity, no larger one of two."""


def is_settled(case: OperatorCase) -> bool:
    """Whether ONNX says what comes out, and the same as Paddle."""
    if case.name in _OTHERWISE:
        return False
    floats = [array for array in case.inputs.values() if array.dtype.kind == "f"]
    return case.op not in _OPEN_TO_NAN or not any(np.isnan(x).any() for x in floats)

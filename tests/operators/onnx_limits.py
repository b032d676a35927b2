"""Which cases of the operator table ONNX leaves open: much of NaN among numbers."""

from __future__ import annotations

import numpy as np

from tests.operators.operator_case import OperatorCase

_OPEN_TO_NAN = frozenset(
    "argmax argmin max_pool2d_with_index max_pool3d_with_index maxout pool2d pool3d relu".split()
)


def is_settled(case: OperatorCase) -> bool:
    """Whether ONNX says what comes out."""
    floats = [array for array in case.inputs.values() if array.dtype.kind == "f"]
    return case.op not in _OPEN_TO_NAN or not any(np.isnan(x).any() for x in floats)

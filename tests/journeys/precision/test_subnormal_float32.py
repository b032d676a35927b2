"""Subnormal numbers of float32 count as 0, as docs/precision.md says."""

from __future__ import annotations

import numpy as np
import paddle

from tests.operators.built_case import build_case
from tests.operators.operator_case import OperatorCase, floats
from tests.operators.run_case import run_on_ipu_model


def test_they_compare_as_zero_and_stay_where_they_are_moved() -> None:
    x = floats(1e-40, -1e-40, 2e-38)
    case = OperatorCase(
        "greater_than",
        lambda x: [x > 0, paddle.sign(x), paddle.ceil(x), x.astype("bool"), paddle.flip(x, [0])],
        {"x": x},
    )
    above, sign, ceiling, truth, moved = run_on_ipu_model(build_case(case)).values()
    assert above.tolist() == truth.tolist() == [False, False, True]
    assert np.abs(sign).tolist() == np.abs(ceiling).tolist() == [0.0, 0.0, 1.0]
    assert moved.tolist() == x[::-1].tolist()

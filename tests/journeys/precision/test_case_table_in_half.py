"""Every row of the operator case table in half: Paddle's numbers, rounded.

The inputs are halves; Paddle's CPU executor computes with them in float32. What the IPU Model gives
in half holds halves only and lies a few roundings from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.operators.built_case import build_case, lacks
from tests.operators.operator_case import OperatorCase
from tests.operators.operator_cases import CASES
from tests.operators.run_case import run_on_cpu, run_on_ipu_model

pytestmark = pytest.mark.thorough

_CLOSE = 2e-3
"""Of the norm of what is expected: two to four roundings of 2**-11 in a row."""

_KEPT_WIDE = {
    "batch_norm": "statistics are float32 in Paddle's half kernels too",
    "auc": "counts are not numbers to round",
}
_AMPLIFIES = {
    "dot": "its sum cancels",
    "fake_quantize_abs_max": "scaled values lie on the steps, and a rounding takes the next one",
    "fake_quantize_dequantize_abs_max": "as fake_quantize_abs_max",
    "fake_channel_wise_quantize_abs_max": "as fake_quantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max": "as fake_quantize_abs_max",
    "fake_quantize_range_abs_max": "as fake_quantize_abs_max",
    "fake_quantize_moving_average_abs_max": "as fake_quantize_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max": "as fake_quantize_abs_max",
    "quantize_linear": "as fake_quantize_abs_max",
}

_BEYOND = {"spectral_norm-a start of zeros": "its epsilon, 1e-12, is 0 in half"}
"""Cases with numbers that half does not have."""


def _in_half(case: OperatorCase) -> OperatorCase:
    with np.errstate(over="ignore"):
        rounded = {
            name: array.astype(np.float16).astype(np.float32)
            if array.dtype == np.float32
            else array
            for name, array in case.inputs.items()
        }
    return replace(case, inputs=rounded, gradient=())


ROWS = [
    _in_half(case)
    for case in CASES
    if not (case.check or case.oracle or case.name in _BEYOND)
    and any(array.dtype == np.float32 for array in case.inputs.values())
]


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_half_gives_paddles_numbers_rounded(case: OperatorCase) -> None:
    if missing := lacks(case):
        pytest.skip(missing)
    built = build_case(case)
    expected = run_on_cpu(built)
    got = run_on_ipu_model(built, enable_fp16=True)
    for what, wanted in expected.items():
        result: Any = np.asarray(got[what])
        assert result.shape == wanted.shape, what
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(result, wanted, what)
            continue
        if case.op not in _KEPT_WIDE:
            _assert_halves(result, what)
        if case.op not in _AMPLIFIES:
            _assert_close(result.astype(np.float64), wanted.astype(np.float64), what)


def _assert_halves(result: Any, what: str) -> None:
    with np.errstate(over="ignore"):
        rounded = result.astype(np.float16).astype(result.dtype)
    np.testing.assert_array_equal(rounded, result, f"{what} holds numbers that are no halves")


def _assert_close(got: Any, wanted: Any, what: str) -> None:
    finite = np.isfinite(wanted) & (np.abs(wanted) < np.finfo(np.float16).max)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted), what)
    off = np.linalg.norm(got[finite] - wanted[finite])
    assert off <= _CLOSE * np.linalg.norm(wanted[finite]), what


def test_the_lists_of_exceptions_name_operators() -> None:
    assert (_KEPT_WIDE.keys() | _AMPLIFIES.keys()) <= {case.op for case in CASES}

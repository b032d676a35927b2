"""Numbers that the rules of ONNX's own operators could lose: small ones, infinity, NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
import pytest

import paddle_ipu

onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("static_mode")

NUMBERS = np.array(
    [0, 1e-30, 1e-10, -1e-8, 3e-5, -0.02, 0.7, -0.999, 1, 20, 80, 3e9, np.inf, np.nan], np.float32
)


def test_small_numbers_keep_their_digits_and_nan_is_in_no_bin(tmp_path: Path) -> None:
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        x = paddle.static.data("x", [len(NUMBERS)], "float32")
        results = [paddle.expm1(x), paddle.log1p(x), paddle.log1p(-x)]
        results.append(paddle.histogram(x, 4, min=-1, max=3))
    path = tmp_path / "m.onnx"
    names = [f"output:{at}" for at in range(len(results))]
    paddle_ipu.export(program, path, ["x"], results, output_names=names, standard_only=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": NUMBERS})
    with np.errstate(all="ignore"):
        wide = NUMBERS.astype(np.float64)
        expected = [np.expm1(wide), np.log1p(wide), np.log1p(-wide)]
        expected = [each.astype(np.float32) for each in expected]
    for got, each in zip(found[:3], expected, strict=True):
        np.testing.assert_allclose(got, each, rtol=1e-6)
    np.testing.assert_array_equal(found[3], [2, 6, 1, 0])

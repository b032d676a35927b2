"""Operators in half that the sweeps of ``test_every_half.py`` do not have, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

from tests.journeys.precision.half_program import run

Array = np.ndarray[Any, Any]


def _halves(count: int) -> Array:
    """Any finite halves, subnormal ones included."""
    bits = np.random.default_rng(1).integers(0, 65536, 2 * count, dtype=np.uint16)
    values = bits.view(np.float16)
    return values[np.isfinite(values)][:count].copy()


def _ulps(got: Array, expected: Array) -> Array:
    """Distance in halves, of a result to the correctly rounded one."""

    def ordered(values: Array) -> Array:
        bits = values.view(np.int16).astype(np.int32)
        return np.where(bits < 0, -(bits & 0x7FFF), bits)

    with np.errstate(over="ignore"):
        return np.abs(ordered(got) - ordered(expected.astype(np.float16)))


X = _halves(4096)


def test_sums_and_products_accumulate_in_float32() -> None:
    a = np.random.default_rng(2).normal(size=(64, 4096)).astype(np.float16)
    b = np.random.default_rng(3).normal(size=(4096, 64)).astype(np.float16)
    ones = np.full((1, 4096), 1.001, np.float16)
    out = run(
        {"a": a, "b": b, "ones": ones},
        lambda builder, a, b, ones: {
            "matmul": builder.aiOnnxOpset11.matmul([a, b]),
            "sum": builder.aiOnnxOpset11.reducesum([a], axes=[1], keepdims=0),
            "ones": builder.aiOnnxOpset11.reducesum([ones], axes=[1], keepdims=0),
            "softmax": builder.aiOnnxOpset11.softmax([a], axis=1),
        },
    )
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # Where terms cancel, float32 itself is off by more than one half of the tiny result.
    slack = np.abs(wide_a) @ np.abs(wide_b) * 2.0**-22
    exact = wide_a @ wide_b
    off = np.abs(out["matmul"].astype(np.float64) - exact)
    assert (off <= np.spacing(np.abs(exact).astype(np.float16)) + slack).all()
    assert _ulps(out["ones"], ones.astype(np.float64).sum(1)).max() <= 1
    assert _ulps(out["softmax"], special.softmax(wide_a, axis=1)).max() <= 1
    off = np.abs(out["sum"].astype(np.float64) - wide_a.sum(1))
    allowed = np.spacing(np.abs(wide_a.sum(1)).astype(np.float16)) + np.abs(wide_a).sum(1) * 2e-7
    assert (off <= allowed).all()


def test_every_operator_rounds() -> None:
    """2048 + 1 is 2048 in half, however many ones are added."""
    out = run(
        {"x": np.full(3, 2048, np.float16), "one": np.ones(3, np.float16)},
        lambda builder, x, one: {
            "out": builder.aiOnnxOpset11.add([builder.aiOnnxOpset11.add([x, one]), one])
        },
    )["out"]
    np.testing.assert_array_equal(out, np.full(3, 2048, np.float16))


def test_overflow_is_infinite_where_it_happens() -> None:
    def make(builder: Any, x: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        return {"out": onnx.div([onnx.mul([x, x]), x])}

    out = run({"x": np.asarray([300, 100], np.float16)}, make)["out"]
    np.testing.assert_array_equal(out, np.asarray([np.inf, 100], np.float16))


def test_casts_go_through_the_grid_of_half() -> None:
    def make(builder: Any, x: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        third = onnx.constant(np.asarray(1 / 3, np.float32))
        wide = onnx.mul([onnx.cast([x], "FLOAT"), third])
        return {
            "wide": wide,
            "half": onnx.cast([wide], "FLOAT16"),
            "again": onnx.cast([onnx.cast([wide], "FLOAT16")], "FLOAT"),
        }

    x = np.arange(1, 100, dtype=np.float16)
    out = run({"x": x}, make)
    thirds = x.astype(np.float32) * np.float32(1 / 3)
    np.testing.assert_array_equal(out["wide"], thirds)
    np.testing.assert_array_equal(out["half"], thirds.astype(np.float16))
    np.testing.assert_array_equal(out["again"], thirds.astype(np.float16).astype(np.float32))
    assert out["again"].dtype == np.float32


def test_what_only_moves_elements_is_exact() -> None:
    def make(builder: Any, x: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        return {
            "transposed": onnx.transpose([x], [1, 0]),
            "relu": onnx.relu([x]),
            "twice": onnx.concat([x, onnx.neg([x])], 0),
        }

    x = X.reshape(64, 64)
    out = run({"x": x}, make)
    np.testing.assert_array_equal(out["transposed"], x.T)
    np.testing.assert_array_equal(out["relu"], np.maximum(x, np.float16(0)))
    np.testing.assert_array_equal(out["twice"], np.concatenate([x, -x]))


def test_bfloat16_rounds_to_its_own_grid() -> None:
    x = np.random.default_rng(4).normal(size=500).astype(ml_dtypes.bfloat16)
    y = np.random.default_rng(5).normal(size=500).astype(ml_dtypes.bfloat16)
    out = run(
        {"x": x, "y": y},
        lambda builder, x, y: {
            "mul": builder.aiOnnxOpset11.mul([x, y]),
            "div": builder.aiOnnxOpset11.div([x, y]),
        },
        dtype="BFLOAT16",
    )
    wide_x, wide_y = x.astype(np.float32), y.astype(np.float32)
    assert out["mul"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(out["mul"], (wide_x * wide_y).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(out["div"], (wide_x / wide_y).astype(ml_dtypes.bfloat16))

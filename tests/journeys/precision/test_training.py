"""Gradients and weights in half: each gradient is rounded like a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle_ipu import popart
from tests.journeys.precision.half_program import train

Array = np.ndarray[Any, Any]


def _half(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32).astype(np.float16)


def test_the_gradient_of_a_product_is_rounded() -> None:
    rng = np.random.default_rng(1)
    x, w = _half(rng.normal(size=64)), _half(rng.normal(size=64))

    def make(builder: Any, x: str, w: str) -> str:
        onnx = builder.aiOnnxOpset11
        return str(
            builder.aiGraphcore.identityloss(
                [onnx.mul([onnx.mul([x, w]), w])], reduction=popart.ReductionType.Sum
            )
        )

    gradients, (after,) = train(x, [w], make, lambda x, w: {"w": w})
    # d/dw: the outer product's factor x*w, and the inner one's w*x, each a half.
    one = x * w
    expected = one + w * x
    assert gradients["w"].dtype == np.float16
    np.testing.assert_array_equal(gradients["w"], expected)
    wide = w.astype(np.float32) - np.float32(0.1) * expected.astype(np.float32)
    np.testing.assert_array_equal(after, wide.astype(np.float16))


def test_small_gradients_underflow_and_large_ones_overflow() -> None:
    x = _half(np.asarray([1e-4, 1e-4, 3e4]))
    scale = _half(np.asarray([1e-4, 1.0, 4.0]))

    def make(builder: Any, x: str, scale: str) -> str:
        onnx = builder.aiOnnxOpset11
        return str(
            builder.aiGraphcore.identityloss(
                [onnx.mul([x, onnx.exp([scale])])], reduction=popart.ReductionType.Sum
            )
        )

    gradients, _ = train(x, [scale], make, lambda x, w: {"x": x, "w": w})
    exp = np.exp(scale.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(gradients["x"], exp)
    expected = _half(x.astype(np.float32) * exp)
    off = np.abs(gradients["w"][:2] - expected[:2])
    assert (off <= np.spacing(expected[:2])).all()
    assert np.isinf(gradients["w"][2])


def test_an_update_below_half_a_place_is_lost() -> None:
    def make(builder: Any, x: str, w: str) -> str:
        return str(
            builder.aiGraphcore.identityloss(
                [builder.aiOnnxOpset11.mul([x, w])], reduction=popart.ReductionType.Sum
            )
        )

    w = _half(np.ones(4))
    x = _half(np.asarray([1.0, 1e-3, 4e-3, 6e-3]))
    _, (after,) = train(x, [w], make)
    np.testing.assert_array_equal(after, _half(1 - np.float32(0.1) * x.astype(np.float32)))
    assert after[1] == 1
    assert after[0] < 1


def test_micro_batches_are_summed_in_half() -> None:
    def make(builder: Any, x: str, w: str) -> str:
        return str(
            builder.aiGraphcore.identityloss(
                [builder.aiOnnxOpset11.mul([x, w])], reduction=popart.ReductionType.Sum
            )
        )

    w = _half(np.zeros(1))
    x = _half(np.asarray([2048.0, 1.0, 1.0, 1.0]))
    _, (after,) = train(x, [w], make, rate=1.0, accumulation=4)
    # PopART adds gradients up in the weight's type: 2048 + 1 + 1 + 1 is 2048.
    np.testing.assert_array_equal(after, _half(np.asarray([-2048.0])))

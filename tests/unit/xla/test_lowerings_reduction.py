"""Reductions: values against NumPy, gradients against Paddle's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.errors import LoweringError

ORACLES: dict[str, Any] = {
    "ReduceMean": np.mean,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSumSquare": lambda x, **k: np.sum(x * x, **k),
    "ReduceL1": lambda x, **k: np.sum(np.abs(x), **k),
    "ReduceL2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "ReduceLogSum": lambda x, **k: np.log(np.sum(x, **k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.sum(np.exp(x), **k)),
}


@pytest.mark.parametrize("op_type", ORACLES)
@settings(max_examples=8)
@given(data=st.data(), shape=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_values(lowered: Any, op_type: str, data: Any, shape: list[int]) -> None:
    rank = len(shape)
    axes = data.draw(st.none() | st.lists(st.integers(0, rank - 1), unique=True, min_size=1))
    keepdims = data.draw(st.sampled_from([None, 0, 1]))
    attributes: dict[str, Any] = {}
    if axes is not None:
        attributes["axes"] = [axis - rank if axis % 2 else axis for axis in axes]
    if keepdims is not None:
        attributes["keepdims"] = keepdims
    x = np.random.default_rng(1).uniform(0.5, 2, shape).astype(np.float32)
    out = lowered(op_type, attributes)(x)
    expected = ORACLES[op_type](
        x.astype(np.float64),
        axis=None if axes is None else tuple(axes),
        keepdims=keepdims != 0,
    )
    assert out.shape == expected.shape and out.dtype == np.float32
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)


TIES = np.array([[1, 3, 3, 2], [2, 2, 2, 2], [-1, 0, 0, -1]], np.float32)


@pytest.mark.parametrize(
    ("op_type", "function"),
    [
        ("ReduceMean", lambda x: paddle.mean(x, axis=1)),
        ("ReduceSum", lambda x: paddle.sum(x, axis=1)),
        ("ReduceMax", lambda x: paddle.max(x, axis=1)),
        ("ReduceMin", lambda x: paddle.min(x, axis=1)),
        ("ReduceMax", lambda x: paddle.amax(x, axis=1)),
        ("ReduceMin", lambda x: paddle.amin(x, axis=1)),
        ("ReduceProd", lambda x: paddle.prod(x, axis=1)),
        ("ReduceL1", lambda x: paddle.norm(x, 1, axis=1)),
        ("ReduceL2", lambda x: paddle.norm(x, 2, axis=1)),
        ("ReduceLogSumExp", lambda x: paddle.logsumexp(x, axis=1)),
    ],
)
def test_gradients_at_ties_and_zeros(
    lowered: Any, same_as_paddle: Any, op_type: str, function: Any
) -> None:
    same_as_paddle(lowered(op_type, {"axes": [1], "keepdims": 0}), function, TIES)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_ties_over_several_axes_share_the_gradient(
    lowered: Any, same_as_paddle: Any, op_type: str
) -> None:
    function = {"ReduceMax": paddle.max, "ReduceMin": paddle.min}[op_type]
    same_as_paddle(lowered(op_type, {"keepdims": 0}), function, TIES)


def test_norm_of_zeros_has_gradient_zero(lowered: Any, same_as_paddle: Any) -> None:
    x = np.array([[0, 0], [3, -4], [0, 2]], np.float32)
    for op_type, p in (("ReduceL1", 1), ("ReduceL2", 2)):
        same_as_paddle(
            lowered(op_type, {"axes": [1]}),
            lambda t, p=p: paddle.norm(t, p, axis=1, keepdim=True),
            x,
        )


def test_product_with_zeros_divides_as_paddle_does(lowered: Any, same_as_paddle: Any) -> None:
    x = np.array([[0, 2, 3], [0, 0, 2], [1, 2, 3]], np.float32)
    same_as_paddle(
        lowered("ReduceProd", {"axes": [-1], "keepdims": 0}), lambda t: paddle.prod(t, axis=1), x
    )


def test_integers_stay_integers(lowered: Any) -> None:
    x = np.array([[1, 2, 4], [-1, -2, -4]], np.int32)
    for op_type, expected in {
        "ReduceSum": [7, -7],
        "ReduceMean": [2, -2],
        "ReduceProd": [8, -8],
        "ReduceMax": [4, -1],
        "ReduceL1": [7, 7],
    }.items():
        out = lowered(op_type, {"axes": [1], "keepdims": 0})(x)
        assert out.dtype == np.int32 and out.tolist() == expected, op_type


def test_an_axis_out_of_range(lowered: Any) -> None:
    with pytest.raises(
        LoweringError, match=r"ai.onnx.ReduceSum \(node\): axis 2 .* rank 2; .* from -2 to 1"
    ):
        lowered("ReduceSum", {"axes": [2]})(TIES)


def test_arg_max_takes_the_first_of_ties(lowered: Any) -> None:
    for op_type, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        out = lowered(op_type, {"axis": -1, "keepdims": 0})(TIES)
        assert out.dtype == np.int32
        np.testing.assert_array_equal(out, function(TIES, axis=1))
        np.testing.assert_array_equal(lowered(op_type)(TIES)[0], function(TIES, axis=0))


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumsum(lowered: Any, exclusive: int, reverse: int) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    cumsum = lowered("CumSum", {"exclusive": exclusive, "reverse": reverse}, constant=[1])
    expected = np.flip(np.cumsum(np.flip(x, 1), 1), 1) if reverse else np.cumsum(x, 1)
    if exclusive:
        expected = expected - x
    np.testing.assert_allclose(cumsum(x, np.array(-1)), expected, rtol=1e-5, atol=1e-6)


def test_cumsum_gradient(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(
        lowered("CumSum", constant=[1]),
        lambda t: paddle.cumsum(t, axis=0),
        TIES,
        constants=[np.array(0)],
    )


def test_exclusive_cumsum_of_an_infinity_keeps_the_elements_before_it(lowered: Any) -> None:
    x = np.array([1, np.inf, 2], np.float32)
    out = lowered("CumSum", {"exclusive": 1}, constant=[1])(x, np.array(0))
    assert out.tolist() == [0, 1, np.inf]

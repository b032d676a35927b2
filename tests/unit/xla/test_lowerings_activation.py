"""Activations: values against closed forms, gradients against Paddle's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - the name everyone uses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.errors import LoweringError

CORNERS = np.array([-100, -20, -3, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3, 20, 100], np.float32)


@pytest.mark.parametrize(
    ("op_type", "attributes", "domain", "function"),
    [
        ("Tanh", {}, "ai.onnx", F.tanh),
        ("Relu", {}, "ai.onnx", F.relu),
        ("Sigmoid", {}, "ai.onnx", F.sigmoid),
        ("Softplus", {}, "ai.onnx", F.softplus),
        ("Softsign", {}, "ai.onnx", F.softsign),
        ("Elu", {}, "ai.onnx", F.elu),
        ("Elu", {"alpha": 0.5}, "ai.onnx", lambda x: F.elu(x, 0.5)),
        ("Selu", {}, "ai.onnx", F.selu),
        ("LeakyRelu", {}, "ai.onnx", F.leaky_relu),
        ("LeakyRelu", {"alpha": -2.0}, "ai.onnx", lambda x: F.leaky_relu(x, -2.0)),
        ("HardSigmoid", {}, "ai.onnx", lambda x: F.hardsigmoid(x, 0.2, 0.5)),
        (
            "HardSigmoid",
            {"alpha": 0.25, "beta": 0.5},
            "ai.onnx",
            lambda x: F.hardsigmoid(x, 0.25, 0.5),
        ),
        ("Gelu", {}, "ai.graphcore", lambda x: F.gelu(x, approximate=True)),
        ("GeluErf", {}, "ai.graphcore", F.gelu),
        ("Swish", {}, "ai.graphcore", F.swish),
    ],
)
def test_values_and_gradients_at_the_corners(
    lowered: Any, same_as_paddle: Any, op_type: str, attributes: Any, domain: str, function: Any
) -> None:
    same_as_paddle(lowered(op_type, attributes, domain=domain), function, CORNERS)


def test_relu_has_no_gradient_at_zero_and_makes_nan_zero(lowered: Any) -> None:
    relu = lowered("Relu")
    assert relu.gradients(np.zeros(2, np.float32))[0].tolist() == [0, 0]
    np.testing.assert_array_equal(relu(np.array([np.nan], np.float32)), [0.0])


def test_softsign_gradient_of_a_large_argument(lowered: Any) -> None:
    x = np.array([3e4], np.float32)
    np.testing.assert_allclose(
        lowered("Softsign").gradients(x)[0], 1 / (1 + x.astype(np.float64)) ** 2, rtol=1e-6
    )


def softmax_from(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Opset 11's softmax: the axes from `axis` on are one."""
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1).astype(np.float64)
    exponentials = np.exp(flat - flat.max(axis=1, keepdims=True))
    return (exponentials / exponentials.sum(axis=1, keepdims=True)).reshape(x.shape)


@settings(max_examples=15)
@given(
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    position=st.integers(0, 3),
    negative=st.booleans(),
)
def test_softmax_flattens_from_the_axis(
    lowered: Any, shape: list[int], position: int, negative: bool
) -> None:
    axis = position % len(shape)
    attributes = {"axis": axis - len(shape) if negative else axis}
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    expected = softmax_from(x, axis)
    np.testing.assert_allclose(lowered("Softmax", attributes)(x), expected, rtol=2e-6)
    np.testing.assert_allclose(
        lowered("LogSoftmax", attributes)(x), np.log(expected), rtol=2e-6, atol=1e-6
    )


def test_softmax_axis_defaults_to_1(lowered: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(lowered("Softmax")(x), softmax_from(x, 1), rtol=2e-6)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_softmax_gradients(lowered: Any, same_as_paddle: Any, op_type: str) -> None:
    function = {"Softmax": F.softmax, "LogSoftmax": F.log_softmax}[op_type]
    x = np.array([[40, 0, -20, 3], [0.5, 0.5, 0.5, 0.5], [-50, 1, 2, 3]], np.float32)
    same_as_paddle(lowered(op_type, {"axis": -1}), function, x)


def test_log_softmax_is_exact_far_below_the_largest(lowered: Any) -> None:
    x = np.array([[1000, 0, -1000]], np.float32)
    assert lowered("LogSoftmax")(x).tolist() == [[0, -1000, -2000]]


def test_softmax_of_the_last_axis_does_not_reshape(lowered: Any) -> None:
    import jax

    softmax = lowered("Softmax", {"axis": 3})
    program = jax.make_jaxpr(lambda x: softmax._rule(softmax._context, [x], {"axis": 3}))
    assert "reshape[" not in str(program(np.zeros((2, 3, 4, 5), np.float32)))


def test_softmax_rejects_an_axis_out_of_range(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="axis 1 does not fit a tensor of rank 1"):
        lowered("Softmax")(np.zeros(3, np.float32))


def test_half_precision_is_kept(lowered: Any) -> None:
    x = np.linspace(-2, 2, 5, dtype=np.float16)
    for op_type in ("Relu", "Sigmoid", "Softplus", "Elu", "Selu", "LeakyRelu", "HardSigmoid"):
        assert lowered(op_type)(x).dtype == np.float16, op_type
    for op_type in ("Gelu", "GeluErf", "Swish"):
        assert lowered(op_type, domain="ai.graphcore")(x).dtype == np.float16, op_type

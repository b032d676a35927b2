"""Convolution and pooling against Paddle's CPU kernels and onnx's reference evaluator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - the name everyone uses
import pytest

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.kernels import library

GENERATOR = np.random.default_rng(11)
X = GENERATOR.normal(size=(2, 4, 7, 6)).astype(np.float32)
TIED = GENERATOR.integers(0, 3, (2, 4, 7, 6)).astype(np.float32)
WEIGHTS = GENERATOR.normal(size=(6, 4, 3, 2)).astype(np.float32)
BIAS = GENERATOR.normal(size=6).astype(np.float32)


@pytest.mark.parametrize(
    ("attributes", "padding"),
    [
        ({}, 0),
        ({"pads": [1, 0, 2, 1]}, [1, 2, 0, 1]),
        ({"strides": [2, 3], "pads": [1, 1, 1, 1]}, 1),
        ({"dilations": [2, 1]}, 0),
        ({"auto_pad": "VALID"}, 0),
        ({"auto_pad": "SAME_UPPER"}, [1, 1, 0, 1]),
        ({"auto_pad": "SAME_LOWER"}, [1, 1, 1, 0]),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, [1, 1, 0, 0]),
    ],
)
def test_conv(lowered: Any, same_as_paddle: Any, attributes: Any, padding: Any) -> None:
    same_as_paddle(
        lowered("Conv", attributes),
        lambda x, w, b: F.conv2d(
            x,
            w,
            b,
            stride=attributes.get("strides", 1),
            padding=padding,
            dilation=attributes.get("dilations", 1),
        ),
        X,
        WEIGHTS,
        BIAS,
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("group", [2, 4])
def test_grouped_conv(lowered: Any, same_as_paddle: Any, group: int) -> None:
    weights = GENERATOR.normal(size=(8, 4 // group, 3, 3)).astype(np.float32)
    same_as_paddle(
        lowered("Conv", {"group": group}),
        lambda x, w: F.conv2d(x, w, groups=group),
        X,
        weights,
        rtol=1e-4,
        atol=1e-4,
    )


def test_conv_of_one_and_three_spatial_axes(lowered: Any, same_as_paddle: Any) -> None:
    for function, shape in ((F.conv1d, (2, 4, 9)), (F.conv3d, (1, 4, 3, 4, 5))):
        x = GENERATOR.normal(size=shape).astype(np.float32)
        weights = GENERATOR.normal(size=(3, 4) + (2,) * (len(shape) - 2)).astype(np.float32)
        same_as_paddle(lowered("Conv"), function, x, weights, rtol=1e-4, atol=1e-4)


def test_conv_refusals(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="4 input channels do not fit weights of shape"):
        lowered("Conv", {"group": 2})(X, WEIGHTS)
    with pytest.raises(LoweringError, match="unknown auto_pad 'SAME'; expected 'NOTSET'"):
        lowered("Conv", {"auto_pad": "SAME"})(X, WEIGHTS)


POOLS = [
    ({"kernel_shape": [2, 3]}, (2, 3), 1, 0, False),
    ({"kernel_shape": [3, 3], "strides": [2, 2]}, 3, 2, 0, False),
    ({"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}, 3, (2, 1), 1, False),
    ({"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, 2, 2, 0, True),
    ({"kernel_shape": [2, 2], "strides": [3, 3]}, 2, 3, 0, False),
    (
        {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 0]},
        (3, 2),
        (2, 3),
        (1, 0),
        False,
    ),
]


@pytest.mark.parametrize(("attributes", "kernel", "stride", "padding", "ceil"), POOLS)
def test_max_pool_gives_its_gradient_to_the_first_of_ties(
    lowered: Any,
    same_as_paddle: Any,
    attributes: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
) -> None:
    same_as_paddle(
        lowered("MaxPool", attributes),
        lambda x: F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil),
        TIED,
    )


@pytest.mark.parametrize(("attributes", "kernel", "stride", "padding", "ceil"), POOLS)
@pytest.mark.parametrize("include", [0, 1])
def test_average_pool(
    lowered: Any,
    same_as_paddle: Any,
    attributes: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    include: int,
) -> None:
    same_as_paddle(
        lowered("AveragePool", {**attributes, "count_include_pad": include}),
        lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil_mode=ceil, exclusive=not include),
        X,
    )


def test_global_pools(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(lowered("GlobalAveragePool"), lambda x: F.adaptive_avg_pool2d(x, 1), X)
    same_as_paddle(lowered("GlobalMaxPool"), lambda x: F.adaptive_max_pool2d(x, 1), TIED)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "shape", [(1, 72, 28, 28), (3, 101, 19, 21), (2, 12, 14, 14, 14), (2, 3, 50), (64, 900, 1, 1)]
)
def test_global_averages_in_inference(
    lowered: Any, shape: tuple[int, ...], dtype: type[np.floating[Any]]
) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) + 10).astype(dtype)
    x[0, 0].flat[0], x[-1, 1].flat[-1] = np.nan, -np.inf
    pool = lowered("GlobalAveragePool", training=False)
    expected = x.mean(tuple(range(2, x.ndim)), np.float64, keepdims=True)
    np.testing.assert_allclose(pool(x), expected, rtol=1e-6 if dtype is np.float32 else 1e-3)
    # Enough of an image for a kernel of its own, where there is one.
    is_large = dtype is np.float32 and math.prod(shape[1:]) >= 1 << 15
    assert (library.MOMENTS_TARGET in pool.text(x)) == (is_large and library.lanes() > 0)


def test_max_pool_of_integers(lowered: Any) -> None:
    x = TIED.astype(np.int32) - 5
    out = lowered("MaxPool", {"kernel_shape": [7, 6]})(x)
    np.testing.assert_array_equal(out[..., 0, 0], x.max((2, 3)))


def test_max_pool_refusals(lowered: Any) -> None:
    attributes = {"kernel_shape": [2, 2]}
    for case in (
        {"attributes": {**attributes, "dilations": [2, 1]}},
        {"attributes": {**attributes, "storage_order": 1}},
        {"attributes": attributes, "num_outputs": 2},
    ):
        with pytest.raises(LoweringError, match="max pooling has no indices output"):
            lowered("MaxPool", **case)(X)

"""``paddle.static.nn`` layers with parameters, in ProgramDesc programs (Paddle's own) and in PIR.

The same checks on every Paddle: names and shapes of parameters, and values against NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates
from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs
from tests.unit.legacy.static_run import Array, run

nn = paddle.static.nn
RNG = np.random.default_rng(7)
IMAGE = RNG.normal(size=(2, 4, 5, 5)).astype(np.float32)
ROWS = RNG.normal(size=(3, 4, 5)).astype(np.float32)

pytestmark = pytest.mark.usefixtures("static_mode")


def _convolved(x: Array, w: Array, stride: int = 1, padding: int = 0, groups: int = 1) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    size = (x.shape[2] - w.shape[2]) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], size, size), np.float64)
    per_group, filters = w.shape[1], w.shape[0] // groups
    for f in range(w.shape[0]):
        first = f // filters * per_group
        for i in range(size):
            for j in range(size):
                top, left = i * stride, j * stride
                window = x[:, first : first + per_group, top : top + w.shape[2], left:]
                out[:, f, i, j] = (window[..., : w.shape[3]] * w[f]).sum((1, 2, 3))
    return out


def _normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def _check(got: Array, expected: Array) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_embedding() -> None:
    ids = np.array([[1, 0, 3], [2, 2, 1]], np.int64)
    (got,), weights = run(lambda x: nn.embedding(x, [4, 5], padding_idx=-2), {"ids": ids})
    assert list(weights) == ["embedding_0.w_0"]
    table = weights["embedding_0.w_0"].copy()
    assert table.shape == (4, 5)
    table[2] = 0.0
    _check(got, table[ids])


@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d(groups: int) -> None:
    (got,), weights = run(
        lambda x: nn.conv2d(x, 6, 3, stride=2, padding=1, groups=groups, act="relu"), {"x": IMAGE}
    )
    w, b = weights["conv2d_0.w_0"], weights["conv2d_0.b_0"]
    assert (w.shape, b.shape) == ((6, 4 // groups, 3, 3), (6,))
    _check(got, np.maximum(_convolved(IMAGE, w, 2, 1, groups) + b.reshape(1, 6, 1, 1), 0.0))


def test_depthwise_conv2d_without_a_bias() -> None:
    (got,), weights = run(
        lambda x: nn.conv2d(x, 4, 3, groups=4, bias_attr=False, use_cudnn=False), {"x": IMAGE}
    )
    assert list(weights) == ["depthwise_conv2d_0.w_0"]
    _check(got, _convolved(IMAGE, weights["depthwise_conv2d_0.w_0"], groups=4))


def test_the_initial_filters_spread_as_the_inputs_ask() -> None:
    x = np.zeros((1, 8, 5, 5), np.float32)
    _, weights = run(lambda v: nn.conv2d(v, 64, 5), {"x": x}, new_weights=False)
    assert weights["conv2d_0.w_0"].std() == pytest.approx(np.sqrt(2.0 / (25 * 8)), rel=0.05)
    assert not weights["conv2d_0.b_0"].any()


def test_conv3d() -> None:
    x = np.random.default_rng(1).normal(size=(1, 2, 3, 3, 3)).astype(np.float32)
    (got,), weights = run(lambda v: nn.conv3d(v, 3, 3), {"x": x})
    w, b = weights["conv3d_0.w_0"], weights["conv3d_0.b_0"]
    assert (w.shape, b.shape) == ((3, 2, 3, 3, 3), (3,))
    _check(got.reshape(3), np.einsum("fcijk,cijk->f", w, x[0]) + b)


@pytest.mark.parametrize("given", [{"filter_size": 3}, {"output_size": [7, 7]}])
def test_conv2d_transpose(given: dict[str, Any]) -> None:
    (got,), weights = run(lambda x: nn.conv2d_transpose(x, 3, **given), {"x": IMAGE})
    w, b = weights["conv2d_transpose_0.w_0"], weights["conv2d_transpose_0.b_0"]
    assert (w.shape, b.shape) == ((4, 3, 3, 3), (3,))
    flipped = np.swapaxes(w, 0, 1)[:, :, ::-1, ::-1]
    _check(got, _convolved(IMAGE, flipped, padding=2) + b.reshape(1, 3, 1, 1))


def test_conv3d_transpose() -> None:
    x = np.random.default_rng(2).normal(size=(1, 2, 1, 1, 1)).astype(np.float32)
    (got,), weights = run(lambda v: nn.conv3d_transpose(v, 3, filter_size=2), {"x": x})
    w, b = weights["conv3d_transpose_0.w_0"], weights["conv3d_transpose_0.b_0"]
    expected = np.einsum("c,cfijk->fijk", x.reshape(2), w) + b.reshape(3, 1, 1, 1)
    _check(got[0], expected)


def test_batch_norm_by_the_batch_and_by_statistics() -> None:
    names = {"moving_mean_name": "mean", "moving_variance_name": "variance"}
    (got,), weights = run(lambda x: nn.batch_norm(x, act="tanh", **names), {"x": IMAGE})
    assert list(weights) == ["batch_norm_0.w_0", "batch_norm_0.b_0", "mean", "variance"]
    scale, bias = (weights[f"batch_norm_0.{name}"].reshape(1, 4, 1, 1) for name in ("w_0", "b_0"))
    _check(got, np.tanh(_normalized(IMAGE, (0, 2, 3), 1e-5) * scale + bias))
    (tested,), _ = run(lambda x: nn.batch_norm(x, is_test=True, epsilon=1e-3), {"x": IMAGE})
    _check(tested, IMAGE / np.sqrt(1.001) * scale + bias)
    (globally,), _ = run(lambda x: nn.batch_norm(x, use_global_stats=True), {"x": IMAGE})
    _check(globally, IMAGE / np.sqrt(1 + 1e-5) * scale + bias)


def test_layer_norm() -> None:
    (got,), weights = run(lambda x: nn.layer_norm(x, begin_norm_axis=1, epsilon=1e-3), {"x": ROWS})
    w, b = weights["layer_norm_0.w_0"], weights["layer_norm_0.b_0"]
    assert w.shape == b.shape == (20,)
    _check(got, _normalized(ROWS, (1, 2), 1e-3) * w.reshape(4, 5) + b.reshape(4, 5))
    (plain,), none = run(
        lambda x: nn.layer_norm(x, scale=False, shift=False, begin_norm_axis=2), {"x": ROWS}
    )
    assert not none
    _check(plain, _normalized(ROWS, (2,), 1e-5))


def test_group_norm() -> None:
    attributes = {"param_attr": paddle.ParamAttr(), "bias_attr": paddle.ParamAttr()}
    (got,), weights = run(lambda x: nn.group_norm(x, 2, **attributes), {"x": IMAGE})
    w, b = (weights[f"group_norm_0.{name}"].reshape(1, 4, 1, 1) for name in ("w_0", "b_0"))
    grouped = _normalized(IMAGE.reshape(2, 2, 2, 5, 5), (2, 3, 4), 1e-5)
    _check(got, grouped.reshape(IMAGE.shape) * w + b)
    (plain,), none = run(lambda x: nn.group_norm(x, 2), {"x": IMAGE})
    assert not none
    _check(plain, grouped.reshape(IMAGE.shape))


def test_instance_norm() -> None:
    attributes = {"param_attr": paddle.ParamAttr(), "bias_attr": paddle.ParamAttr()}
    (got,), weights = run(lambda x: nn.instance_norm(x, **attributes), {"x": IMAGE})
    w, b = (weights[f"instance_norm_0.{name}"].reshape(1, 4, 1, 1) for name in ("w_0", "b_0"))
    _check(got, _normalized(IMAGE, (2, 3), 1e-5) * w + b)


@pytest.mark.parametrize(
    ("mode", "shape", "broadcast"),
    [("all", (1,), (1,)), ("channel", (1, 4, 1, 1), (4, 1)), ("element", (1, 4, 5), (4, 5))],
)
def test_prelu(mode: str, shape: tuple[int, ...], broadcast: tuple[int, ...]) -> None:
    (got,), weights = run(lambda x: nn.prelu(x, mode, data_format="NCL"), {"x": ROWS})
    w = weights["prelu_0.w_0"]
    assert w.shape == shape
    _check(got, np.where(ROWS > 0, ROWS, w.reshape(broadcast) * ROWS))
    _, fresh = run(lambda x: nn.prelu(x, mode), {"x": ROWS}, new_weights=False)
    assert (fresh["prelu_0.w_0"] == 0.25).all()


def test_bilinear_tensor_product() -> None:
    x, y = ROWS[:, 0], ROWS[:, 1, :3].copy()
    (got,), weights = run(lambda a, b: nn.bilinear_tensor_product(a, b, 2), {"x": x, "y": y})
    w, b = (weights[f"bilinear_tensor_product_0.{name}"] for name in ("w_0", "b_0"))
    assert (w.shape, b.shape) == ((2, 5, 3), (1, 2))
    _check(got, np.einsum("bi,kij,bj->bk", x, w, y) + b)


pir_only = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="these are refusals of the layers made for PIR"
)


@pir_only
def test_what_pir_cannot_express_is_refused() -> None:
    ids = np.zeros((2, 3), np.int64)
    with pytest.raises(ValueError, match=r"embedding\(is_distributed=True\): a PIR program cannot"):
        run(lambda x: nn.embedding(x, [4, 5], is_distributed=True), {"ids": ids})
    with pytest.raises(ValueError, match=r"prelu\(mode='some'\): expected one of 'all', 'channel'"):
        run(lambda x: nn.prelu(x, "some"), {"x": ROWS})
    with pytest.raises(ValueError, match="needs filter_size or output_size; got neither"):
        run(lambda x: nn.conv2d_transpose(x, 3), {"x": IMAGE})
    with pytest.raises(ValueError, match="act='nothing': expected None or one of abs,"):
        run(lambda x: nn.conv2d(x, 3, 3, act="nothing"), {"x": IMAGE})


def test_the_line_of_an_operator_is_that_of_the_users_call(static_program: Any) -> None:
    x = paddle.static.data("x", [2, 4], "float32")
    nn.fc(nn.batch_norm(x, is_test=True), 3)
    lines = {dialect.source_of(node) for node in programs.read(static_program)}
    files = {line.rpartition(":")[0] for line in lines if line}
    assert files == {__file__}

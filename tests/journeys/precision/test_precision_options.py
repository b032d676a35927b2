"""Options that choose how norms and softmax compute, and whether wide integers are narrowed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import paddle
import pytest
from scipy import special

import paddle_ipu
from paddle_ipu import popart
from paddle_ipu.errors import InvalidProgramError, popart_exception
from tests.journeys.precision.half_program import run, train

paddle_ipu.activate()

Array = np.ndarray[Any, Any]


def _norms(builder: Any, x: str, scale: str, bias: str) -> dict[str, str]:
    y, mean, inverse = builder.aiGraphcore.groupnormalization([x, scale, bias], 2, epsilon=1e-5)
    return {"y": y, "mean": mean, "inverse": inverse}


def _feeds(x: Array) -> dict[str, Array]:
    channels = x.shape[1]
    return {"x": x, "scale": np.ones(channels, x.dtype), "bias": np.zeros(channels, x.dtype)}


def test_stable_norms_take_the_variance_around_the_mean() -> None:
    # The mean square is 2**22, of which float32 keeps steps of one half; the variance is 1 to 4.
    x = (2048 + np.random.default_rng(1).integers(-2, 3, (2, 4, 50)) * 2).astype(np.float16)
    wide = x.astype(np.float64).reshape(4, -1)
    exact = 1 / np.sqrt(wide.var(1) + 1e-5)
    stable = run(_feeds(x), _norms, enableStableNorm=True)["inverse"].astype(np.float64)
    plain = run(_feeds(x), _norms)["inverse"].astype(np.float64)
    np.testing.assert_allclose(stable, exact, rtol=2.0**-11)
    one_pass = np.mean(wide**2, 1).astype(np.float32) - np.mean(wide, 1).astype(np.float32) ** 2
    assert (plain != stable).any()
    # Each of the two terms is right to some steps of one half.
    np.testing.assert_allclose(plain, 1 / np.sqrt(one_pass + 1e-5), rtol=0.35)


def test_both_forms_agree_where_the_mean_is_small() -> None:
    x = np.random.default_rng(2).normal(size=(2, 4, 50)).astype(np.float16)
    plain, stable = run(_feeds(x), _norms), run(_feeds(x), _norms, enableStableNorm=True)
    for name in plain:
        np.testing.assert_allclose(plain[name], stable[name], rtol=2.0**-10, atol=2.0**-12)


def test_float32_norms_are_stable_either_way() -> None:
    x = (4096 + np.random.default_rng(3).normal(size=(2, 4, 50))).astype(np.float32)
    plain = run(_feeds(x), _norms, dtype="FLOAT")["inverse"]
    exact = 1 / np.sqrt(x.astype(np.float64).reshape(4, -1).var(1) + 1e-5)
    np.testing.assert_allclose(plain, exact, rtol=1e-4)


def test_strided_groups_put_every_nth_channel_together() -> None:
    x = np.random.default_rng(4).normal(np.arange(6)[:, None], size=(2, 6, 5)).astype(np.float32)
    scale, bias = np.random.default_rng(5).normal(size=(2, 6)).astype(np.float32)
    feeds = {"x": x, "scale": scale, "bias": bias}
    got = run(feeds, _norms, dtype="FLOAT", groupNormStridedChannelGrouping=True)
    y = np.empty_like(x)
    means = []
    for sample in range(2):
        for group in range(2):
            part = x[sample, group::2]
            means.append(part.mean())
            y[sample, group::2] = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
    y = y * scale[:, None] + bias[:, None]
    np.testing.assert_allclose(got["y"], y, atol=1e-5)
    np.testing.assert_allclose(got["mean"], means, atol=1e-5)
    assert np.abs(run(feeds, _norms, dtype="FLOAT")["y"] - y).max() > 0.1


def _softmaxes(builder: Any, x: str) -> dict[str, str]:
    onnx = builder.aiOnnxOpset11
    return {"softmax": onnx.softmax([x], 1), "log": onnx.logsoftmax([x], 1)}


@pytest.mark.parametrize(("dtype", "limit"), [("FLOAT", 88.7), ("FLOAT16", 11.09)])
def test_unstable_softmax_overflows(dtype: str, limit: float) -> None:
    kind = np.float16 if dtype == "FLOAT16" else np.float32
    below = np.asarray([[limit - 3, 1, 2], [-3, 0, 3]], kind)
    above = np.asarray([[limit + 0.5, 1, 2], [-3, 0, 3]], kind)
    exact = special.softmax(above.astype(np.float64), axis=1)
    tolerance = 2.0**-10 if dtype == "FLOAT16" else 1e-5
    stable = run({"x": above}, _softmaxes, dtype=dtype)
    np.testing.assert_allclose(stable["softmax"], exact, rtol=tolerance, atol=2.0**-24)
    got = run({"x": below}, _softmaxes, dtype=dtype, enableNonStableSoftmax=True)
    exact = special.softmax(below.astype(np.float64), axis=1)
    np.testing.assert_allclose(got["softmax"], exact, rtol=2 * tolerance, atol=2.0**-24)
    np.testing.assert_allclose(got["log"], np.log(exact), rtol=2 * tolerance, atol=tolerance)
    got = run({"x": above}, _softmaxes, dtype=dtype, enableNonStableSoftmax=True)
    assert np.isnan(got["softmax"][0, 0])
    assert np.isneginf(got["log"][0]).all()
    assert np.isfinite(got["softmax"][1]).all()


def test_the_gradient_of_unstable_softmax() -> None:
    x, w = np.random.default_rng(6).normal(size=(2, 4, 6)).astype(np.float16)

    def make(builder: Any, x: str, w: str) -> str:
        onnx = builder.aiOnnxOpset11
        out = onnx.mul([onnx.softmax([x], 1), w])
        return str(builder.aiGraphcore.identityloss([out], reduction=popart.ReductionType.Sum))

    got, _ = train(x, [w], make, lambda x, w: {"x": x}, enableNonStableSoftmax=True)
    soft = special.softmax(x.astype(np.float64), axis=1)
    expected = soft * (w - (soft * w).sum(1, keepdims=True))
    np.testing.assert_allclose(got["x"], expected, atol=2e-3)


def _doubled(builder: Any, x: str) -> dict[str, str]:
    onnx = builder.aiOnnxOpset11
    return {"out": onnx.reshape([onnx.add([x, x]), onnx.constant(np.asarray([2, 2]))])}


def test_popart_refuses_wide_integers_without_the_casting() -> None:
    x = np.arange(4, dtype=np.int32)
    off = {"enableSupportedDataTypeCasting": False}
    np.testing.assert_array_equal(
        run({"x": x}, _doubled, dtype="INT32", **off)["out"], (x + x).reshape(2, 2)
    )
    with pytest.raises(
        popart_exception, match=r"data type INT64 is not supported in Poplar: tensor 'x"
    ):
        run({"x": x.astype(np.int64)}, _doubled, dtype="INT64", **off)


def _compile(dtype: str) -> Any:
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = paddle.static.data("x", [4], dtype)
        out = paddle.reshape(x + x, [2, 2])
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    strategy.set_options({"enable_supported_data_type_casting": False})
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [out])
    feed = {"x": np.arange(4, dtype=dtype)}
    return paddle.static.Executor(paddle.IPUPlace()).run(program, feed=feed, fetch_list=[out])[0]


def test_a_paddle_program_with_wide_integers_is_refused_without_the_casting() -> None:
    np.testing.assert_array_equal(_compile("int32"), [[0, 2], [4, 6]])
    with pytest.raises(
        InvalidProgramError,
        match=r"enable_supported_data_type_casting is off.*\n  feed 'x'\n  .*add",
    ):
        _compile("int64")

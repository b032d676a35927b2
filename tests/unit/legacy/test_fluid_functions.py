"""Every function that ``paddle.fluid`` offers, against NumPy, in both modes it works in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.legacy.fluid_names import FLUID_NAMES
from tests.unit.legacy.fluid_cases import CASES, Case
from tests.unit.legacy.static_run import run

IDS = [f"{case.name}-{number}" for number, case in enumerate(CASES)]
TESTED_ELSEWHERE = {
    "data",
    "layers.data",
    "embedding",
    "input.embedding",
    "layers.embedding",
    "layers.fc",
    "layers.instance_norm",
    "layers.uniform_random",
    "nets.simple_img_conv_pool",
}
"""Functions that make parameters, feeds or random numbers."""


def _function(name: str) -> Any:
    found: Any = paddle.fluid
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _check(results: list[Any], case: Case) -> None:
    expected = case.expected(*case.feeds)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    assert len(results) == len(expected)
    for got, wanted in zip(results, expected, strict=True):
        array = np.asarray(got)
        assert array.shape == np.shape(wanted)
        assert array.dtype.kind == np.asarray(wanted).dtype.kind
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


# Paddle 2.6 warns about its own `arange`.
@pytest.mark.filterwarnings(r"ignore:The Attr\(force_cpu\) of Op:UserWarning")
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_in_static_mode(case: Case, static_mode: None) -> None:
    function = _function(case.name)
    feeds = {f"x{number}": array for number, array in enumerate(case.feeds)}
    results, _ = run(lambda *variables: case.call(function, *variables), feeds)
    _check(results, case)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_in_dynamic_mode(case: Case) -> None:
    paddle_ipu.activate()
    paddle.disable_static()
    result = case.call(_function(case.name), *map(paddle.to_tensor, case.feeds))
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    _check([value.numpy() for value in results], case)


def test_every_function_of_ours_has_a_case() -> None:
    ours = {
        f"{row.module}.{row.name}".removeprefix("paddle.fluid.")
        for row in FLUID_NAMES
        if row.source.startswith("paddle_ipu.legacy.layers.")
    }
    assert ours - {case.name for case in CASES} == TESTED_ELSEWHERE


def test_todays_objects_are_todays() -> None:
    paddle_ipu.activate()
    rows = [row for row in FLUID_NAMES if not row.source.startswith("paddle_ipu.")]
    assert len(rows) > 80
    for row in rows:
        module, _, name = row.source.partition(":")
        todays: Any = paddle
        for part in (*module.split(".")[1:], name):
            todays = getattr(todays, part)
        offered = _function(f"{row.module}.{row.name}".removeprefix("paddle.fluid."))
        assert offered is todays


# -- layers that make feeds and parameters --------------------------------------------------------


def test_data_of_layers_adds_a_batch_dimension_unless_one_is_unknown(static_mode: None) -> None:
    fluid = paddle.fluid
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        assert list(fluid.layers.data("a", [3, 4]).shape) == [-1, 3, 4]
        assert list(fluid.layers.data("b", [None, 4]).shape) == [-1, 4]
        assert list(fluid.layers.data("c", [3], append_batch_size=False).shape) == [3]
        label = fluid.layers.data("d", [1], dtype="int64", stop_gradient=False)
        assert str(label.dtype).lower().endswith("int64")
        assert not label.stop_gradient
        assert list(fluid.data("e", [3, 4]).shape) == [3, 4]
        for data in (fluid.layers.data, fluid.data):
            with pytest.raises(ValueError, match=r"data\(lod_level=1\): expected 0"):
                data("f", [3], lod_level=1)


@pytest.mark.parametrize(("name", "last"), [("layers", 1), ("input", None), (None, None)])
def test_embedding(static_mode: None, name: str | None, last: int | None) -> None:
    ids = np.array([[1, 3], [2, 0]], np.int64)
    function = (paddle.fluid if name is None else getattr(paddle.fluid, name)).embedding
    fed = ids if last is None else ids[..., None]
    (got,), weights = run(lambda x: function(x, size=[4, 3], padding_idx=2), {"ids": fed})
    table = weights["embedding_0.w_0"].copy()
    table[2] = 0.0
    np.testing.assert_array_equal(got, table[ids])


def test_fc_flattens_adds_and_activates(static_mode: None) -> None:
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    fc = paddle.fluid.layers.fc
    (got,), weights = run(lambda v: fc(v, 5, act="tanh"), {"x": x})
    assert weights["fc_0.w_0"].shape == (12, 5)
    expected = x.reshape(2, 12) @ weights["fc_0.w_0"] + weights["fc_0.b_0"]
    np.testing.assert_allclose(got, np.tanh(expected), rtol=1e-5, atol=1e-6)
    (got,), weights = run(
        lambda v: fc(input=[v, v], size=5, num_flatten_dims=2, bias_attr=False), {"x": x}
    )
    expected = x @ weights["fc_0.w_0"] + x @ weights["fc_0.w_1"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_instance_norm_scales_and_shifts_unless_told_not_to(static_mode: None) -> None:
    x = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
    norm = paddle.fluid.layers.instance_norm
    (got,), weights = run(lambda v: norm(v), {"x": x})
    w, b = (weights[f"instance_norm_0.{name}"].reshape(1, 3, 1, 1) for name in ("w_0", "b_0"))
    plain = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, plain * w + b, rtol=1e-5, atol=1e-6)
    (got,), weights = run(lambda v: norm(v, param_attr=False, bias_attr=False), {"x": x})
    assert not weights
    np.testing.assert_allclose(got, plain, rtol=1e-5, atol=1e-6)


def test_simple_img_conv_pool(static_mode: None) -> None:
    x = np.linspace(-1, 1, 50, dtype=np.float32).reshape(1, 2, 5, 5)
    build = paddle.fluid.nets.simple_img_conv_pool
    (got,), weights = run(lambda v: build(v, 3, 2, 2, 2, act="relu"), {"x": x})
    w, b = weights["conv2d_0.w_0"], weights["conv2d_0.b_0"]
    convolved = np.zeros((3, 4, 4))
    for i in range(4):
        for j in range(4):
            convolved[:, i, j] = (w * x[0, :, i : i + 2, j : j + 2]).sum((1, 2, 3)) + b
    pooled = np.maximum(convolved, 0).reshape(3, 2, 2, 2, 2).max((2, 4))
    np.testing.assert_allclose(got[0], pooled, rtol=1e-5, atol=1e-6)


def test_uniform_random_stays_in_its_bounds(static_mode: None) -> None:
    one = {"x": np.zeros(1, np.float32)}
    draw = paddle.fluid.layers.uniform_random
    (got,), _ = run(lambda x: draw([500], min=2.0, max=3.0), one)
    assert got.min() >= 2.0
    assert got.max() <= 3.0
    assert got.std() == pytest.approx(1 / np.sqrt(12), rel=0.2)


def test_dropout_drops_in_training(static_mode: None) -> None:
    x = {"x": np.ones((100, 10), np.float32)}
    (got,), _ = run(lambda v: paddle.fluid.layers.dropout(v, 0.5), x)
    assert set(np.unique(got)) == {0.0, 1.0}
    up = "upscale_in_train"
    (got,), _ = run(lambda v: paddle.fluid.layers.dropout(v, 0.5, dropout_implementation=up), x)
    assert set(np.unique(got)) == {0.0, 2.0}


def test_results_go_where_they_are_told(static_mode: None) -> None:
    layers = paddle.fluid.layers
    x = np.array([1, 2, 3], np.int64)

    def build(v: Any) -> Any:
        condition = layers.zeros_like(layers.cast(v, "bool"))
        layers.less_than(v, layers.fill_constant([3], "int64", 2), cond=condition)
        return condition

    (got,), _ = run(build, {"x": x})
    assert got.tolist() == [True, False, False]


# -- refusals -------------------------------------------------------------------------------------


@pytest.fixture
def variables(static_mode: None) -> Any:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        yield SimpleNamespace(
            x=paddle.static.data("x", [2, 3], "float32"),
            cube=paddle.static.data("cube", [2, 3, 4], "float32"),
            unknown=paddle.static.data("unknown", [-1, 3, -1], "float32"),
            ids=paddle.static.data("ids", [2, 3], "int64"),
            image=paddle.static.data("image", [1, 2, 4, 4], "float32"),
        )


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda f, v: f.layers.embedding(v.ids, [4, 3]), r"size 1, got shape \[2, 3\].*input\.emb"),
        (lambda f, v: f.layers.one_hot(v.ids, 4), r"one_hot: expected a last dimension of size 1"),
        (lambda f, v: f.layers.elementwise_add(v.cube, v.x, axis=2), r"axis=2: .*\[2, 3\] does no"),
        (lambda f, v: f.layers.flatten(v.x, 3), r"flatten\(axis=3\): expected 0 to 2"),
        (lambda f, v: f.layers.flatten(v.unknown), "both its rows and its columns"),
        (lambda f, v: f.layers.pad(v.x, [1, 1]), r"pad\(paddings=\[1, 1\]\): expected 4 numbers"),
        (lambda f, v: f.layers.relu6(f.layers.fc(v.x, 3, act="no")), "act='no': expected None or"),
        (lambda f, v: f.layers.dropout(v.x, 0.5, seed=3), r"dropout\(seed=3\).*paddle\.seed"),
        (
            lambda f, v: f.layers.dropout(v.x, 0.5, dropout_implementation="both"),
            "'both'.: expected one of 'downgrade_in_infer', 'upscale_in_train'",
        ),
        (lambda f, v: f.layers.pool2d(v.image), "pool2d: give pool_size, or global_pooling=True"),
        (lambda f, v: f.layers.pool2d(v.image, 2, "sum"), "pool_type='sum'.: expected 'max' or"),
        (
            lambda f, v: f.layers.adaptive_pool2d(v.image, 2, "sum"),
            "adaptive_pool2d.pool_type='sum'.: expected 'max' or",
        ),
        (
            lambda f, v: f.nets.scaled_dot_product_attention(v.cube, v.cube, v.cube, 3),
            "values of size 4 with 3 heads",
        ),
    ],
)
def test_wrong_uses_are_refused(use: Any, message: str, variables: Any) -> None:
    with pytest.raises(ValueError, match=message):
        use(paddle.fluid, variables)

"""AMP's entry points and ``enable_fp16``, on programs of either kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import paddle
import pytest
from paddle.nn import functional

import paddle_ipu
from paddle_ipu.errors import NotSupported

paddle_ipu.activate()

Array = np.ndarray[Any, Any]

WITH_PIR = not str(paddle.__version__).startswith("2.6.")
only_pir = pytest.mark.skipif(not WITH_PIR, reason="stock Paddle converts ProgramDesc programs")

X = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


class Model:
    """Three layers, the middle one inside ``fp16_guard``, perhaps with an optimizer."""

    def __init__(self, training: bool = False, optimizer: Any = None) -> None:
        paddle.enable_static()
        paddle.seed(1)
        self.scope = paddle.static.Scope()
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        with (
            paddle.static.program_guard(self.main, startup),
            paddle.utils.unique_name.guard(),
            paddle.static.scope_guard(self.scope),
        ):
            x = paddle.static.data("x", [4, 8], "float32")
            self.first = paddle.static.nn.fc(x, 16)
            with paddle.static.amp.fp16_guard():
                self.second = functional.gelu(paddle.static.nn.fc(self.first, 16))
            self.third = paddle.scale(paddle.static.nn.fc(self.second, 3), 0.5)
            self.loss = paddle.mean(self.third * self.third)
            if training:
                (optimizer or paddle.optimizer.Adam(0.01)).minimize(self.loss)
            paddle.static.Executor(paddle.CPUPlace()).run(startup)
        self.training = training

    def cast(self, guarded: bool = False, unsupported: frozenset[str] = frozenset()) -> set[str]:
        lists = paddle.static.amp.CustomOpLists()
        lists.unsupported_list = set(unsupported)
        names: set[str] = paddle.static.amp.cast_model_to_fp16(
            self.main, lists, use_fp16_guard=guarded
        )
        with paddle.static.scope_guard(self.scope):
            paddle.static.amp.cast_parameters_to_fp16(
                paddle.CPUPlace(), self.main, to_fp16_var_names=names
            )
        return names

    def run(self, feed: Array = X, steps: int = 1, **options: Any) -> dict[str, Array]:
        """Fetches by name; then the weights are in the scope."""
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=self.training)
        strategy.set_options(options)
        fetches = {
            "first": self.first, "second": self.second, "third": self.third, "loss": self.loss
        }  # fmt: skip
        ipu = paddle.static.IpuCompiledProgram(self.main, self.scope, strategy)
        program = ipu.compile(["x"], list(fetches.values()))
        executor = paddle.static.Executor(paddle.IPUPlace())
        for _ in range(steps):
            values = executor.run(program, feed={"x": feed}, fetch_list=list(fetches.values()))
        ipu._backend.weights_to_host()
        return dict(zip(fetches, values, strict=True))

    def weights(self) -> dict[str, Array]:
        return {
            str(p.name): np.array(self.scope.find_var(p.name).get_tensor())
            for p in self.main.global_block().all_parameters()
            if "learning_rate" not in p.name
        }


def _dtypes(values: dict[str, Array]) -> dict[str, str]:
    return {name: array.dtype.name for name, array in values.items()}


def _all(dtype: str) -> dict[str, str]:
    return dict.fromkeys(("first", "second", "third", "loss"), dtype)


def test_enable_fp16_alone_converts_the_program() -> None:
    full, half = Model().run(), Model().run(enable_fp16=True)
    assert _dtypes(half) == _all("float16")
    for name, expected in full.items():
        np.testing.assert_allclose(half[name], expected, rtol=5e-3, atol=2e-3)
    assert any((half[name] != full[name].astype(np.float16)).any() for name in full)


def test_enable_fp16_takes_feeds_of_either_type() -> None:
    model = Model()
    wide, narrow = model.run(X, enable_fp16=True), model.run(X.astype(np.float16), enable_fp16=True)
    for name in wide:
        np.testing.assert_array_equal(wide[name], narrow[name])


def test_weights_come_back_in_the_type_the_scope_has() -> None:
    model = Model(training=True)
    before = model.weights()
    model.run(steps=2, enable_fp16=True)
    for name, after in model.weights().items():
        assert after.dtype == np.float32
        assert (after != before[name]).any()
        # The device has halves.
        np.testing.assert_array_equal(after, after.astype(np.float16).astype(np.float32))


def test_cast_model_and_parameters() -> None:
    model = Model()
    names = model.cast()
    assert set(model.weights()) <= names
    assert set(_dtypes(model.weights()).values()) == {"float16"}
    assert _dtypes(model.run()) == _all("float16")
    assert set(_dtypes(model.weights()).values()) == {"float16"}


@pytest.mark.parametrize("regularizer", [paddle.regularizer.L1Decay, paddle.regularizer.L2Decay])
def test_decay_and_clip_of_a_model_cast_after_minimize(regularizer: Any) -> None:
    def trained(cast: bool, **settings: Any) -> list[Array]:
        paddle.enable_static()
        model = Model(training=True, optimizer=paddle.optimizer.SGD(0.5, **settings))
        if cast:
            model.cast()
        model.run()
        return list(model.weights().values())

    clip = paddle.nn.ClipGradByGlobalNorm(0.1)
    cast, whole = (
        trained(cast, weight_decay=regularizer(0.2), grad_clip=clip) for cast in (True, False)
    )
    for got, expected, plain in zip(cast, whole, trained(False), strict=True):
        np.testing.assert_allclose(got, expected, rtol=5e-3, atol=1e-3)
        assert np.abs(plain - expected).max() > 5e-3


def test_half_of_the_whole_model_is_the_same_by_either_way() -> None:
    model = Model()
    model.cast()
    by_amp, by_option = model.run(X.astype(np.float16)), Model().run(enable_fp16=True)
    for name in by_amp:
        np.testing.assert_array_equal(by_amp[name], by_option[name])


def test_the_guard_limits_what_becomes_half() -> None:
    model = Model()
    names = model.cast(guarded=True)
    halves = {name for name, array in model.weights().items() if array.dtype == np.float16}
    # Programs of either kind have the middle layer's weights between the others'.
    assert halves == {*list(model.weights())[2:4]}
    assert halves <= names
    assert _dtypes(model.run()) == {**_all("float32"), "second": "float16"}


def test_the_author_of_a_half_program_is_not_overruled() -> None:
    model = Model()
    model.cast(guarded=True)
    assert _dtypes(model.run(enable_fp16=True)) == {**_all("float32"), "second": "float16"}


def test_unsupported_operators_stay() -> None:
    model = Model()
    model.cast(unsupported=frozenset({"scale"}))
    assert _dtypes(model.run()) == {**_all("float16"), "third": "float32"}


def test_training_keeps_the_weights_that_the_optimizer_owns() -> None:
    """Cast after ``minimize``: Paddle keeps the optimizer and what it updates in float32."""
    model, full = Model(training=True), Model(training=True)
    model.cast()
    assert set(_dtypes(model.weights()).values()) == {"float32"}
    half, wide = model.run(steps=20), full.run(steps=20)
    assert half["loss"].dtype == np.float16
    np.testing.assert_allclose(half["loss"], wide["loss"], rtol=0.05)
    assert any((w != w.astype(np.float16)).any() for w in model.weights().values())


def test_no_operator_counts_as_unsupported() -> None:
    assert not paddle.static.amp.CustomOpLists().unsupported_list


@only_pir
def test_another_dtype_is_refused() -> None:
    with pytest.raises(NotSupported, match="mixed precision to .* use float16 or bfloat16"):
        paddle.static.amp.cast_model_to_fp16(Model().main, dest_type=paddle.float64)


@only_pir
def test_bfloat16() -> None:
    model = Model()
    lists = paddle.static.amp.CustomOpLists()
    paddle.static.amp.cast_model_to_fp16(
        model.main, lists, use_fp16_guard=False, dest_type=paddle.bfloat16
    )
    out = model.run()
    assert _dtypes(out) == _all("uint16")
    full = Model().run()
    third = out["third"].view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_allclose(third, full["third"], rtol=0.1, atol=0.02)


def _auto_cast(build: Callable[[Any], dict[str, Any]]) -> dict[str, str]:
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope()
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        values = build(paddle.static.data("x", [4, 8], "float32"))
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    program = paddle.static.IpuCompiledProgram(main, scope, strategy).compile(
        ["x"], list(values.values())
    )
    got = paddle.static.Executor(paddle.IPUPlace()).run(
        program, feed={"x": X}, fetch_list=list(values.values())
    )
    return dict(zip(values, (str(array.dtype) for array in got), strict=True))


def _layers(x: Any) -> dict[str, Any]:
    product = paddle.nn.Linear(8, 8, bias_attr=False)(x)
    gelu = functional.gelu(product)
    with paddle.amp.auto_cast(False):
        kept = paddle.nn.Linear(8, 8)(gelu)
    softmax = functional.softmax(gelu)
    return {
        "product": product,
        "gelu": gelu,
        "kept": kept,
        "joined": paddle.concat([gelu, gelu * 2.0], axis=1),
        "softmax": softmax,
        "mixed": paddle.add(gelu, softmax),
    }


_F16, _F32 = "float16", "float32"


@only_pir
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("O1", [_F16, _F16, _F32, _F16, _F32, _F32]),
        ("O2", [_F16, _F16, _F32, _F16, _F16, _F16]),
        ("OD", [_F16, _F32, _F32, _F32, _F32, _F32]),
        ("O0", [_F32] * 6),
    ],
)
def test_auto_cast(level: str, expected: list[str]) -> None:
    def build(x: Any) -> dict[str, Any]:
        with paddle.amp.auto_cast(level=level):
            return _layers(x)

    assert list(_auto_cast(build).values()) == expected


@only_pir
def test_auto_cast_heeds_the_users_lists() -> None:
    def build(x: Any) -> dict[str, Any]:
        with paddle.amp.auto_cast(
            custom_white_list={"softmax"}, custom_black_list={"matmul", "gelu"}
        ):
            return _layers(x)

    got = _auto_cast(build)
    assert (got["product"], got["gelu"], got["softmax"]) == (_F32, _F32, _F16)


def test_a_mask_in_half_is_no_converted_program() -> None:
    """`enable_fp16` converts what is around it, as it did for the first BERT scripts."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [4, 8], "float32")
        length = paddle.static.data("length", [4, 1], "int32")
        mask = paddle.cast(
            paddle.less_than(paddle.assign(np.arange(8, dtype="int32")), length), "float16"
        )
        y = paddle.cast(paddle.cast(mask, "float32") * x, "float32") * 3.0
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=4)
    strategy.set_options({"enable_fp16": True})
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(
        ["x", "length"], [y]
    )
    lengths = np.array([[1], [8], [0], [3]], np.int32)
    (out,) = paddle.static.Executor(paddle.IPUPlace()).run(
        program, feed={"x": X, "length": lengths}, fetch_list=[y]
    )
    assert out.dtype == np.float16
    half = X.astype(np.float16) * (np.arange(8) < lengths)
    np.testing.assert_array_equal(out, half * np.float16(3))


def test_weights_that_enable_fp16_leaves_wide_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from paddle_ipu.passes import convert_to_half

    convert_to_half._warn_once.cache_clear()
    model = Model(training=True)
    model.cast()
    model.run(steps=2, enable_fp16=True)
    model.run(enable_fp16=True)
    (told,) = [r.getMessage() for r in caplog.records if "enable_fp16 leaves" in r.getMessage()]
    assert "it computes in half, and 6 weights, fc_" in told
    assert "stay float32" in told and "leave cast_model_to_fp16 out" in told
    for after in model.weights().values():
        assert after.dtype == np.float32
        assert (after != after.astype(np.float16)).any()


@pytest.mark.parametrize("options", [{"enable_fp16": True}, {}])
def test_nothing_is_told_where_nothing_stays_wide(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    from paddle_ipu.passes import convert_to_half

    convert_to_half._warn_once.cache_clear()
    Model(training=True).run(**options)
    model = Model(training=bool(not options))
    model.cast()
    model.run(**options)
    assert not [record for record in caplog.records if "enable_fp16" in record.getMessage()]

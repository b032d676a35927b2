"""``cpu_fallback``: operators without a translator run on Paddle's CPU kernels inside the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.errors import NotSupported, PaddleIpuError, UnsupportedOpError
from tests.operators.compare import assert_same
from tests.tables import remove_translators

pytestmark = pytest.mark.usefixtures("static_mode")

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.fixture
def untranslated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the translators of a few operators away, whatever the table has by now."""
    names = ("tanh", "concat", "topk", "unstack", "argmax", "unique", "dropout")
    remove_translators(monkeypatch, *names)


class Program:
    """fc, then what `build` makes of it, then a mean and SGD."""

    def __init__(self, build: Callable[[Any, Any], Any], training: bool = True) -> None:
        self.main, self.start = paddle.static.Program(), paddle.static.Program()
        self.training = training
        with (
            paddle.static.program_guard(self.main, self.start),
            paddle.utils.unique_name.guard(),
        ):
            x = paddle.static.data("x", [-1, 4], "float32")
            weight = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
            hidden = paddle.static.nn.fc(
                x, 8, weight_attr=paddle.ParamAttr(
                    name="w", initializer=paddle.nn.initializer.Assign(weight))
            )  # fmt: skip
            out = build(x, hidden)
            self.out = out
            self.loss = paddle.mean(out * out) if training else out
            if training:
                paddle.optimizer.SGD(0.5).minimize(self.loss)

    def scope(self) -> Any:
        scope = paddle.static.Scope()
        paddle.static.Executor().run(self.start, scope=scope)
        return scope

    def compile(self, scope: Any, fallback: bool = True, **loop: int) -> Any:
        strategy = paddle.static.IpuStrategy()
        rows = len(X) // int(np.prod(list(loop.values()), dtype=int))
        strategy.set_graph_config(num_ipus=1, is_training=self.training, micro_batch_size=rows)
        if loop:
            strategy.set_pipelining_config(
                enable_pipelining=False,
                batches_per_step=loop.get("batches", 1),
                enable_gradient_accumulation=loop.get("micro", 1) > 1,
                accumulation_factor=loop.get("micro", 1),
            )
        strategy.set_options({"cpu_fallback": fallback})
        return paddle.static.IpuCompiledProgram(
            self.main, scope=scope, ipu_strategy=strategy
        ).compile(["x"], [self.loss])

    def on_cpu(self, steps: int) -> tuple[list[Any], Any]:
        scope, executor = self.scope(), paddle.static.Executor()
        found = [
            executor.run(self.main, feed={"x": X}, fetch_list=[self.loss], scope=scope)[0]
            for _ in range(steps)
        ]
        return found, np.asarray(scope.find_var("w").get_tensor())

    def on_ipu(self, steps: int) -> tuple[list[Any], Any, Any]:
        scope = self.scope()
        compiled = self.compile(scope)
        found = [compiled.run({"x": X}, [self.loss])[0] for _ in range(steps)]
        compiled.weights_to_host()
        return found, np.array(scope.find_var("w").get_tensor()), compiled


BUILDS: dict[str, Callable[[Any, Any], Any]] = {
    "one operand": lambda x, h: paddle.tanh(h),
    "a list": lambda x, h: paddle.concat([h, x, h], axis=1),
    "a constant, two results": lambda x, h: paddle.topk(h, k=3, axis=-1)[0],
    "a list of results": lambda x, h: paddle.unstack(h, axis=1)[1],
    "twice": lambda x, h: paddle.tanh(paddle.tanh(h) * h),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_training_gives_paddles_numbers(
    build: Callable[[Any, Any], Any], untranslated: None
) -> None:
    program = Program(build)
    expected, weight = program.on_cpu(3)
    got, trained, compiled = program.on_ipu(3)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(trained, weight, rtol=1e-5, atol=1e-7)
    report = compiled.report()
    assert report.steps == 3
    assert all(found.calls == 3 for found in report.on_host)


def _branches(x: Any, h: Any) -> Any:
    return paddle.static.nn.cond(
        paddle.mean(x) > 0, lambda: paddle.tanh(h), lambda: paddle.concat([h, x], axis=1)[:, 4:]
    )


def _turns(x: Any, h: Any) -> Any:
    turn = paddle.zeros([1], "int32")
    return paddle.static.nn.while_loop(
        lambda turn, value: turn < 3,
        lambda turn, value: (turn + 1, paddle.tanh(value) * 2),
        [turn, h * 1],
    )[1]


@pytest.mark.parametrize("build", [_branches, _turns])
def test_operators_in_blocks_run_on_the_host(
    build: Callable[[Any, Any], Any], untranslated: None
) -> None:
    program = Program(build)
    expected, weight = program.on_cpu(2)
    got, trained, compiled = program.on_ipu(2)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(trained, weight, rtol=1e-5, atol=1e-7)
    calls = [found.calls for found in compiled.report().on_host]
    # One of two branches ran in each step, or three turns.
    assert sum(calls) == (2 if build is _branches else 6)


def test_complex_results_are_refused() -> None:
    program = Program(lambda x, h: paddle.abs(paddle.fft.fft(h)), training=False)
    with pytest.raises(
        NotSupported, match=r"fft_r2c at .*py:\d+: it gives complex64, and there is"
    ):
        program.compile(program.scope())


def test_inference_gives_integers_in_paddles_dtype(untranslated: None) -> None:
    program = Program(lambda x, h: paddle.argmax(h, axis=1), training=False)
    expected, _ = program.on_cpu(1)
    got, _, _ = program.on_ipu(1)
    np.testing.assert_array_equal(got[0], expected[0])
    assert got[0].dtype == expected[0].dtype == np.int64


def test_every_micro_batch_calls_the_host(untranslated: None) -> None:
    program = Program(lambda x, h: paddle.tanh(h))
    expected, _ = program.on_cpu(1)
    compiled = program.compile(program.scope(), micro=3)
    got = compiled.run({"x": X}, [program.loss])[0]
    np.testing.assert_allclose(np.mean(got), expected[0], rtol=1e-6)
    assert compiled.report().on_host[0].calls == 3


def test_large_arrays_pass(untranslated: None) -> None:
    program = Program(lambda x, h: paddle.tanh(paddle.tile(h, [1, 4096])), training=False)
    expected, _ = program.on_cpu(1)
    got, _, _ = program.on_ipu(1)
    assert_same(got=got[0], expected=expected[0])


def test_the_report_names_each_operator_and_its_cost(untranslated: None) -> None:
    program = Program(BUILDS["twice"])
    compiled = program.compile(program.scope())
    assert compiled.report().on_host[0].seconds_per_step is None
    assert "tanh at " in str(compiled.report()) and "not run yet" in str(compiled.report())
    compiled.run({"x": X}, [program.loss])
    report = compiled.report()
    assert [found.operator for found in report.on_host] == ["tanh", "tanh"]
    assert all(found.seconds_per_step and found.seconds_per_step > 0 for found in report.on_host)
    assert not report.portable
    text = str(report)
    assert "operators on Paddle's CPU kernels: 2" in text
    assert f"{__file__}:" in text and " ms a step" in text
    assert "operator ai.paddle_ipu.CpuKernel" in text


def test_a_program_without_them_has_an_empty_report() -> None:
    program = Program(lambda x, h: h + 1.0)
    report = program.compile(program.scope()).report()
    assert not report.on_host
    assert "operators on Paddle's CPU kernels: none" in str(report)


def test_without_the_option_one_error_lists_all(untranslated: None) -> None:
    program = Program(lambda x, h: paddle.tanh(paddle.concat([h, x], axis=1)))
    with pytest.raises(UnsupportedOpError, match=r"(?s)2 operator.*concat.*tanh.*cpu_fallback"):
        program.compile(program.scope(), fallback=False)


def test_verify_runs_with_it(untranslated: None) -> None:
    program = Program(BUILDS["one operand"])
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=len(X))
    strategy.set_options({"cpu_fallback": True})
    report = paddle_ipu.verify(
        program.main, {"x": X}, [program.loss], ipu_strategy=strategy, scope=program.scope()
    )
    assert report.ok


def test_an_operator_without_a_gradient_is_refused_where_one_is_needed(
    untranslated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(BUILDS["one operand"])

    def none(*args: Any) -> Any:
        raise RuntimeError("no gradient")

    monkeypatch.setattr(paddle.static, "gradients", none)
    with pytest.raises(NotSupported, match="tanh at .*Paddle, which cpu_fallback asks for a grad"):
        program.compile(program.scope())


def test_a_gradient_that_would_draw_again_is_refused(untranslated: None) -> None:
    program = Program(lambda x, h: paddle.nn.functional.dropout(h, 0.5))
    with pytest.raises(
        NotSupported, match=r"dropout at .*it draws at random, .* would draw other numbers"
    ):
        program.compile(program.scope())


def test_a_kernel_that_fails_names_the_operator(
    untranslated: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = Program(BUILDS["one operand"], training=False)
    compiled = program.compile(program.scope())

    def fail(*args: Any, **keywords: Any) -> Any:
        raise RuntimeError("kernel says no")

    monkeypatch.setattr(paddle.static.Executor, "run", fail)
    with pytest.raises(PaddleIpuError, match=f"tanh at {__file__}:.* failed: kernel says no"):
        compiled.run({"x": X}, [program.loss])
    # JAX's own account of it is left out.
    assert not caplog.records


def test_a_shape_that_depends_on_values_is_refused(untranslated: None) -> None:
    program = Program(lambda x, h: paddle.unique(x), training=False)
    compiled = program.compile(program.scope())
    with pytest.raises(
        NotSupported, match=r"unique at .* gave shape \[24\], on ones it gave \[1\]"
    ):
        compiled.run({"x": X}, [program.loss])


def test_a_program_from_a_file_has_no_kernels(untranslated: None) -> None:
    from paddle_ipu import popart
    from paddle_ipu.errors import LoweringError

    program = Program(BUILDS["one operand"], training=False)
    compiled = program.compile(program.scope())
    model = compiled.backend._builder.getModelProto()
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    output = next(iter(compiled.fetches.values())).anchor
    session = popart.InferenceSession(
        model, popart.DataFlow(1, {output: popart.AnchorReturnType("All")}), device
    )
    with pytest.raises(LoweringError, match="operator tanh runs on a CPU kernel of the process"):
        session.prepareDevice()

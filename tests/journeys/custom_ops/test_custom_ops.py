"""Custom operators in C++, built by ``cpp_extension.load``, and what they mean on the IPU Model."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from examples.bert.stages.checkpoint_outputs import checkpoint_output
from paddle_ipu.compiler.cpp_extension import loading
from paddle_ipu.errors import (
    BackendUnavailableError,
    LoweringError,
    NotSupported,
    OptionError,
    PaddleIpuError,
    UnsupportedOpError,
)
from tests.checkout import ROOT
from tests.tables import keep_registrations

pytestmark = pytest.mark.usefixtures("static_mode")

HERE = Path(__file__).parent
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
PROBABILITIES = np.full((3, 4), 0.25, np.float32)
LABELS = np.asarray([2, 0, 3], np.int64)


@pytest.fixture(autouse=True)
def _unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_registrations(monkeypatch)


@pytest.fixture(scope="module")
def operators(made_once: Callable[..., Path]) -> Any:
    """The module of the compiled operators; the compiler runs once."""
    if shutil.which("g++") is None:
        pytest.skip("custom operators need g++")
    paddle_ipu.activate()
    return _load(made_once("custom_ops", _build_elsewhere))


def _load(folder: Path) -> Any:
    """The module in a folder, built if it is not there."""
    with warnings.catch_warnings():
        # Setuptools and Paddle warn of their own ways while they compile.
        warnings.simplefilter("ignore")
        return paddle.utils.cpp_extension.load(
            name="paddle_ipu_test_ops",
            sources=[str(HERE / "custom_ops.cc"), str(HERE / "half_for_popart.cc")],
            extra_cxx_cflags=["-O0", "-DONNX_NAMESPACE=onnx"],
            build_directory=str(folder),
        )


def _build_elsewhere(folder: Path) -> None:
    """Builds in another process: Paddle gives a module its operators at the first load only."""
    snippet = f"""
import pathlib, paddle_ipu
paddle_ipu.activate()
from tests.journeys.custom_ops.test_custom_ops import _load
_load(pathlib.Path({str(folder)!r}))
"""
    subprocess.run([sys.executable, "-c", snippet], cwd=ROOT, check=True)


class Program:
    """A parameter ``w`` that is `x`, what `build` makes of it, its weighted sum, and SGD."""

    def __init__(self, build: Callable[[Any], Any], value: Any = X) -> None:
        self.main, self.start = paddle.static.Program(), paddle.static.Program()
        with (
            paddle.static.program_guard(self.main, self.start),
            paddle.utils.unique_name.guard(),
        ):
            weight = paddle.create_parameter(
                list(value.shape), "float32", name="w",
                default_initializer=paddle.nn.initializer.Assign(value),
            )  # fmt: skip
            scale = paddle.static.data("scale", [1], "float32")
            self.out = build(weight)
            self.loss = paddle.sum(self.out * self.out) * scale
            paddle.optimizer.SGD(0.5).minimize(self.loss)
        self.feed = {"scale": np.ones(1, np.float32)}

    def _scope(self) -> Any:
        scope = paddle.static.Scope()
        paddle.static.Executor().run(self.start, scope=scope)
        return scope

    def on_cpu(self) -> tuple[Any, Any]:
        """The operator's result and the weight after one step, by Paddle's CPU executor."""
        scope = self._scope()
        out = paddle.static.Executor().run(
            self.main, feed=self.feed, fetch_list=[self.out], scope=scope
        )[0]
        return out, np.array(scope.find_var("w").get_tensor())

    def on_ipu(self, *mapping: Any) -> tuple[Any, Any, Any]:
        """The same on the IPU Model, and the compiled program's report."""
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=1)
        if mapping:
            strategy.add_custom_op(*mapping)
        scope = self._scope()
        compiled = paddle.static.IpuCompiledProgram(
            self.main, scope=scope, ipu_strategy=strategy
        ).compile(list(self.feed), [self.out])
        (out,) = compiled.run(self.feed, [self.out])
        compiled.weights_to_host()
        return out, np.array(scope.find_var("w").get_tensor()), compiled.report()


def _leaky(x: Any, alpha: float) -> Any:
    import jax.numpy as jnp

    return jnp.where(x > 0, x, alpha * x)


@pytest.fixture
def leaky(operators: Any) -> Program:
    return Program(lambda w: operators.test_leaky(w, alpha=0.25))


def test_a_registered_function_gives_the_kernels_numbers(leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", _leaky)
    expected, weight = leaky.on_cpu()
    out, trained, report = leaky.on_ipu()
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(trained, weight, rtol=1e-6, atol=1e-7)
    assert not report.on_host and report.portable


def test_a_derivative_of_ones_own(leaky: Program) -> None:
    def backward(inputs: Any, outputs: Any, gradients: Any, alpha: float) -> Any:
        assert alpha == 0.25 and len(inputs) == len(outputs) == 1
        return (3.0 * gradients[0],)

    paddle_ipu.register_custom_op("test_leaky", _leaky, backward=backward)
    out, trained, _ = leaky.on_ipu()
    np.testing.assert_allclose(trained, X - 0.5 * 3 * 2 * out, rtol=1e-5, atol=1e-6)


def test_a_mapping_finds_the_function_by_its_popart_name(leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", _leaky, popart_op="Leaky", domain="mine")
    expected, _ = leaky.on_cpu()
    out, _, report = leaky.on_ipu("test_leaky", "Leaky", "mine", 1)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert not report.on_host


def test_a_mapping_to_an_operator_of_popart(leaky: Program) -> None:
    expected, weight = leaky.on_cpu()
    out, trained, _ = leaky.on_ipu("test_leaky", "LeakyRelu", "ai.onnx", 6)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(trained, weight, rtol=1e-6, atol=1e-7)


def test_a_mapped_operator_without_meaning_runs_its_cpu_kernel(
    leaky: Program, caplog: pytest.LogCaptureFixture
) -> None:
    expected, weight = leaky.on_cpu()
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        out, trained, report = leaky.on_ipu("test_leaky", "Leaky")
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(trained, weight, rtol=1e-6, atol=1e-7)
    assert [found.operator for found in report.on_host] == ["test_leaky"]
    assert "domain: custom.ops, type: Leaky" in caplog.text
    assert "the operator's CPU kernel runs in its place" in caplog.text


def test_an_operator_that_nobody_knows_is_refused(leaky: Program) -> None:
    with pytest.raises(UnsupportedOpError, match=r"(?s)test_leaky \(1x\).*register_custom_op"):
        leaky.on_ipu()


def loaded_with(folder: Path, **arguments: Any) -> dict[str, Any]:
    """What Paddle's own ``load`` is given of a call of the plugin's."""

    def load(
        name: str, sources: Any, extra_cxx_cflags: Any = None, extra_ldflags: Any = None,
        build_directory: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        return {"sources": sources, "extra_ldflags": extra_ldflags}

    given = {"name": "mine", "sources": [], "build_directory": str(folder), **arguments}
    found: dict[str, Any] = loading(load)(**given)
    return found


def test_the_half_for_popart_is_left_out_with_one_line(
    operators: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources = [str(HERE / "custom_ops.cc"), str(HERE / "half_for_popart.cc")]
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        given = loaded_with(tmp_path, sources=sources, extra_ldflags=["-lpopart"])
    assert given == {"sources": sources[:1], "extra_ldflags": []}
    (record,) = caplog.records
    assert record.getMessage() == (
        "mine: left out, since Graphcore's SDK is not installed: half_for_popart.cc "
        "(<popart/op.hpp>), -lpopart."
    )
    assert callable(operators.test_leaky)


def test_a_source_that_includes_another_with_popart_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "op.hpp").write_text('#include "again.cc"\n  #include <poplar/Graph.hpp>\n')
    (tmp_path / "again.cc").write_text('#include "op.hpp"\n#include "absent.hpp"\n')
    (tmp_path / "plain.cc").write_text('#include "paddle/extension.h"\n')
    sources = [str(tmp_path / "again.cc"), str(tmp_path / "plain.cc")]
    assert loaded_with(tmp_path, sources=sources)["sources"] == sources[1:]


def test_libraries_of_the_sdk_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddle_ipu.runtime import target_selection

    flags = ["-lpopfloat", "-lm", "-lpopart"]
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        assert loaded_with(tmp_path, extra_ldflags=flags)["extra_ldflags"] == ["-lm"]
    assert caplog.messages == [
        "mine: left out, since Graphcore's SDK is not installed: -lpopfloat, -lpopart."
    ]
    monkeypatch.setattr(target_selection, "sdk_installed", lambda: True)
    assert loaded_with(tmp_path, extra_ldflags=flags)["extra_ldflags"] == flags


def test_sources_for_popart_alone_are_refused() -> None:
    with pytest.raises(BackendUnavailableError, match="every source includes headers of Graph"):
        paddle.utils.cpp_extension.load("mine", [str(HERE / "half_for_popart.cc")])


def test_with_the_sdk_all_sources_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddle_ipu.runtime import target_selection

    monkeypatch.setattr(target_selection, "sdk_installed", lambda: True)
    sources = [str(HERE / "half_for_popart.cc")]
    assert loaded_with(tmp_path, sources=sources)["sources"] == sources


def test_builds_of_the_same_operators_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that start at the same time, with the folder for extensions still to be made."""
    monkeypatch.setenv("PADDLE_EXTENSION_DIR", str(tmp_path / "cache" / "extensions"))
    building: list[str] = []

    def build(name: str, sources: Sequence[str], build_directory: str | None = None) -> int:
        building.append(name)
        time.sleep(0.02)
        count = len(building)
        building.remove(name)
        return count

    load = loading(build)
    with ThreadPoolExecutor(4) as jobs:
        assert list(jobs.map(lambda _: load("mine", []), range(4))) == [1, 1, 1, 1]
    given = str(tmp_path / "given")
    assert load("mine", [], given) == load("mine", [], build_directory=given) == 1
    assert [file.name for file in Path(given).iterdir()] == ["mine.lock"]


# -- operators of published scripts -------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["identity", pytest.param("checkpointoutput", marks=pytest.mark.long)]
)
def test_what_passes_a_tensor_on(name: str, operators: Any) -> None:
    # Paddle ends a process that loads two operators of one name, and the example's is one.
    passed_on = checkpoint_output() if name == "checkpointoutput" else operators.identity
    program = Program(lambda w: passed_on(w) * 1.5)
    expected, weight = program.on_cpu()
    out, trained, report = program.on_ipu()
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_allclose(trained, weight, rtol=1e-6, atol=1e-7)
    assert report.portable and not report.on_host


def test_detach_stops_the_gradient(operators: Any) -> None:
    program = Program(lambda w: operators.detach(w) * w)
    out, trained, _ = program.on_ipu()
    np.testing.assert_allclose(out, X * X, rtol=1e-6)
    np.testing.assert_allclose(trained, X - 0.5 * 2 * X**3, rtol=1e-5, atol=1e-6)


def test_tied_gather_takes_rows(operators: Any) -> None:
    rows = np.asarray([2, 0, 2], np.int64)
    program = Program(lambda w: operators.tied_gather(w, paddle.assign(rows)))
    expected, weight = program.on_cpu()
    out, trained, _ = program.on_ipu()
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_allclose(trained, weight, rtol=1e-6, atol=1e-7)


def _nll(p: Any, reduction: int, ignored: int | None) -> Any:
    losses = -np.log(p[np.arange(3), LABELS]) * (ignored != LABELS)
    if reduction == 2:
        return losses
    total = losses.sum()
    return np.asarray([total if reduction == 0 else total / np.sum(ignored != LABELS)])


@pytest.mark.parametrize("ignored", [None, 0])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_custom_nll_loss(operators: Any, reduction: int, ignored: int | None) -> None:
    p = np.random.default_rng(3).dirichlet(np.ones(4), 3).astype(np.float32)
    program = Program(
        lambda w: operators.custom_nll_loss(
            w, paddle.assign(LABELS), reduction, str(ignored), False
        ),
        p,
    )
    out, trained, _ = program.on_ipu()
    expected = _nll(p, reduction, ignored)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    count = np.sum(ignored != LABELS) if reduction == 1 else 1
    gradient = np.zeros_like(p)
    for row, label in enumerate(LABELS):
        loss = expected[row] if reduction == 2 else expected[0]
        if label != ignored:
            gradient[row, label] = -2 * loss / (p[row, label] * count)
    np.testing.assert_allclose(trained, p - 0.5 * gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("by_amp", [False, True])
def test_a_scaled_loss_on_a_softmax_stays_within_half(operators: Any, by_amp: bool) -> None:
    """1 / p of a large vocabulary, times the loss scale, is beyond half; the gradient is not."""
    logits = np.random.default_rng(7).normal(size=(2, 1000)).astype(np.float16)
    labels = np.asarray([3, 998], np.int32)
    main, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, start), paddle.utils.unique_name.guard():
        w = paddle.create_parameter(
            [2, 1000], "float32", name="w",
            default_initializer=paddle.nn.initializer.Assign(logits.astype(np.float32)),
        )  # fmt: skip
        x = w * paddle.static.data("x", [1], "float32")
        loss = operators.custom_nll_loss(
            paddle.nn.functional.softmax(x), paddle.assign(labels), 1, "None", False
        )
        paddle.optimizer.SGD(1.0).minimize(loss)
    if by_amp:
        lists = paddle.static.amp.CustomOpLists()
        lists.unsupported_list = set()
        paddle.static.amp.cast_model_to_fp16(main, lists, use_fp16_guard=False)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=1)
    strategy.set_precision_config(enable_fp16=not by_amp)
    strategy.set_options({"loss_scaling": 512.0})
    scope = paddle.static.Scope()
    paddle.static.Executor().run(start, scope=scope)
    compiled = paddle.static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy).compile(
        ["x"], [loss]
    )
    (found,) = compiled.run({"x": np.ones(1, np.float32)}, [loss])
    assert found.dtype == np.float16
    compiled.weights_to_host()
    step = logits - np.array(scope.find_var("w").get_tensor(), np.float32)
    exact = np.exp(logits.astype(np.float64))
    exact = (exact / exact.sum(1, keepdims=True) - np.eye(1000)[labels]) / 2
    np.testing.assert_allclose(step[[0, 1], labels], exact[[0, 1], labels], rtol=2e-3)
    assert np.isfinite(step).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, "None", False), "reduction is 5; expected 0"),
        ((1, "zero", False), "ignoreIndex is 'zero'; expected an integer or 'None'"),
    ],
)
def test_wrong_attributes_of_custom_nll_loss(
    operators: Any, arguments: Sequence[Any], message: str
) -> None:
    program = Program(
        lambda w: operators.custom_nll_loss(w, paddle.assign(LABELS), *arguments), PROBABILITIES
    )
    with pytest.raises(NotSupported, match=f"custom_nll_loss.*{message}"):
        program.on_ipu()


def test_operators_of_the_bert_for_mlperf(operators: Any) -> None:
    numbers = np.asarray([[1, 1, 2, 0], [1, 2, 3, 3]], np.int32)
    table, rows = np.random.default_rng(4).normal(size=(5, 40)), np.asarray([4, 0, 4], np.int64)
    main, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, start), paddle.utils.unique_name.guard():
        w = paddle.create_parameter(
            [5, 40], "float32", name="w",
            default_initializer=paddle.nn.initializer.Assign(table.astype(np.float32)),
        )  # fmt: skip
        mode = paddle.static.data("mode", [1], "int32")
        sequence = paddle.static.data("sequence", [2, 4], "int32")
        kept = operators.custom_DropoutWithTrainingSwitch(w, mode, 0.5)
        picked = operators.custom_EmbeddingGather(w, paddle.assign(rows), 0)
        scores = paddle.zeros([2, 3, 4, 4], "float32")
        mask = operators.custom_AttentionMask(sequence, scores, "FLOAT")
        mask = operators.custom_Detach(mask, 1)
        loss = paddle.sum(kept) + paddle.sum(picked)
        paddle.optimizer.SGD(0.5).minimize(loss)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=1)
    for name in ("AttentionMask", "DropoutWithTrainingSwitch", "EmbeddingGather"):
        strategy.add_custom_op(f"custom_{name}", name, "ai.graphcore")
    strategy.add_custom_op("custom_Detach", "Detach", "custom.ops")
    scope = paddle.static.Scope()
    paddle.static.Executor().run(start, scope=scope)
    fetches = [kept, picked, mask]
    compiled = paddle.static.IpuCompiledProgram(main, scope=scope, ipu_strategy=strategy).compile(
        ["mode", "sequence"], fetches
    )
    off = {"mode": np.zeros(1, np.int32), "sequence": numbers}
    whole, found, apart = compiled.run(off, fetches)
    np.testing.assert_array_equal(whole, table.astype(np.float32))
    np.testing.assert_array_equal(found, whole[rows])
    distance = np.abs(numbers[:, :, None] - numbers[:, None, :])
    np.testing.assert_allclose(apart[:, 0], -10000 * np.tanh(distance), rtol=1e-6)
    now = whole - 0.5 * (1 + np.bincount(rows, minlength=5)[:, None])
    dropped, found, _ = compiled.run({**off, "mode": np.ones(1, np.int32)}, fetches)
    np.testing.assert_allclose(found, now[rows], rtol=1e-6)
    zero = dropped == 0
    assert 0.3 < zero.mean() < 0.7
    np.testing.assert_allclose(dropped[~zero], 2 * now[~zero], rtol=1e-6)


@pytest.mark.parametrize("name", ["custom_CastToFp8", "custom_CastFromFp8"])
def test_floats_of_8_bits_are_refused(operators: Any, name: str) -> None:
    program = Program(lambda w: getattr(operators, name)(w))
    with pytest.raises(NotSupported, match=rf"{name}.*8-bit floats are not modelled.*FLOAT16"):
        program.on_ipu(name, name.removeprefix("custom_"), "ai.graphcore")


# -- registering --------------------------------------------------------------------------------


def test_a_second_function_for_one_operator_is_refused() -> None:
    paddle_ipu.register_custom_op("mine", _leaky)
    with pytest.raises(OptionError, match="'mine' is registered already"):
        paddle_ipu.register_custom_op("mine", _leaky)


def test_operators_of_popart_are_not_replaced() -> None:
    with pytest.raises(OptionError, match=r"ai.onnx.Relu is an operator that the IPU Model has"):
        paddle_ipu.register_custom_op("mine", _leaky, popart_op="Relu", domain="ai.onnx")


def test_a_function_that_fails_is_named_with_its_inputs(leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", lambda x: x)
    line = r"test_leaky at .*test_custom_ops\.py:\d+: custom operator custom\.ops\.test_leaky: "
    with pytest.raises(
        LoweringError, match=rf"{line}the function .*float32\[3, 4\].*'alpha': 0.25.*alpha"
    ):
        leaky.on_ipu()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, alpha: x[:2], r"result 0 of custom\.ops\.test_leaky is float32\[2, 4\], and "
         r"Paddle's operator gives float32\[3, 4\]"),
        (lambda x, alpha: x > 0, r"is bool\[3, 4\], and Paddle's operator gives float32"),
        (lambda x, alpha: None, r"result 0 of the function .* is None, expected an array"),
        (lambda x, alpha: (x, x), r"gave 2 result\(s\), and the operator has 1"),
        (lambda x, alpha: [], r"gave 0 result\(s\), and the operator has 1"),
    ],
)  # fmt: skip
def test_a_function_that_gives_something_else(function: Any, message: str, leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", function)
    with pytest.raises(PaddleIpuError, match=rf"test_leaky at .*test_custom_ops\.py:.*{message}"):
        leaky.on_ipu()


def _by_numpy(x: Any, alpha: float) -> Any:
    import jax

    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda given: np.maximum(given, alpha * given), kind, x)


def test_a_function_without_a_derivative_is_named_where_one_is_needed(leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", _by_numpy)
    with pytest.raises(
        LoweringError, match=r"custom\.ops\.test_leaky: JAX cannot differentiate .*a backward: "
    ):
        leaky.on_ipu()


def test_what_is_only_fetched_needs_no_derivative(operators: Any) -> None:
    paddle_ipu.register_custom_op("test_leaky", _by_numpy)
    program = Program(lambda w: w * 2)
    with paddle.static.program_guard(program.main):
        program.out = operators.test_leaky(program.out, alpha=0.25)
    np.testing.assert_allclose(program.on_ipu()[0], program.on_cpu()[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda inputs, outputs, gradients: gradients, r"backward failed; .*\{'alpha': 0.25\}"),
        (lambda *given, alpha: None, r"backward gave 0 gradient\(s\) for 1 input"),
        (lambda i, o, g, alpha: g[0][:1], r"for input 0 has shape \[1, 4\], expected .*\[3, 4\]"),
    ],
)
def test_a_backward_that_gives_something_else(backward: Any, message: str, leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", _leaky, backward=backward)
    with pytest.raises(
        LoweringError, match=rf"custom operator custom\.ops\.test_leaky: .*{message}"
    ):
        leaky.on_ipu()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", _leaky), "paddle_op is a name, got ''"),
        ((None, _leaky), "paddle_op is a name, got None"),
        (("mine", 5), r"'mine'\): forward is a function on JAX arrays, got 5"),
        (("relu", _leaky), "'relu' is an operator that this package has"),
    ],
)
def test_what_cannot_be_registered(arguments: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        paddle_ipu.register_custom_op(*arguments)
    with pytest.raises(OptionError, match=r"'mine'\): backward is a function on JAX arrays, got 1"):
        paddle_ipu.register_custom_op("mine", _leaky, backward=1)  # type: ignore[arg-type]


def test_a_backward_with_too_few_gradients_is_named(leaky: Program) -> None:
    paddle_ipu.register_custom_op("test_leaky", _leaky, backward=lambda *given, alpha: ())
    with pytest.raises(LoweringError, match=r"backward gave 0 gradient\(s\) for 1 input"):
        leaky.on_ipu()

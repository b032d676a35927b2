"""A script in the old style, from end to end: train on IPUs, compare with the CPU, test, save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import paddle
import pytest

import paddle_ipu  # noqa: F401 - activates
from paddle_ipu.errors import FeedError
from paddle_ipu.popart.annotations import MATMUL_FACTOR
from tests.unit.legacy import old_style_bert as bert

STEPS, ACCUMULATED = 12, 6
ROWS = ACCUMULATED * bert.MICRO_BATCH
# Paddle 2.6 warns about its own `arange`.
pytestmark = [
    pytest.mark.usefixtures("static_mode"),
    pytest.mark.filterwarnings(r"ignore:The Attr\(force_cpu\) of Op:UserWarning"),
]


def _initialised(model: bert.Model) -> Any:
    """A scope with the startup program's weights, the same for every model."""
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.IPUPlace()).run(model.startup)
        rng = np.random.default_rng(1)
        state = {}
        for parameter in model.main.all_parameters():
            shape = list(parameter.shape)
            if "layer_norm" in parameter.name:
                value = np.ones(shape) if parameter.name.endswith(".w_0") else np.zeros(shape)
            else:
                value = rng.normal(size=shape) * 0.2
            state[parameter.name] = value.astype(np.float32)
        paddle.static.set_program_state(model.main, state)
    return scope


def _strategy(training: bool) -> Any:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(
        num_ipus=2,
        is_training=training,
        micro_batch_size=bert.MICRO_BATCH,
        enable_manual_shard=True,
    )
    if training:
        strategy.set_pipelining_config(
            enable_pipelining=True,
            batches_per_step=1,
            enable_gradient_accumulation=True,
            accumulation_factor=ACCUMULATED,
        )
    else:
        strategy.set_pipelining_config(enable_pipelining=True, batches_per_step=ACCUMULATED)
    return strategy


@pytest.fixture
def model() -> bert.Model:
    with paddle.utils.unique_name.guard():
        return bert.build()


def test_it_trains_on_ipus_as_on_the_cpu(
    model: bert.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_IPU_DUMP", str(tmp_path / "dump"))
    feed = bert.batch(ROWS)
    fetches = [model.accuracy.name, model.loss.name]
    scope = _initialised(model)
    exe = paddle.static.Executor(paddle.IPUPlace())
    with paddle.static.scope_guard(scope):
        compiler = paddle.static.IpuCompiledProgram(model.main, ipu_strategy=_strategy(True))
        program = compiler.compile(model.feeds, fetches)
        _check_the_popart_program(tmp_path / "dump")
        monkeypatch.delenv("PADDLE_IPU_DUMP")
        runs = [
            exe.run(program, feed=bert.tensors(feed), fetch_list=fetches, use_program_cache=True)
            for _ in range(STEPS)
        ]
        compiler._backend.weights_to_host()
        paddle.static.save(program.org_program, str(tmp_path / "final"))
        tested = paddle.static.IpuCompiledProgram(
            model.inference, ipu_strategy=_strategy(False)
        ).compile(model.feeds, fetches)
        accuracy, loss = exe.run(tested, feed=bert.tensors(feed), fetch_list=fetches)
    losses = np.array([np.ravel(run[1]) for run in runs])
    # One value for each micro-batch.
    assert losses.shape == (STEPS, ACCUMULATED)
    assert losses[-1].mean() < 0.7 * losses[0].mean()
    np.testing.assert_allclose(losses.mean(1), _losses_on_the_cpu(feed), rtol=1e-5)
    # The clone made before `minimize` sees the trained weights.
    assert np.mean(loss) < losses[-1].mean()
    assert np.mean(accuracy) >= np.mean(runs[0][0])
    assert (tmp_path / "final.pdparams").is_file()


def _losses_on_the_cpu(feed: dict[str, Any]) -> Any:
    """The same steps, all rows at once."""
    with paddle.utils.unique_name.guard():
        model = bert.build(ROWS)
    scope = _initialised(model)
    exe = paddle.static.Executor(paddle.CPUPlace())
    flat = ("indices", "segments", "positions")
    rows = {name: array.reshape(-1) if name in flat else array for name, array in feed.items()}
    with paddle.static.scope_guard(scope):
        return [
            float(exe.run(model.main, feed=rows, fetch_list=[model.loss.name])[0])
            for _ in range(STEPS)
        ]


def _check_the_popart_program(folder: Path) -> None:
    """What was set on operators and what guards say is on PopART's matrix products."""
    (dumped,) = [path for path in folder.rglob("*.onnx") if "popart" in path.name]
    found: dict[str, list[Any]] = {}
    for node in onnx.load(dumped).graph.node:
        for attribute in node.attribute if node.op_type == "MatMul" else ():
            found.setdefault(attribute.name, []).append(onnx.helper.get_attribute_value(attribute))
    assert found["__available_memory"] == pytest.approx([0.28, 0.4])
    assert found[MATMUL_FACTOR] == [4]
    places = zip(found["__ipu_number"], found["__pipeline_stage"], strict=True)
    assert set(places) == {(0, 0), (1, 1), (0, 2)}


def test_tokens_are_fed_by_samples_or_flat_but_not_transposed(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        y = paddle.static.data("tokens", [2 * 4], "int32") + 1
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=2)
    strategy.set_pipelining_config(batches_per_step=3)
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(
        ["tokens"], [y.name]
    )
    exe = paddle.static.Executor(paddle.IPUPlace())
    tokens = np.arange(24, dtype=np.int32).reshape(6, 4)
    for fed in (tokens, tokens.reshape(-1), tokens.reshape(3, 2, 4)):
        (got,) = exe.run(program, feed={"tokens": fed}, fetch_list=[y.name])
        np.testing.assert_array_equal(np.ravel(got), np.arange(1, 25))
    with pytest.raises(FeedError, match=r"array of shape \[4, 6\], expected \[24\]"):
        exe.run(program, feed={"tokens": tokens.T}, fetch_list=[y.name])

"""``IpuCompiledProgram``, its backend, what ``Executor.run`` does with it, and checkpoints."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import paddle
import pytest

from paddle_ipu.compiler.dump import Dump
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import BackendUnavailableError, NotSupported
from paddle_ipu.passes.pipeline import PIPELINE
from paddle_ipu.popart.builder import Builder
from paddle_ipu.runtime.fetches import Fetch, fetched_array
from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    adam,
    build,
    copied,
    initialised,
    mlp,
    pair,
    read,
    rows,
    sgd,
    snapshot,
    strategy,
    variables,
    write,
)

pytestmark = pytest.mark.usefixtures("static_mode")


def _run(program: Any, feed: Any, fetches: Any, **keywords: Any) -> list[Any]:
    return paddle.static.Executor(paddle.IPUPlace()).run(
        program, feed=feed, fetch_list=fetches, **keywords
    )


@pytest.fixture(scope="module")
def inference() -> Pair:
    """An MLP for inference; runs leave it as it is."""
    return pair(mlp(None), is_training=False)


# -- names ----------------------------------------------------------------------------------------


def test_feeds_and_fetches_by_name_or_variable() -> None:
    built = mlp(sgd)
    loss, logits = built.values["loss"], built.values["logits"]
    x = built.main.global_block().var("x")
    scope = initialised(built)
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy(is_training=False))
    program = compiler.compile(feed_list=[x, "y"], fetch_list=[loss.name, logits])
    assert list(program.feeds) == ["x", "y"]
    assert list(program.fetches) == [loss.name, logits.name]
    by_name = _run(program, rows(4), [loss.name, logits.name])
    by_variable = _run(program, rows(4), [loss, logits])
    np.testing.assert_array_equal(by_name[0], by_variable[0])
    np.testing.assert_array_equal(by_name[1], by_variable[1])


def test_a_scale_that_half_does_not_hold() -> None:
    scaled = Fetch("Gradient___w", "float16", 2.0**17)
    got = fetched_array(scaled, np.asarray([2.0, 1024.0], np.float16), (2,))
    np.testing.assert_array_equal(got, np.asarray([2.0**-16, 2.0**-7], np.float16))


def test_fetches_come_in_the_order_of_the_run(inference: Pair) -> None:
    loss, logits = inference.built.fetches
    assert [a.shape for a in inference.on_ipu(rows(4), [logits, loss])] == [(4, 4), ()]
    assert [a.shape for a in inference.on_ipu(rows(4), [loss])] == [()]
    assert [a.shape for a in inference.on_ipu(rows(4), [[loss], [logits]])] == [(), (4, 4)]
    assert inference.on_ipu(rows(4), []) == []


def test_the_order_of_a_feed_does_not_matter(inference: Pair) -> None:
    feed = rows(4)
    backwards = dict(reversed(feed.items()))
    for got, expected in zip(inference.on_ipu(backwards), inference.on_ipu(feed), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_feeds_take_what_numpy_takes(inference: Pair) -> None:
    feed = rows(4)
    expected = inference.on_ipu(feed)
    lists = {"x": feed["x"].tolist(), "y": feed["y"].astype(np.int32)}
    strided = {"x": np.repeat(feed["x"], 2, axis=1)[:, ::2], "y": np.asfortranarray(feed["y"])}
    for other in (lists, strided, [feed]):
        got = _run(inference.program, other, inference.built.fetches)
        np.testing.assert_array_equal(got[1], expected[1])


def test_dense_tensors_instead_of_arrays(inference: Pair) -> None:
    loss, logits = _run(inference.program, rows(4), inference.built.fetches, return_numpy=False)
    assert type(loss) is type(inference.ipu.find_var("linear_0.w_0").get_tensor())
    expected = inference.on_ipu(rows(4))
    assert list(loss.shape()) == []
    np.testing.assert_array_equal(np.array(logits), expected[1])
    np.testing.assert_array_equal(np.array(loss), expected[0])


def test_parameters_may_be_fetched() -> None:
    built = mlp(sgd)
    scope = initialised(built)
    before = read(scope, "linear_0.b_0")
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy())
    program = compiler.compile(["x", "y"], ["linear_0.b_0"])
    (got,) = _run(program, rows(4), ["linear_0.b_0"])
    compiler._backend.weights_to_host()
    # PopART anchors a weight as it is after the update.
    np.testing.assert_array_equal(got, read(scope, "linear_0.b_0"))
    assert np.any(got != before)


def test_other_programs_run_as_before() -> None:
    built = mlp(None)
    scope = initialised(built)
    with paddle.static.scope_guard(scope):
        executor = paddle.static.Executor(paddle.IPUPlace())
        loss, _ = executor.run(built.main, feed=rows(4), fetch_list=built.fetches)
    assert loss.shape == ()


def test_the_compiled_program_knows_its_program_and_scheduler() -> None:
    built = mlp(sgd, scheduler=lambda: paddle.optimizer.lr.StepDecay(0.5, 1, 0.1))
    both = pair(built)
    assert both.program.org_program is built.main
    assert both.program.lr_scheduler is built.scheduler
    assert both.program.lr_scheduler.get_lr() == 0.5
    inference = pair(mlp(None), is_training=False)
    assert inference.program.lr_scheduler is None
    assert inference.program.portable
    assert both.program.portable
    hidden = pair(mlp(adam))
    assert not hidden.program.portable
    assert hidden.program.not_portable_because == ("Paddle's adam rule",)


def test_the_learning_rate_variable_of_the_scope_counts() -> None:
    both = pair(mlp(sgd))
    write(both.ipu, "learning_rate_0", np.float32(0.0))
    write(both.cpu, "learning_rate_0", np.float32(0.0))
    before = snapshot(both.ipu, both.built.parameters)
    both.step(rows(4))
    both.weights_to_host()
    for name, array in before.items():
        np.testing.assert_array_equal(read(both.ipu, name), array)
    for scope in (both.ipu, both.cpu):
        write(scope, "learning_rate_0", np.float32(0.5))
    both.step(rows(4))
    both.assert_equal_weights(1e-5)
    assert np.any(read(both.ipu, "linear_0.w_0") != before["linear_0.w_0"])


def test_compiling_leaves_program_and_scope_as_they_were() -> None:
    built = mlp(adam)
    scope = initialised(built)
    text, before = str(built.main), snapshot(scope, variables(built.main))
    names = [value.name for value in built.fetches]
    text = str(built.main)
    paddle.static.IpuCompiledProgram(built.main, scope, strategy()).compile(["x", "y"], names)
    assert str(built.main) == text
    for name, array in before.items():
        np.testing.assert_array_equal(read(scope, name), array)


def test_progress_goes_from_nothing_to_the_total() -> None:
    seen: list[tuple[int, int]] = []
    pair(
        mlp(None),
        {
            "compilation_progress_logger": lambda done, total: seen.append((done, total)),
            "compilation_progress_total": 50,
        },
        is_training=False,
    )
    steps = [done for done, _ in seen]
    assert steps[0] == 0
    assert steps[-1] == 50
    assert steps == sorted(steps)
    assert len(set(steps)) > 3
    assert {total for _, total in seen} == {50}


# -- several programs -----------------------------------------------------------------------------


def test_programs_live_side_by_side_with_their_own_sessions() -> None:
    one = pair(mlp(sgd), seed=1)
    two = pair(mlp(adam), seed=2)
    assert one.program.backend is not two.program.backend
    for step in range(3):
        for both in (one, two):
            cpu, ipu = both.step(rows(4, step))
            np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)
    one.assert_equal_weights(1e-5)
    two.assert_equal_weights(1e-5)


def test_one_compiler_compiles_twice() -> None:
    built = mlp(sgd)
    scope = initialised(built)
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy(is_training=False))
    first = compiler.compile(["x", "y"], [built.values["loss"]])
    backend = compiler._backend
    second = compiler.compile(["x", "y"], [built.values["logits"]])
    assert compiler._backend is not backend
    assert _run(first, rows(4), [built.values["loss"]])[0].shape == ()
    assert _run(second, rows(4), [built.values["logits"]])[0].shape == (4, 4)


def test_get_instance_speaks_for_the_program_compiled_last() -> None:
    one, two = pair(mlp(sgd), seed=1), pair(mlp(sgd), seed=2)
    starts = [read(both.ipu, "linear_0.w_0") for both in (one, two)]
    for both in (one, two):
        both.on_ipu(rows(4))
    paddle.base.core.IpuBackend.get_instance().weights_to_host()
    np.testing.assert_array_equal(read(one.ipu, "linear_0.w_0"), starts[0])
    assert np.any(read(two.ipu, "linear_0.w_0") != starts[1])


def test_a_save_keeps_what_was_trained_beside_an_inference_program(tmp_path: Path) -> None:
    both = pair(mlp(sgd))
    inferring = [
        paddle.static.IpuCompiledProgram(both.built.main, both.ipu, strategy(is_training=False))
        for _ in range(4)
    ]
    programs = [c.compile(both.built.feeds, both.built.fetches) for c in inferring]
    start = read(both.ipu, "linear_0.w_0")
    both.on_ipu(rows(4))
    for program in programs:
        _run(program, rows(4), both.built.fetches)
    with paddle.static.scope_guard(both.ipu):
        paddle.static.save(both.built.main, str(tmp_path / "model"))
    saved = read(both.ipu, "linear_0.w_0")
    assert np.any(saved != start)
    for compiler in (*inferring, both.compiler):
        compiler._backend.weights_to_host()
        np.testing.assert_array_equal(read(both.ipu, "linear_0.w_0"), saved)


def test_of_two_training_programs_the_one_run_last_is_saved(tmp_path: Path) -> None:
    both = pair(mlp(sgd))
    other = paddle.static.IpuCompiledProgram(both.built.main, both.ipu, strategy())
    program = other.compile(both.built.feeds, both.built.fetches)
    for first, second in ((0, 1), (1, 0)):
        for which in (first, second):
            both.on_ipu(rows(4)) if which else _run(program, rows(4), both.built.fetches)
        with paddle.static.scope_guard(both.ipu):
            paddle.static.save(both.built.main, str(tmp_path / "model"))
        saved = read(both.ipu, "linear_0.w_0")
        (both.compiler if second else other)._backend.weights_to_host()
        np.testing.assert_array_equal(read(both.ipu, "linear_0.w_0"), saved)


def test_programs_of_one_scope_share_what_is_trained() -> None:
    both = pair(mlp(sgd))
    compiler = paddle.static.IpuCompiledProgram(
        both.built.main, both.ipu, strategy(is_training=False)
    )
    testing = compiler.compile(both.built.feeds, both.built.fetches)
    for step in range(3):
        both.step(rows(4, step))
        # What training fetched next is the loss before its update: that of the weights so far.
        (tested,) = _run(testing, rows(4, step + 1), [both.built.values["loss"]])
        expected, trained = both.step(rows(4, step + 1))
        np.testing.assert_allclose(tested, expected["loss"], rtol=1e-5)
        np.testing.assert_allclose(trained["loss"], expected["loss"], rtol=1e-5)
    both.assert_equal_weights(1e-5)


def test_two_programs_train_one_set_of_weights_by_turns() -> None:
    both, alone = pair(mlp(sgd)), pair(mlp(sgd))
    other = paddle.static.IpuCompiledProgram(both.built.main, both.ipu, strategy())
    program = other.compile(both.built.feeds, both.built.fetches)
    for step in range(4):
        if step % 2:
            both.on_ipu(rows(4, step))
        else:
            _run(program, rows(4, step), both.built.fetches)
        alone.on_ipu(rows(4, step))
    both.program.weights_to_host()
    alone.program.weights_to_host()
    np.testing.assert_array_equal(read(both.ipu, "linear_0.w_0"), read(alone.ipu, "linear_0.w_0"))


@pytest.mark.parametrize("how", ["reset", "detach"])
def test_reset_and_detach_of_the_instance_are_for_all(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other tests' programs must stay.
    monkeypatch.setattr("paddle_ipu.runtime.ipu_backend._live", weakref.WeakSet())
    programs = [pair(mlp(None), is_training=False) for _ in range(2)]
    getattr(paddle.base.core.IpuBackend.get_instance(), how)()
    for both in programs:
        with pytest.raises(
            BackendUnavailableError,
            match="this compiled program has no device: .*(reset|detached). Compile the program",
        ):
            both.on_ipu(rows(4))


def test_the_instance_without_a_compiled_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddle_ipu.runtime.ipu_backend._last", None)
    with pytest.raises(
        BackendUnavailableError,
        match="no compiled program is alive: compile one with IpuCompiledProgram first, and keep",
    ):
        paddle.base.core.IpuBackend.get_instance().weights_to_host()


def test_rows_may_come_as_turns_of_the_loop_or_without_dimensions_of_one() -> None:
    both = pair(mlp(None), {"batches_per_step": 2}, is_training=False)
    feed = rows(8)
    expected = both.on_ipu(feed)
    turns = {name: array.reshape(2, 4, -1) for name, array in feed.items()}
    for other in (turns, {**feed, "y": feed["y"].reshape(-1)}):
        for got, array in zip(both.on_ipu(other), expected, strict=True):
            np.testing.assert_array_equal(got, array)


def test_reset_of_one_backend_leaves_the_others() -> None:
    one, two = (pair(mlp(None), is_training=False) for _ in range(2))
    one.program.backend.reset()
    with pytest.raises(BackendUnavailableError, match="it was reset"):
        one.on_ipu(rows(4))
    with pytest.raises(BackendUnavailableError, match="it was reset"):
        one.program.weights_to_host()
    assert two.on_ipu(rows(4))[0].shape == ()


def test_a_backend_takes_no_other_strategy(inference: Pair) -> None:
    with pytest.raises(NotSupported, match="cannot change a compiled program"):
        inference.program.backend.set_ipu_strategy(strategy())
    own = inference.compiler._ipu_strategy
    inference.program.backend.set_ipu_strategy(own)
    inference.program.backend.set_ipu_strategy(own._ipu_strategy)


# -- weights and checkpoints ----------------------------------------------------------------------


def test_weights_to_host_writes_parameters_moments_and_powers() -> None:
    both = pair(mlp(adam))
    names = [n for n in variables(both.built.main) if "learning_rate" not in n]
    assert len(names) == 4 * 5
    before = snapshot(both.ipu, names)
    for step in range(2):
        both.step(rows(4, step))
    for name, array in before.items():
        np.testing.assert_array_equal(read(both.ipu, name), array)
    both.assert_equal_weights(1e-5, names=names)
    np.testing.assert_allclose(read(both.ipu, "linear_0.w_0_beta1_pow_acc_0"), [0.9**3], rtol=1e-6)


def test_weights_go_to_the_scope_that_was_set() -> None:
    both = pair(mlp(sgd))
    names = variables(both.built.main)
    other = copied(both.ipu, names)
    before = read(both.ipu, "linear_0.w_0")
    both.step(rows(4))
    both.program.backend.set_scope(other)
    both.program.weights_to_host()
    np.testing.assert_array_equal(read(both.ipu, "linear_0.w_0"), before)
    np.testing.assert_allclose(
        read(other, "linear_0.w_0"), read(both.cpu, "linear_0.w_0"), rtol=1e-5, atol=1e-7
    )


def _losses(both: Pair, steps: range) -> list[float]:
    return [both.on_ipu(rows(4, step))[0].item() for step in steps]


def test_a_checkpoint_resumes_training(tmp_path: Path) -> None:
    built = mlp(adam)
    names = variables(built.main)
    both = pair(built)
    _losses(both, range(3))
    with paddle.static.scope_guard(both.ipu):
        paddle.static.save(built.main, str(tmp_path / "model"))
    expected = _losses(both, range(3, 6))

    fresh = paddle.static.Scope()
    with paddle.static.scope_guard(fresh):
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(built.startup)
        paddle.static.load(built.main, str(tmp_path / "model"), executor, names)
    compiler = paddle.static.IpuCompiledProgram(built.main, fresh, strategy())
    program = compiler.compile(built.feeds, built.fetches)
    resumed = Pair(built, both.cpu, fresh, compiler, program)
    assert _losses(resumed, range(3, 6)) == expected


def test_a_load_after_compilation_takes_effect(tmp_path: Path) -> None:
    built = mlp(adam)
    both = pair(built)
    with paddle.static.scope_guard(both.ipu):
        paddle.static.save(built.main, str(tmp_path / "start"))
    expected = _losses(both, range(3))
    assert _losses(both, range(3)) != expected
    with paddle.static.scope_guard(both.ipu):
        executor = paddle.static.Executor(paddle.CPUPlace())
        paddle.static.load(built.main, str(tmp_path / "start"), executor)
    np.testing.assert_allclose(_losses(both, range(3)), expected, rtol=1e-6)


def test_set_program_state_takes_effect_and_keeps_the_rest() -> None:
    both = pair(mlp(sgd))
    both.step(rows(4))
    weight = np.full((8, 16), 0.01, np.float32)
    for scope in (both.ipu, both.cpu):
        with paddle.static.scope_guard(scope):
            paddle.static.set_program_state(both.built.main, {"linear_0.w_0": weight})
    cpu, ipu = both.step(rows(4, 1))
    np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)
    both.assert_equal_weights(1e-5)


# -- what can be looked at ------------------------------------------------------------------------


def test_the_saved_model_holds_the_trained_weights(tmp_path: Path) -> None:
    both = pair(mlp(sgd))
    both.step(rows(4))
    both.program.backend.save_model_proto(tmp_path / "model.onnx")
    model = onnx.load(str(tmp_path / "model.onnx"))
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    assert {i.version for i in model.opset_import if i.domain in ("", "ai.onnx")} == {11}
    np.testing.assert_allclose(
        weights["linear_0.w_0"], read(both.cpu, "linear_0.w_0"), rtol=1e-5, atol=1e-7
    )


def test_the_strategy_dumps_the_popart_program(tmp_path: Path) -> None:
    path = tmp_path / "program.onnx"
    pair(mlp(None), {"onnx_dump_path": str(path)}, is_training=False)
    model = onnx.load(str(path))
    assert "Tanh" in {node.op_type for node in model.graph.node}
    onnx.checker.check_model(model, full_check=True)
    assert [output.name for output in model.graph.output] == ["ReduceMean:0", "Add:0/1"]


def test_the_environment_goes_before_the_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_ONNX_DUMP_PATH", str(tmp_path / "environment.onnx"))
    pair(mlp(None), {"onnx_dump_path": str(tmp_path / "option.onnx")}, is_training=False)
    assert [path.name for path in tmp_path.iterdir()] == ["environment.onnx"]
    assert onnx.load(str(tmp_path / "environment.onnx")).graph.node


def test_a_custom_operator_takes_the_place_of_the_translator() -> None:
    mapping = {"paddle_op": "tanh", "popart_op": "Sigmoid", "domain": "ai.onnx", "version": 11}
    both = pair(mlp(None), {"custom_op": mapping}, is_training=False)
    feed = rows(4)
    (logits,) = _run(both.program, feed, [both.built.values["logits"]])
    b0, w0, b1, w1 = (read(both.ipu, name) for name in sorted(both.built.parameters))
    hidden = 1 / (1 + np.exp(-(feed["x"] @ w0 + b0)))
    np.testing.assert_allclose(logits, hidden @ w1 + b1, rtol=1e-5, atol=1e-6)


def test_every_pass_is_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_IPU_DUMP", str(tmp_path))
    pair(mlp(adam))
    (folder,) = tmp_path.iterdir()
    assert folder.name == "program0"
    models = {path.name: onnx.load(str(path)) for path in sorted(folder.iterdir())}
    names = list(models)
    assert names[0] == "00_frontend.onnx"
    assert names[-1] == "popart.onnx"
    passes = [name[3:-5] for name in names[1:-1]]
    assert passes == ["check_micro_batch", *(step.name for step in PIPELINE)]
    first = models["00_frontend.onnx"].graph.node
    assert "adam_" in {node.op_type for node in first}
    assert any(
        __file__ in entry.value or "side_by_side.py" in entry.value
        for node in first
        for entry in node.metadata_props
        if entry.key == "source"
    )
    assert "adam_" not in {node.op_type for node in models[names[-2]].graph.node}
    assert {node.domain for node in first} == {"paddle"}


def test_passes_over_the_graph_of_a_session_are_dumped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2, 6, 8], "float32")
        return ["x"], {"first": paddle.nn.Linear(8, 4)(x)[:, 0]}, None

    monkeypatch.setenv("PADDLE_IPU_DUMP", str(tmp_path))
    both = pair(build(make), is_training=False)
    (path,) = tmp_path.glob("program0/*_push_slices.onnx")
    assert int(path.name[:2]) == len(PIPELINE) + 2
    model = onnx.load(str(path))
    assert not model.graph.initializer
    (product,) = [node for node in model.graph.node if node.op_type == "MatMul"]
    shapes = {v.name: v.type.tensor_type.shape.dim for v in model.graph.value_info}
    assert np.prod([dim.dim_value for dim in shapes[product.output[0]]]) == 2 * 4
    feed = {"x": np.random.default_rng(0).normal(size=(2, 6, 8)).astype(np.float32)}
    np.testing.assert_allclose(both.on_ipu(feed)[0], both.on_cpu(feed)[0], rtol=1e-5, atol=1e-6)


def test_the_program_is_dumped_with_the_layers_in_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        net = paddle.nn.Sequential(
            ("first", paddle.nn.Linear(8, 4)), ("second", paddle.nn.Linear(4, 2))
        )
        x = paddle.static.data("x", [2, 8], "float32")
        return ["x"], {"sum": net(x).sum()}, None

    monkeypatch.setenv("PADDLE_IPU_DUMP", str(tmp_path))
    monkeypatch.setenv("IPU_ONNX_DUMP_PATH", str(tmp_path / "program.onnx"))
    pair(build(make), is_training=False)
    for path in (tmp_path / "program0" / "popart.onnx", tmp_path / "program.onnx"):
        nodes = onnx.load(str(path)).graph.node
        layers = [n.name.rpartition("/")[0] for n in nodes if n.op_type in ("MatMul", "Add")]
        assert layers == ["first", "first", "second", "second"]
        (total,) = [node for node in nodes if node.op_type.startswith("Reduce")]
        assert "/" not in total.name


def test_names_with_layers_are_those_of_the_file_alone(tmp_path: Path) -> None:
    builder = Builder()
    builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    (node,) = builder.model.graph
    node.meta[dialect.LAYER], name = "net.0", node.name
    Dump({"onnx_dump_path": str(tmp_path / "program.onnx")}).program(builder)
    (written,) = onnx.load(str(tmp_path / "program.onnx")).graph.node
    assert written.name == f"net.0/{name or ''}" and node.name == name


def test_a_dump_does_not_write_into_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_IPU_DUMP", str(tmp_path))
    for earlier in ("program0", "program7", "programs"):
        (tmp_path / earlier).mkdir()
    pair(mlp(adam))
    assert not any((tmp_path / "program7").iterdir())
    assert (tmp_path / "program1" / "popart.onnx").is_file()


def _two_stages() -> Built:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            hidden = paddle.tanh(paddle.nn.Linear(8, 8)(x))
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            out = paddle.nn.Linear(8, 2)(hidden)
            loss = paddle.mean(out)
        return ["x"], {"loss": loss}, None

    return build(make)


def test_shard_and_stage_reach_the_popart_program(tmp_path: Path) -> None:
    path = tmp_path / "sharded.onnx"
    both = pair(
        _two_stages(),
        {"onnx_dump_path": str(path), "batches_per_step": 2, "enable_pipelining": True},
        num_ipus=2,
        is_training=False,
        enable_manual_shard=True,
    )
    places: dict[str, set[tuple[int, int]]] = {}
    for node in onnx.load(str(path)).graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        place = (attributes["__ipu_number"], attributes["__pipeline_stage"])
        places.setdefault(node.op_type, set()).add(place)
    assert places["Tanh"] == {(0, 0)}
    assert places["MatMul"] == {(0, 0), (1, 1)}
    assert places["ReduceMean"] == {(1, 1)}
    feed = {"x": rows(8)["x"]}
    (loss,) = both.on_ipu(feed)
    expected = [both.on_cpu({"x": part})[0] for part in np.split(feed["x"], 2)]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_a_program_without_manual_sharding_carries_no_place(tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    pair(_two_stages(), {"onnx_dump_path": str(path)}, is_training=False)
    attributes = {a.name for node in onnx.load(str(path)).graph.node for a in node.attribute}
    assert not {"__ipu_number", "__pipeline_stage"} & attributes

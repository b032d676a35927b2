"""Predictors on the IPU beside Paddle's own: results, handles, clones, shapes, threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import inference

from paddle_ipu.operating_system import process_memory
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.ipu_backend import IpuBackend
from paddle_ipu.xla.step.executable import Executable
from tests.unit.inference.conftest import assert_alike, rows, run

NEWER = not paddle.__version__.startswith("2.")


# -- results ---------------------------------------------------------------------------------------


def test_results_are_those_of_paddles_predictor(predictor: Any, on_cpu: Any) -> None:
    own = predictor.clone()
    assert own.get_input_names() == on_cpu.get_input_names() == ["x", "shift"]
    assert own.get_output_names() == on_cpu.get_output_names()
    for number in (4, 2, 4):
        assert_alike(run(own, rows(number)), run(on_cpu, rows(number)))
    for name in own.get_output_names():
        mine, theirs = own.get_output_handle(name), on_cpu.get_output_handle(name)
        assert (mine.shape(), mine.type()) == (theirs.shape(), theirs.type())


def test_a_config_without_the_ipu_gives_paddles_own_predictor(on_cpu: Any, predictor: Any) -> None:
    assert type(on_cpu) is inference.Predictor
    assert type(predictor) is not inference.Predictor
    assert isinstance(predictor, inference.Predictor)
    assert isinstance(predictor.get_input_handle("x"), inference.Tensor)


def test_each_shape_is_compiled_once_with_one_copy_of_the_weights(predictor: Any) -> None:
    own = predictor.clone()
    for number in (3, 4, 3):
        run(own, rows(number))
    shapes = own._model.shapes
    assert shapes.count(((3, 3), (3, 1))) == 1
    programs = own._model._programs
    held = [programs[s].backend.session._executable.weights for s in shapes[:2]]
    shared = [name for name in held[0] if held[0][name] is held[1].get(name)]
    assert len(shared) == len(programs[shapes[0]].backend.owner.variables) == 2


def test_other_dynamic_dimensions_wait_for_the_first_run(config_of: Callable[[str], Any]) -> None:
    theirs = inference.create_predictor(config_of("words"))
    config = config_of("words")
    config.enable_ipu()
    own = inference.create_predictor(config)
    assert own._model.shapes == []
    for shape in ((2, 5), (1, 7)):
        words = {"words": np.random.default_rng(1).integers(0, 10, shape)}
        assert_alike(run(own, words), run(theirs, words))
    assert own._model.shapes == [((2, 5),), ((1, 7),)]


def test_a_layer_of_lstm_as_jit_save_writes_it(tmp_path: Path) -> None:
    """Its dropout state is a parameter without a value in the file."""
    layer = paddle.nn.LSTM(3, 5)
    layer.eval()
    specification = paddle.static.InputSpec([None, 4, 3], "float32", "x")
    paddle.jit.save(layer, str(tmp_path / "lstm"), input_spec=[specification])
    config = inference.Config(str(tmp_path / "lstm"))
    config.enable_ipu(1, 2)
    own, x = inference.create_predictor(config), rows(8)["x"].reshape(2, 4, 3)
    assert own.get_input_names() == ["x"]
    every, (hidden, cell) = layer(paddle.to_tensor(x))
    for got, wanted in zip(run(own, {"x": x}), (every, hidden, cell), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["memory", "folder", "prefix", "set_model"])
def test_every_way_to_name_a_model(models: Path, on_cpu: Any, way: str) -> None:
    program = models / ("rows.json" if NEWER else "rows.pdmodel")
    parameters = models / "rows.pdiparams"
    if way == "memory":
        config = inference.Config()
        parts = [path.read_bytes() for path in (program, parameters)]
        config.set_model_buffer(parts[0], len(parts[0]), parts[1], len(parts[1]))
    elif way == "folder":
        config = inference.Config(str(models), "rows")
    elif way == "prefix":
        config = inference.Config(str(models / "rows"))
    else:
        config = inference.Config()
        config.set_model_buffer(b"no", 2, b"model", 5)
        config.set_model(str(program), str(parameters))
    config.enable_ipu(1, 4)
    assert_alike(run(inference.create_predictor(config), rows(4)), run(on_cpu, rows(4)))


def test_tensors_in_give_tensors(predictor: Any, on_cpu: Any) -> None:
    feeds = rows(4, seed=5)
    expected = run(on_cpu, feeds)
    tensors = [paddle.to_tensor(array) for array in feeds.values()]
    own = predictor.clone()
    results = own.run(tensors)
    paddle.enable_static()
    results += own.run(tensors)
    paddle.disable_static()
    assert all(isinstance(result, paddle.Tensor) for result in results)
    assert_alike([result.numpy() for result in results], expected * 2)
    assert own.get_input_handle("x").shape() == [0]


@pytest.fixture(scope="module")
def aliases(made_once: Callable[..., Path]) -> Path:
    """A model whose results are its input, its weight, and one tensor twice."""

    def save(folder: Path) -> None:
        paddle.enable_static()
        main, startup = paddle.static.Program(), paddle.static.Program()
        with (
            paddle.static.scope_guard(paddle.static.Scope()),
            paddle.static.program_guard(main, startup),
        ):
            x = paddle.static.data("x", [2, 3], "float32")
            weight = paddle.static.create_parameter(
                [2, 3], "float32", default_initializer=paddle.nn.initializer.Constant(7.0)
            )
            total = x + weight
            executor = paddle.static.Executor()
            executor.run(startup)
            results = [paddle.assign(x), paddle.assign(weight), total, paddle.assign(total)]
            paddle.static.save_inference_model(str(folder / "aliases"), [x], results, executor)
        paddle.disable_static()

    return made_once("predictor_aliases", save)


@pytest.mark.parametrize("shares_steps", [False, True])
def test_tensors_that_a_run_gives_may_be_written(aliases: Path, shares_steps: bool) -> None:
    """Neither inputs, weights, other results nor later runs change."""
    program = next(p for p in aliases.glob("aliases.*") if p.suffix != ".pdiparams")
    config = inference.Config(str(program), str(aliases / "aliases.pdiparams"))
    config.disable_glog_info()
    config.enable_ipu(1, 2)
    config.set_ipu_config(ipu_enable_model_runtime_executor=shares_steps)
    own = inference.create_predictor(config)
    x = paddle.full([2, 3], 5.0)
    for _ in range(3):
        results = own.run([x])
        for number, expected in enumerate([5.0, 7.0, 12.0, 12.0]):
            np.testing.assert_array_equal(results[number].numpy(), np.full((2, 3), expected))
            results[number].fill_(-1.0)
    np.testing.assert_array_equal(x.numpy(), np.full((2, 3), 5.0, np.float32))


def test_tensors_that_a_run_gives_live_longer_than_the_predictor(
    config_of: Callable[[str], Any],
) -> None:
    config = config_of("rows")
    config.enable_ipu(1, 4)
    own = inference.create_predictor(config)
    feeds = rows(4)
    expected = run(own, feeds)
    results = own.run([paddle.to_tensor(array) for array in feeds.values()])
    del own
    gc.collect()
    assert_alike([result.numpy() for result in results], expected, within=0)


def test_what_a_run_gives_is_the_next_runs_input_without_a_copy(
    aliases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = next(p for p in aliases.glob("aliases.*") if p.suffix != ".pdiparams")
    config = inference.Config(str(program), str(aliases / "aliases.pdiparams"))
    config.disable_glog_info()
    config.enable_ipu(1, 2)
    own = inference.create_predictor(config)
    places: list[tuple[int, list[int]]] = []
    compute = own._model.run

    def watched(arrays: Any) -> Any:
        results = compute(arrays)
        places.append((arrays[0].ctypes.data, [each.ctypes.data for each in results]))
        return results

    monkeypatch.setattr(own._model, "run", watched)
    first = own.run([paddle.full([2, 3], 5.0)])
    again = own.run([first[2]])
    assert places[1][0] == places[0][1][2] == first[2].data_ptr()
    np.testing.assert_array_equal(again[2].numpy(), np.full((2, 3), 19.0, np.float32))


def test_half_leaves_model_inputs_and_outputs_alone(
    config_of: Callable[[str], Any], on_cpu: Any
) -> None:
    config = config_of("rows")
    config.enable_ipu(1, 4)
    config.set_ipu_config(ipu_enable_fp16=True, ipu_enable_half_partial=True)
    own, feeds = inference.create_predictor(config), rows(4)
    expected = run(on_cpu, feeds)
    got = run(own, feeds)
    assert_alike(got, expected, within=0.02)
    assert np.abs(got[0] - expected[0]).max() > 1e-6
    assert_alike(run(own, {**feeds, "x": feeds["x"].astype(np.float16)}), got, within=0)


@pytest.mark.parametrize(
    ("devices", "settings"),
    [((1, 2), {"ipu_replica_num": 2}), ((2, 1, True, 4), {})],
    ids=["replicas", "pipeline"],
)
def test_rows_of_all_replicas_and_batches_are_one_batch(
    config_of: Callable[[str], Any], on_cpu: Any, devices: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    config = config_of("rows")
    config.enable_ipu(*devices)
    config.set_ipu_config(**settings)
    own = inference.create_predictor(config)
    assert own._model.shapes == [((4, 3), (4, 1))]
    assert_alike(run(own, rows(4)), run(on_cpu, rows(4)))


# -- handles ---------------------------------------------------------------------------------------


def test_what_a_handle_gives_is_the_callers_own(predictor: Any) -> None:
    own = predictor.clone()
    expected = run(own, rows(4))
    for name, array in zip(own.get_output_names(), expected, strict=True):
        handle = own.get_output_handle(name)
        given = handle.copy_to_cpu()
        given[...] = 0
        np.testing.assert_array_equal(handle.copy_to_cpu(), array)


@pytest.mark.parametrize("shape", [(4, 3), (0, 3), ()])
def test_xla_reads_an_inputs_copy_where_it_is(predictor: Any, shape: tuple[int, ...]) -> None:
    handle = predictor.clone().get_input_handle("x")
    data = np.asfortranarray(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    handle.copy_from_cpu(data)
    assert handle.array.ctypes.data % 64 == 0 or not handle.array.size
    assert handle.array.flags.c_contiguous
    np.testing.assert_array_equal(handle.copy_to_cpu(), data)
    assert not np.shares_memory(handle.array, data)


def test_handles_before_a_run_are_as_paddles(predictor: Any, config_of: Callable[..., Any]) -> None:
    own, theirs = predictor.clone(), inference.create_predictor(config_of("rows"))
    for handle in (own.get_input_handle("x"), theirs.get_input_handle("x")):
        assert (handle.shape(), handle.type()) == ([0], inference.DataType.FLOAT32)
        assert handle.lod() == []
        handle.reshape([4, 1])
        assert handle.shape() == [4, 1]
        handle.copy_from_cpu(np.zeros((2, 3), np.float32))
        assert handle.shape() == [2, 3]
    assert own.get_input_handle("shift").type() == inference.DataType.INT64
    outputs = [own.get_output_handle(name) for name in own.get_output_names()]
    assert [output.shape() for output in outputs] == [[0], [0]]
    kinds = [inference.DataType.FLOAT32, inference.DataType.INT64]
    assert [output.type() for output in outputs] == kinds


def test_handles_copy(predictor: Any) -> None:
    own, feeds = predictor.clone(), rows(4)
    expected = run(own, feeds)
    given = {name: array.copy() for name, array in feeds.items()}
    for name, array in given.items():
        own.get_input_handle(name).copy_from_cpu(array)
        array[...] = 0
    own.run()
    handle = own.get_output_handle(own.get_output_names()[0])
    first = handle.copy_to_cpu()
    assert_alike([first], expected[:1], within=0)
    first[...] = 0
    assert_alike([handle.copy_to_cpu()], expected[:1], within=0)


def test_results_of_a_run_are_the_callers_own(predictor: Any, on_cpu: Any) -> None:
    first, second = rows(2, seed=1), rows(2, seed=2)
    kept = run(predictor, first)
    run(predictor, second)
    assert_alike(kept, run(on_cpu, first))
    handle = predictor.get_output_handle(predictor.get_output_names()[0])
    found = handle.copy_to_cpu()
    found[...] = 0
    assert_alike([handle.copy_to_cpu()], run(on_cpu, second)[:1])


def test_shared_memory_is_read_by_the_run_and_never_written(predictor: Any) -> None:
    own, feeds = predictor.clone(), rows(4)
    expected = run(own, feeds)
    tensor = paddle.zeros([4, 3])
    own.get_input_handle("x").share_external_data(tensor)
    tensor.set_value(feeds["x"])
    own.run()
    name = own.get_output_names()[0]
    assert_alike([own.get_output_handle(name).copy_to_cpu()], expected[:1], within=0)
    own.get_input_handle("x").copy_from_cpu(np.zeros((4, 3), np.float32))
    np.testing.assert_array_equal(tensor.numpy(), feeds["x"])


def test_memory_calls(predictor: Any) -> None:
    own = predictor.clone()
    run(own, rows(4))
    assert own.try_shrink_memory() >= 0
    own.clear_intermediate_tensor()
    assert own.get_output_handle(own.get_output_names()[0]).shape() == [0]
    assert run(own, rows(4))[0].shape == (4, 4)


# -- many ------------------------------------------------------------------------------------------


def test_clones_have_handles_of_their_own_and_share_the_rest(predictor: Any, on_cpu: Any) -> None:
    clones = [predictor.clone() for _ in range(4)]
    feeds = [rows(4, seed=seed) for seed in range(4)]

    def work(number: int) -> list[Any]:
        return [run(clones[number], feeds[number]) for _ in range(50)][-1]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(work, range(4)))
    for results, given in zip(found, feeds, strict=True):
        assert_alike(results, run(on_cpu, given))
    assert {id(clone._model) for clone in clones} == {id(predictor._model)}


def test_clones_run_at_the_same_time(predictor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clones, feeds = [predictor.clone() for _ in range(2)], rows(4)
    expected = run(predictor, feeds)
    both, step = threading.Barrier(2, timeout=10), Executable.run

    def beside_the_other(*arguments: Any) -> Any:
        both.wait()
        return step(*arguments)

    monkeypatch.setattr(Executable, "run", beside_the_other)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda clone: run(clone, feeds), clones))
    for results in found:
        for got, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_threads_that_bring_a_new_shape_compile_it_once(predictor: Any) -> None:
    clones = [predictor.clone() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda clone: run(clone, rows(5)), clones))
    assert_alike(found[0], found[1], within=0)
    assert predictor._model.shapes.count(((5, 3), (5, 1))) == 1


def test_a_pool_has_clones(config_of: Callable[[str], Any]) -> None:
    config = config_of("rows")
    config.enable_ipu(1, 4)
    pool = inference.PredictorPool(config, 3)
    assert isinstance(pool, inference.PredictorPool)
    retrieve = pool.retrieve if NEWER else pool.retrive
    models = {id(retrieve(index)._model) for index in range(3)}
    assert len(models) == 1 and retrieve(0) is not retrieve(1)
    stock = inference.PredictorPool(config_of("rows"), 1)
    assert isinstance(stock, inference.PredictorPool)
    assert type((stock.retrieve if NEWER else stock.retrive)(0)) is inference.Predictor


def test_training_beside_a_predictor_goes_on(
    config_of: Callable[[str], Any], static_program: Any, tmp_path: Path
) -> None:
    scope = paddle.static.global_scope()
    x = paddle.static.data("x", [2, 3], "float32")
    loss = paddle.static.nn.fc(x, 1).mean()
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    compiled = paddle.static.IpuCompiledProgram(static_program).compile(["x"], [loss])
    config = config_of("rows")
    config.enable_ipu(1, 4)
    own = inference.create_predictor(config)
    feed = {"x": np.ones((2, 3), np.float32)}
    first = executor.run(compiled, feed, [loss])[0]
    run(own, rows(4))
    assert executor.run(compiled, feed, [loss])[0] < first
    weights = next(iter(own._model._programs.values())).backend.owner.variables
    assert len(weights) == 2 and not any(scope.find_var(name) for name in weights)
    IpuBackend.get_instance().save_model_proto(str(tmp_path / "last.onnx"))
    assert compiled.backend.is_attached
    assert (tmp_path / "last.onnx").stat().st_size > 0


def test_weights_of_predictors_that_are_dropped_are_let_go() -> None:
    held = []
    for number in range(8):
        scope = scopes.temporary()
        tensor = scope.var("w").get_tensor()
        scopes.write(tensor, np.full(2**22, number, np.float32))
        # What is still read stays.
        held = [*held[-1:], scopes.view(tensor)]
        del tensor, scope
        if number == 1:
            before = _resident_bytes()
    # 16 MB each, six of them.
    assert _resident_bytes() < before + 60 * 2**20
    assert [array[-1] for array in held] == [6, 7]


@pytest.mark.thorough
def test_200_predictors_leave_no_memory_behind(static_program: Any, tmp_path: Path) -> None:
    """Of 4 MB of weights each, so that one copy kept of each would be more than all the rest."""
    x = paddle.static.data("x", [-1, 1024], "float32")
    y = paddle.static.nn.fc(paddle.static.nn.fc(x, 512), 1024)
    executor = paddle.static.Executor()
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor.run(paddle.static.default_startup_program())
        paddle.static.save_inference_model(str(tmp_path / "wide"), [x], [y], executor)

    def once() -> None:
        config = inference.Config(str(tmp_path / "wide"))
        config.enable_ipu(1, 4)
        own = inference.create_predictor(config)
        run(own.clone(), {"x": np.ones((4, 1024), np.float32)})

    for _ in range(10):
        once()
    before = _resident_bytes()
    for _ in range(200):
        once()
    assert _resident_bytes() < 1.05 * before


def _resident_bytes() -> int:
    """Without what the process keeps for its next step."""
    gc.collect()
    process_memory.give_back_freed()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

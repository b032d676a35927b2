"""Where a session's data comes from: callbacks in their order, made-up data, several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from tests.unit.sessions.session_programs import (
    B,
    Linear,
    W,
    X,
    after,
    builder,
    infer,
    micro_batches,
    options,
    run,
    sgd,
    train,
    weights,
)

Array = np.ndarray[Any, Any]


# Callbacks


def test_callbacks_are_called_for_each_micro_batch() -> None:
    program = Linear()
    x = micro_batches(6)
    anchors: dict[str, Any] = {program.out: "All", program.loss: "Final", program.w: ("EveryN", 2)}
    plain = run(train(program, sgd(), anchors, batches=2, settings=options(3)), {"x": x})
    calls: list[str] = []
    got: dict[str, list[Array]] = {name: [] for name in anchors}
    shapes = {program.out: (3, 2), program.loss: (), program.w: (2, 2)}
    given = iter(x)

    def give(name: str, prefetch: bool) -> Array:
        calls.append(f"{name} {prefetch}")
        return next(given)

    def take(name: str) -> Array:
        got[name].append(np.empty(shapes[name], np.float32))
        return got[name][-1]

    session = train(program, sgd(), anchors, batches=2, settings=options(3))
    session.run(popart.PyStepIOCallback(give, calls.append, take, lambda name: None))
    assert calls == ["x False", "x"] * 6
    assert [len(got[name]) for name in anchors] == [6, 1, 3]
    for name in anchors:
        np.testing.assert_array_equal(np.stack(got[name]).reshape(plain[name].shape), plain[name])


def test_callbacks_go_from_one_micro_batch_to_the_next() -> None:
    make = builder()
    first = make.addInputTensor("FLOAT", [2], "first")
    second = make.addInputTensor("FLOAT", [2], "second")
    total = make.aiOnnxOpset11.add([first, second], "total")
    half = make.aiGraphcore.scale([total], 0.5, "half")
    anchors: dict[str, Any] = {total: "All", half: ("EveryN", 2), second: "Sum"}
    session = infer(make.model, anchors, batches=4)
    calls: list[str] = []
    turn = 0

    # A reader of pairs, which has one place in its data for both tensors.
    def give(name: str, prefetch: bool) -> Array:
        calls.append(f"give {name}")
        return np.full(2, turn if name == "first" else 10 * turn, np.float32)

    def given(name: str) -> None:
        nonlocal turn
        turn += name == "second"

    taken: dict[str, list[Array]] = {name: [] for name in anchors}

    def take(name: str) -> Array:
        calls.append(f"take {name}")
        taken[name].append(np.empty(2, np.float32))
        return taken[name][-1]

    done: list[str] = []
    session.run(popart.PyStepIOCallback(give, given, take, done.append))
    takes = [call.removeprefix("take ") for call in calls if call.startswith("take")]
    assert [call for call in calls if call.startswith("give")] == ["give first", "give second"] * 4
    assert takes == done
    # `half` comes in the second and the fourth micro-batch, the sum in the last.
    assert [set(takes[start:end]) for start, end in ((0, 1), (1, 3), (3, 4), (4, 7))] == [
        {total}, {total, half}, {total}, {total, half, second},
    ]  # fmt: skip
    assert [array[0] for array in taken[total]] == [0, 11, 22, 33]
    assert [array[0] for array in taken[half]] == [5.5, 16.5]
    assert [array[0] for array in taken[second]] == [60]


# Random numbers


def test_the_state_of_the_random_numbers_is_kept_and_set() -> None:
    make = builder()
    drawn = make.aiOnnxOpset11.randomnormal([4], dtype=1)
    settings = options(enableLoadAndOffloadRNGState=True)
    first = infer(make.model, {drawn: "All"}, batches=3, settings=settings)
    run(first, {})
    state = first.getRNGState()
    expected = [run(first, {})[drawn] for _ in range(2)]
    assert not np.array_equal(*expected)
    other = infer(make.model, {drawn: "All"}, batches=3, settings=settings)
    other.setRNGState(state)
    assert other.getRNGState() == state
    for array in expected:
        np.testing.assert_array_equal(run(other, {})[drawn], array)
    for wrong in ([1], [1, 2, 3], [-1, 0], [0, 2**32]):
        told = (
            rf"^Devicex::setRngStateValue received rngState of size {len(wrong)}; was expecting "
            rf"size "
            "2. The RNG state of the IPU Model is 2 words of 32 bits, as getRNGState gives them; "
            "got"
        )
        with pytest.raises(popart_runtime_error, match=told):
            other.setRNGState(wrong)


def test_with_synthetic_data_there_is_no_state_of_random_numbers() -> None:
    settings = options(
        enableLoadAndOffloadRNGState=True, syntheticDataMode=popart.SyntheticDataMode.Zeros
    )
    session = train(Linear(), sgd(), settings=settings)
    assert session.getRNGState() == []
    session.setRNGState([1, 2])
    assert session.getRNGState() == []


def test_the_state_of_the_random_numbers_needs_its_option_and_a_device() -> None:
    settings = options(enableLoadAndOffloadRNGState=True)
    session = train(Linear(), sgd(), settings=settings, start=False)
    for call, step in (
        (session.getRNGState, "getRngStateToHost"),
        (lambda: session.setRNGState([0, 0]), "setRngStateFromHost"),
    ):
        with pytest.raises(
            popart_runtime_error,
            match=rf"^Devicex::prepare\(\) must be called before Devicex::{step} is called.$",
        ):
            call()
    session = train(Linear(), sgd())
    for call, verb in ((session.getRNGState, "get"), (lambda: session.setRNGState([0, 0]), "set")):
        with pytest.raises(
            popart_runtime_error,
            match=f"Trying to {verb} the RNG state, but the session option "
            "enableLoadAndOffloadRNGState must be set to True.",
        ):
            call()


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "in a subgraph"])
def test_a_session_knows_whether_it_draws(inside: bool) -> None:
    def draws(ratio: float, training: bool) -> bool:
        make = builder()
        x = make.addInputTensor("FLOAT", [4], "x")
        body = make.createSubgraphBuilder() if inside else make
        of = body.addInputTensor("FLOAT", [4], "inner") if inside else x
        y = body.aiOnnxOpset11.dropout([of], 1, ratio)[0]
        if inside:
            body.addOutputTensor(y)
            y = make.aiGraphcore.call([x], 1, body)[0]
        program = Linear()
        program.builder, program.loss = make, make.aiGraphcore.identityloss([y])
        if training:
            session: Any = train(program, sgd())
        else:
            session = infer(make.model, {y: "All"})
        is_random: bool = session.drawsRandomNumbers()
        assert session.runsAreIndependent() is not training
        return is_random

    assert draws(0.5, training=True)
    assert not draws(0.0, training=True)
    assert not draws(0.5, training=False)


def test_a_session_that_rounds_at_random_draws() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT16", [1000], "x")
    y = make.aiOnnxOpset11.mul([x, x])
    values = np.full(1000, 1 / 3, np.float16)
    for at_random in (False, True):
        settings = options(enableStochasticRounding=at_random)
        session = infer(make.model, {y: "All"}, settings=settings)
        assert session.drawsRandomNumbers() is at_random
        assert session.runsAreIndependent() is not at_random
        # The program that runs is told the seed of each run, and another one when it is set.
        first, second = (run(session, {"x": values})[y] for _ in range(2))
        session.setRandomSeed(7)
        other = run(session, {"x": values})[y]
        assert (first != second).any() == (first != other).any() == at_random


def test_runs_that_draw_or_print_depend_on_one_another() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [4], "x")
    drawn = make.aiOnnx.add([make.aiOnnx.randomuniform([4]), x])
    assert not infer(make.model, {drawn: "All"}).runsAreIndependent()
    make = builder()
    shown = make.aiGraphcore.printtensor([make.addInputTensor("FLOAT", [4], "x")], 1, "x")
    assert not infer(make.model, {shown: "All"}).runsAreIndependent()


# Made-up data


def _synthetic(mode: str) -> popart.SessionOptions:
    return options(syntheticDataMode=getattr(popart.SyntheticDataMode, mode))


@pytest.mark.parametrize("mode", ["Zeros", "RandomNormal", "RandomUniform"])
def test_made_up_data_opens_no_stream(mode: str, tmp_path: Path) -> None:
    program = Linear()
    session = train(program, sgd(), {program.out: "All"}, batches=2, settings=_synthetic(mode))
    outputs = {program.out: np.full((2, 3, 2), 7, np.float32)}
    session.run(popart.PyStepIO({}, outputs))
    session.run(popart.PyStepIO({"x": np.full((2, 3, 2), np.nan, np.float32)}, outputs))
    assert (outputs[program.out] == 7).all()
    # Training on it happens, and stays on the device.
    on_device = np.asarray(session._executable.weights["b"])
    assert not np.array_equal(on_device, B)
    for _ in range(2):
        np.testing.assert_array_equal(weights(session, "w")[0], W)
        session.run(popart.PyStepIO({}, outputs))
    session.modelToHost(str(tmp_path / "model.onnx"))
    saved = onnx.load(tmp_path / "model.onnx").graph.initializer
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in saved}
    np.testing.assert_array_equal(held["b"], B)


def test_made_up_data_is_of_its_kind() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2000], "x")
    y = make.addInputTensor("INT32", [3], "y")
    make.aiOnnxOpset11.add([x, x], "twice")
    anchored = make.aiOnnxOpset11.add([y, y], "double")
    drawn = {}
    for mode in ("Zeros", "RandomNormal", "RandomUniform"):
        session = infer(make.model, {anchored: "All"}, settings=_synthetic(mode))
        made = session._synthetic_inputs
        assert made["y"].tolist() == [0, 0, 0]
        assert made["x"].dtype == np.float32
        drawn[mode] = made["x"]
    assert not drawn["Zeros"].any()
    # Four standard deviations of the mean of 2000 draws.
    np.testing.assert_allclose(drawn["RandomNormal"].mean(), 0, atol=4 / np.sqrt(2000))
    np.testing.assert_allclose(drawn["RandomNormal"].std(), 1, atol=0.1)
    np.testing.assert_allclose(drawn["RandomUniform"].mean(), 0.5, atol=4 / np.sqrt(12 * 2000))
    assert drawn["RandomUniform"].min() >= 0
    assert drawn["RandomUniform"].max() < 1


# Several sessions


def test_sessions_in_threads_do_not_disturb_each_other() -> None:
    program = Linear()

    def work(index: int) -> list[Array]:
        optimizer = popart.SGD({"defaultLearningRate": (0.01 * (index + 1), False)})
        session = train(program, optimizer, {program.loss: "All"}, settings=options(2))
        return [*(run(session, {"x": micro_batches(2) + index})[program.loss] for _ in range(5)),
                *weights(session, "w")]  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, range(4)))
    for index, got in enumerate(together):
        for array, expected in zip(got, work(index), strict=True):
            np.testing.assert_array_equal(array, expected)


def test_threads_keep_compiled_programs_in_folders_of_their_own(tmp_path: Path) -> None:
    program = Linear()

    def work(index: int) -> int:
        folder = tmp_path / str(index)
        settings = options(enableEngineCaching=True, cachePath=str(folder))
        # Each compiles another program: the number of its batches differs.
        train(program, sgd(), {program.loss: "All"}, batches=index + 1, settings=settings)
        return len(ExecutableCache(folder).entries())

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [2, 2, 2]


def test_two_sessions_take_turns() -> None:
    program = Linear()
    first, second = train(program, sgd()), train(program, popart.SGD({}))
    for _ in range(2):
        run(first, {"x": X})
        run(second, {"x": X})
    np.testing.assert_array_equal(weights(first, "w")[0], after(2))
    assert not np.array_equal(weights(first, "w")[0], weights(second, "w")[0])
    np.testing.assert_array_equal(
        program.builder.model.graph.initializers["w"].const_value.numpy(), W
    )

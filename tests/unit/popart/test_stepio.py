"""Step inputs and outputs: contiguity, sizes, types, consumption, callbacks."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.stepio import PyStepIO, PyStepIOCallback, PyWeightsIO, element_details

STRIDED = np.zeros((4, 4), np.float32)[:, ::2]


def test_arrays_must_be_contiguous() -> None:
    with pytest.raises(
        popart_exception,
        match="unable to use the numpy input array for tensor 'x' as it is not c-contiguous",
    ):
        PyStepIO({"x": STRIDED}, {})
    with pytest.raises(
        popart_exception, match="the numpy output array for tensor 'y' as it is not"
    ):
        PyStepIO({}, {"y": STRIDED})
    with pytest.raises(popart_exception, match="tensor 'w' as it is not c-contiguous. Please use"):
        PyWeightsIO({"w": STRIDED})
    with pytest.raises(TypeError, match="PyStepIO takes numpy arrays, got list for 'x'"):
        PyStepIO({"x": [1]}, {})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="PyWeightsIO takes numpy arrays, got list for 'w'"):
        PyWeightsIO({"w": [1]})  # type: ignore[dict-item]


def test_inputs_are_given_by_reference_in_the_programs_shape() -> None:
    x = np.arange(6, dtype=np.float32)
    step = PyStepIO({"x": x}, {})
    given = step.input("x", (3, 2), np.float32)
    assert given.shape == (3, 2)
    assert np.shares_memory(given, x)


def test_sizes() -> None:
    step = PyStepIO({"x": np.zeros(5, np.float32)}, {"y": np.zeros(3, np.float32)})
    details = element_details((2,), 3, 1, 1)
    with pytest.raises(
        popart_runtime_error,
        match="Unexpected number of input elements for Tensor x. Expected 6, but received 5.",
    ) as caught:
        step.input("x", (3, 2), np.float32, True, details)
    assert caught.value.args[0].endswith(
        "\n   replication  factor = 1\n   accumulation factor = 1\n   batches per step    = 3"
        "\n   Tensor nelms        = 2"
    )
    with pytest.raises(
        popart_runtime_error,
        match="Unexpected number of output elements for Tensor y. Expected 2, but received 3.",
    ):
        step.output("y", np.zeros(2, np.float32))
    with pytest.raises(popart_runtime_error, match="No tensor a provided in PyStepIO's inputs"):
        step.input("a", (1,), np.float32)
    with pytest.raises(popart_runtime_error, match="No tensor a provided in PyStepIO's outputs"):
        step.output("a", np.zeros(1))


def test_an_input_the_program_does_not_have() -> None:
    step = PyStepIO({"x": np.zeros(1), "z": np.zeros(1)}, {})
    with pytest.raises(
        popart_runtime_error,
        match="The tensor 'z' has been provided as one of the inputs to the stepIO, but it is not",
    ):
        step.check_inputs(["x"])
    step.check_inputs(["x", "z"])
    step.enableRuntimeAsserts(False)
    step.check_inputs([])


def test_longer_arrays_are_consumed_step_by_step_and_then_again() -> None:
    step = PyStepIO({"x": np.arange(4, dtype=np.int32)}, {})
    step.enableRuntimeAsserts(False)
    taken = [step.input("x", (2,), np.int32).tolist() for _ in range(3)]
    assert taken == [[0, 1], [2, 3], [0, 1]]
    odd = PyStepIO({"x": np.arange(3, dtype=np.int32)}, {})
    odd.enableRuntimeAsserts(False)
    odd.input("x", (2,), np.int32, each=2)
    with pytest.raises(popart_runtime_error, match="has 1 elements left in .*, the step takes 2"):
        odd.input("x", (2,), np.int32, each=2)


def test_shorter_arrays_begin_again_where_nothing_is_asserted() -> None:
    step = PyStepIO({"x": np.arange(6, dtype=np.int32)}, {})
    step.enableRuntimeAsserts(False)
    assert step.input("x", (5, 2), np.int32, each=2).tolist() == [
        [0, 1], [2, 3], [4, 5], [0, 1], [2, 3]
    ]  # fmt: skip
    assert step.input("x", (1, 2), np.int32, each=2).tolist() == [[4, 5]]
    asserted = PyStepIO({"x": np.arange(6, dtype=np.int32)}, {})
    with pytest.raises(popart_runtime_error, match="Unexpected number of input elements"):
        asserted.input("x", (5, 2), np.int32, each=2)
    with pytest.raises(popart_runtime_error, match="has 6 elements left in .*, the step takes 10"):
        asserted.input("x", (5, 2), np.int32, check=False, each=2)


def test_types(caplog: pytest.LogCaptureFixture) -> None:
    step = PyStepIO(
        {"i": np.array([1, -2]), "f": np.zeros(2, np.float64), "big": np.array([2**31])},
        {"y": np.zeros(2, np.float64), "n": np.zeros(2, np.int64)},
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            narrowed = step.input("i", (2,), np.int32)
    assert narrowed.dtype == np.int32
    assert narrowed.tolist() == [1, -2]
    assert caplog.text.count("Will only warn once") == 1
    with pytest.raises(
        popart_runtime_error,
        match="Type discrepancy for tensor f. User provided : DOUBLE and expected : FLOAT.",
    ):
        step.input("f", (2,), np.float32)
    with pytest.raises(popart_runtime_error, match="which the device's INT32 cannot hold"):
        step.input("big", (1,), np.int32)
    with pytest.raises(popart_runtime_error, match="Type discrepancy for tensor y"):
        step.output("y", np.zeros(2, np.float32))
    step.output("n", np.array([3, 4], np.int32))
    assert step.outputs["n"].tolist() == [3, 4]


def test_outputs_are_written_in_place() -> None:
    y = np.zeros((2, 2), np.float32)
    PyStepIO({}, {"y": y}).output("y", np.arange(4, dtype=np.float32))
    assert y.tolist() == [[0, 1], [2, 3]]


def test_callbacks() -> None:
    calls: list[Any] = []
    data = iter(np.arange(6, dtype=np.float32).reshape(3, 2))
    out = np.zeros(2, np.float32)

    def give(name: str, prefetch: bool) -> np.ndarray[Any, Any]:
        calls.append((name, prefetch))
        return next(data)

    def take(name: str) -> np.ndarray[Any, Any]:
        return out

    step = PyStepIOCallback(give, calls.append, take, calls.append)
    whole = step.step_inputs({"x": ((2,), np.float32)}, (3,))["x"]
    assert whole.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert calls == [("x", False), "x"] * 3
    step.next_output("y", np.array([7, 8], np.float32))
    assert out.tolist() == [7, 8]
    assert calls[-1] == "y"
    with pytest.raises(popart_runtime_error, match="Type discrepancy for tensor y"):
        step.next_output("y", np.zeros(2, np.int32))
    with pytest.raises(TypeError, match="PyStepIOCallback takes functions, got 3"):
        PyStepIOCallback(3, calls.append, take, calls.append)  # type: ignore[arg-type]


def test_an_input_callback_without_data() -> None:
    def nothing(*args: Any) -> Any:
        return None

    step = PyStepIOCallback(nothing, nothing, nothing, nothing)
    with pytest.raises(
        popart_runtime_error,
        match="The input callback gave no data for tensor x. It may do so only where prefetch is "
        "True; return an array of the micro-batch",
    ):
        step.step_inputs({"x": ((2,), np.float32)}, ())


def test_weights() -> None:
    w = np.zeros(2, np.float32)
    weights = PyWeightsIO({"w": w})
    assert weights.get("w") is w
    with pytest.raises(popart_exception, match="No tensor v provided in PyWeightsIO's weights"):
        weights.get("v")

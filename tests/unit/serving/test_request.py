"""What a request is given of a batch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paddle_ipu.serving.request import Outputs, Promised, Request, WaitedFor

BATCH = {"y": np.arange(6.0).reshape(3, 2), "table": np.ones(4)}


def _requests(deadline: float = math.inf) -> list[Request]:
    given = {"x": np.ones((2, 1))}, 2, ["y", "table"], 0.0, deadline, 1.0
    return [WaitedFor(*given), Promised(*given)]


def _answer(request: Request) -> dict[str, np.ndarray]:
    request.finish(None)
    if isinstance(request, Promised):
        return request.future.result(0)
    assert isinstance(request, WaitedFor)
    assert request.wait(0.0)
    return request.result()


@pytest.mark.parametrize("kind", [0, 1], ids=["waited for", "promised"])
def test_an_answer_is_a_copy_of_its_rows(kind: int) -> None:
    request = _requests()[kind]
    request.keep(Outputs(BATCH, {"table"}), 1)
    answer = _answer(request)
    np.testing.assert_array_equal(answer["y"], BATCH["y"][1:])
    np.testing.assert_array_equal(answer["table"], BATCH["table"])
    for name, array in answer.items():
        assert not np.shares_memory(array, BATCH[name])
        assert array.flags.writeable


@pytest.mark.parametrize("kind", [0, 1], ids=["waited for", "promised"])
def test_an_answer_of_several_batches_is_put_together(kind: int) -> None:
    request = _requests()[kind]
    whole = Outputs(BATCH, {"table"})
    for start, row in enumerate((2, 0)):
        request.put(start, 1, whole.rows(request.outputs, row, 1), {"table"})
    assert request.left == 0
    np.testing.assert_array_equal(_answer(request)["y"], BATCH["y"][[2, 0]])


def test_what_a_model_did_not_give_is_told() -> None:
    outputs = Outputs(BATCH, ())
    assert outputs.unknown(["y", "z", "w"]) == "z"
    assert outputs.unknown(["table", "y"]) is None


def test_only_threads_with_time_take_turns_in_waking_up() -> None:
    waited, promised = _requests()
    assert waited.turn is not None
    assert promised.turn is None
    assert all(request.turn is None for request in _requests(deadline=5.0))

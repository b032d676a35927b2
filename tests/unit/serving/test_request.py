"""What a request is given of its batches."""

from __future__ import annotations

import numpy as np

from paddle_ipu.serving.request import Request, rows_of

BATCH = {"y": np.arange(6.0).reshape(3, 2), "table": np.ones(4)}
SHARED = {"table"}


def _request() -> Request:
    return Request({"x": np.ones((2, 1))}, 2, ["y", "table"], 0.0, 5.0, 1.0)


def test_an_answer_is_a_copy_of_its_rows() -> None:
    request = _request()
    assert request.keep(0, 2, rows_of(BATCH, request.outputs, 1, 2, SHARED), SHARED)
    request.finish(None)
    answer = request.future.result(0)
    np.testing.assert_array_equal(answer["y"], BATCH["y"][1:])
    np.testing.assert_array_equal(answer["table"], BATCH["table"])
    for name, array in answer.items():
        assert not np.shares_memory(array, BATCH[name])
        assert array.flags.writeable


def test_an_answer_of_several_batches_is_put_together() -> None:
    request = _request()
    are_all = [
        request.keep(start, 1, rows_of(BATCH, request.outputs, row, 1, SHARED), SHARED)
        for start, row in ((1, 0), (0, 2))
    ]
    assert are_all == [False, True]
    request.finish(None)
    np.testing.assert_array_equal(request.future.result(0)["y"], BATCH["y"][[2, 0]])

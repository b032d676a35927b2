"""Writing at an index that does not exist is an error with the operator and the user's line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import IndexRangeError
from tests.operators.built_case import build_case
from tests.operators.operator_case import OperatorCase, normal
from tests.operators.run_case import run_on_ipu_model

WRITES = {
    "scatter": (lambda x, n: paddle.scatter(x, n, x[:2]), [0, 4], "got index 4, expected 0 to 3"),
    "scatter_nd_add": (
        lambda x, n: paddle.scatter_nd_add(x, n.reshape([1, 2]), x[:1, 0]),
        [0, 5],
        "got index 5, expected -5 to 4",
    ),
    "index_add": (
        lambda x, n: paddle.index_add(x, n, 1, x[:, :2]),
        [-6, 0],
        "got index -6, expected -5 to 4",
    ),
    "index_put": (
        lambda x, n: paddle.index_put(x, (n, n), x[0, :2]),
        [0, 4],
        "got index 4, expected -4 to 3",
    ),
    "put_along_axis": (
        lambda x, n: paddle.put_along_axis(x, n.reshape([1, 2]), x[:1, :1], 1),
        [0, 5],
        "got index 5, expected -5 to 4",
    ),
    "send_u_recv": (
        lambda x, n: paddle.geometric.send_u_recv(x, paddle.zeros_like(n), n, out_size=3),
        [3, 0],
        "got index 3, expected 0 to 2",
    ),
}


@pytest.mark.parametrize("op", WRITES)
def test_an_index_out_of_range_is_an_error(op: str) -> None:
    build, index, message = WRITES[op]
    inputs: dict[str, Any] = {"x": normal(4, 5), "n": np.asarray(index)}
    with pytest.raises(IndexRangeError, match=re.escape(message)) as caught:
        run_on_ipu_model(build_case(OperatorCase(op, build, inputs)))
    assert f"Paddle's {op} at {__file__}:" in str(caught.value)

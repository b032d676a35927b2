"""Cases of tensors that the program makes itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases.one_operator import either
from tests.operators.operator_case import CaseTable, Since, integers, normal

TABLE = CaseTable()
_add = TABLE.add

_MATRIX = normal(2, 3)

_add(
    "full",
    lambda x: [
        paddle.full([2, 3], 1.5) * x,
        paddle.full([2, 3], 7, dtype="int64"),
        paddle.full([], 2.5),
        paddle.zeros([3, 0]),
        paddle.ones([100, 2], dtype="int32"),
        paddle.full([2], True, dtype="bool"),
    ],
    gradient=("x",),
    x=_MATRIX,
)
_add(
    "full_like",
    lambda x, v: paddle.full_like(x, v[0, 0], dtype="int32"),
    label="computed number",
    since=Since("3.0", "the Python function takes no variable"),
    x=_MATRIX,
    v=normal(1, 1) * 5,
)
_add(
    "full_with_tensor",
    lambda x, v: paddle.full([2, 3], v[0]) * x,
    gradient=("x",),
    label="computed number",
    since=Since("3.0", "the Python function takes no variable"),
    x=_MATRIX,
    v=normal(1),
)
_add(
    "sequence_mask",
    lambda x: F.sequence_mask(paddle.assign(np.asarray([2, 0, 3])), dtype="float32") * x,
    gradient=("x",),
    label="as long as the longest of constant lengths",
    x=normal(1, 3),
)
_add(
    "full_int_array",
    lambda x: [
        paddle._C_ops.full_int_array([3, -1], paddle.int64, paddle.CPUPlace()),
        paddle.reshape(x, [3, -1]),
    ],
    since=Since("3.0", "lists of numbers are attributes"),
    x=_MATRIX,
)


def _assign_value(array: np.ndarray[Any, Any]) -> Any:
    if not paddle.framework.in_pir_mode():
        return paddle.assign(array)
    dtype = getattr(paddle, array.dtype.name)
    numbers = array.reshape(-1).tolist()
    return paddle._C_ops.assign_value(list(array.shape), dtype, numbers, paddle.CPUPlace())


_add(
    "assign_value",
    lambda x: [
        _assign_value(np.asarray([[1.5, 2.0, -1.0]], np.float32)) * x,
        _assign_value(np.asarray([3, -4], np.int32)),
        _assign_value(np.arange(100.0, dtype=np.float32)),
    ],
    gradient=("x",),
    x=_MATRIX,
)


def _full_batch_size_like(x: Any, shape: list[int], value: float, at: int, to: int) -> Any:
    return either(
        lambda: paddle._C_ops.full_batch_size_like(
            x, shape, paddle.float32, value, at, to, paddle.CPUPlace()
        ),
        "fill_constant_batch_size_like",
        {"Input": x},
        "float32",
        shape=shape,
        dtype=5,
        value=value,
        str_value=str(value),
        input_dim_idx=at,
        output_dim_idx=to,
    )


_add(
    "full_batch_size_like",
    lambda x: [
        _full_batch_size_like(x, [-1, 4], 1.5, 0, 0),
        _full_batch_size_like(x, [4, -1], -2.0, 1, 1),
    ],
    x=_MATRIX,
)
_add(
    "empty",
    lambda x: [
        paddle.static.setitem(paddle.empty([4, 3]), slice(0, 4), 2.0) * x[0],
        paddle.full_like(paddle.empty([2, 5], dtype="int32"), 1),
    ],
    gradient=("x",),
    x=_MATRIX,
)
_add(
    "empty_like",
    lambda x: [
        paddle.full_like(paddle._C_ops.empty_like(x, paddle.float32, paddle.CPUPlace()), 3) * x
    ],
    gradient=("x",),
    since=Since("3.0", "there is no such operator"),
    x=_MATRIX,
)


def _range(start: float, end: float, step: float, dtype: Any) -> Any:
    """``paddle.range`` without its warning of being deprecated."""
    return paddle._C_ops.range_v2(start, end, step, dtype, paddle.CPUPlace())


_add(
    "range_v2",
    lambda x: [
        _range(0.0, 4.0, 2.0, paddle.float32) * x,
        _range(5, -1, -2, paddle.int32),
        _range(0.5, 2.4, 0.5, paddle.float32),
    ],
    gradient=("x",),
    since=Since("3.2", "there is no such operator"),
    x=_MATRIX,
)
_add(
    "is_empty",
    lambda x, y: [paddle.is_empty(x), paddle.is_empty(y)],
    x=_MATRIX,
    y=normal(2, 0),
)
_add(
    "tril_indices",
    lambda x: [
        paddle.tril_indices(4, 3),
        paddle.tril_indices(3, 4, 1, dtype="int32"),
        paddle.tril_indices(3, 3, -1) + x,
    ],
    x=integers(2, 3),
)
_add(
    "triu_indices",
    lambda x: [
        paddle.triu_indices(4, 3),
        paddle.triu_indices(3, 4, -1, dtype="int32"),
        paddle.triu_indices(3, 3, 1) + x,
    ],
    x=integers(2, 3),
)
_add(
    "logspace",
    lambda x: [
        paddle.logspace(0, 2, 5),
        paddle.logspace(3, -1, 4, base=2.0),
        paddle.logspace(1, 4, 4, base=3, dtype="int32"),
        paddle.logspace(0, 1, 3) * x,
    ],
    gradient=("x",),
    x=_MATRIX,
)

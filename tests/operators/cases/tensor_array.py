"""Cases of arrays of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.operator_case import CaseTable, Since, normal

TABLE = CaseTable()
_add = TABLE.add
_IN_PLACE = Since("3.0", "there is no such operator")


def _zero() -> Any:
    return paddle.zeros([1], "int64")


def _array(*tensors: Any) -> Any:
    array = paddle.tensor.create_array(str(tensors[0].dtype).rpartition(".")[2])
    for at, tensor in enumerate(tensors):
        paddle.tensor.array_write(tensor, paddle.full([1], at, "int64"), array)
    return array


def _joined(array: Any, axis: int, stack: bool = False) -> list[Any]:
    found = paddle.tensor.manipulation.tensor_array_to_tensor(array, axis=axis, use_stack=stack)
    # Paddle 2.6 gives the sizes without a shape.
    return list(found) if paddle.framework.in_pir_mode() else [found[0]]


def _written_over(x: Any, y: Any) -> list[Any]:
    array = _array(x * 2.0, y)
    first = paddle.tensor.array_read(array, _zero())
    paddle.tensor.array_write(x * y, _zero(), array)
    # What was read before the write is what it was.
    return [first, paddle.tensor.array_read(array, _zero()), paddle.tensor.array_length(array)]


_PAIR: dict[str, Any] = {"x": normal(2, 3), "y": normal(2, 3, seed=1)}
_add("array_write", _written_over, label="over an element", **_PAIR)
_add("array_read", lambda x, y: paddle.tensor.array_read(_array(x, y * 3.0), _zero() + 1), **_PAIR)
_add(
    "array_length",
    lambda x, y: [
        paddle.tensor.array_length(paddle.tensor.create_array("float32")),
        paddle.tensor.array_length(_array(x, y, x)) + x.astype("int64")[0, :1],
    ],
    **_PAIR,
)
_add(
    "create_array",
    lambda x, y: [
        paddle.tensor.array_read(_array(x + y), _zero()),
        paddle.tensor.array_read(_array((x + y).astype("int64")), _zero()),
    ],
    **_PAIR,
)
_add(
    "array_to_tensor",
    lambda x, y: [
        *_joined(_array(x, y), 0),
        *_joined(_array(x, y, x), 1),
        *_joined(_array(x, y), 1, stack=True),
    ],
    **_PAIR,
)


def _counted(x: Any, w: Any) -> list[Any]:
    """Hidden states of five steps, each from the one before, which the array has."""
    states = _array(x)

    def body(at: Any) -> list[Any]:
        before = paddle.tensor.array_read(states, at)
        at = at + 1
        paddle.tensor.array_write(paddle.tanh(paddle.matmul(before, w)), at, states)
        return [at]

    (last,) = paddle.static.nn.while_loop(lambda at: at < 5, body, [_zero()])
    return [
        _joined(states, 0, stack=True)[0],
        paddle.tensor.array_length(states),
        paddle.tensor.array_read(states, last),
    ]


_STEPS: dict[str, Any] = {"x": normal(2, 3), "w": normal(3, 3, seed=1)}
_add("array_write", _counted, label="in a loop", **_STEPS)


def _read_by_turn(x: Any, y: Any, n: Any) -> list[Any]:
    """The loop's turns are counted at run time; the array is only read."""
    array = _array(x, y, x * y)

    def body(at: Any, total: Any) -> list[Any]:
        return [at + 1, total + paddle.tensor.array_read(array, at).reshape([2, 3])]

    total = paddle.static.nn.while_loop(lambda at, _: at < n, body, [_zero(), x * 1.0])[1]
    return [total, paddle.tensor.array_read(array, n)]


_add("array_read", _read_by_turn, label="by a number of run time", **_PAIR, n=np.asarray([2]))


def _in_branches(p: Any, x: Any, y: Any) -> list[Any]:
    array = _array(x)

    def true() -> Any:
        paddle.tensor.array_write(x + y, _zero() + 1, array)
        return paddle.tensor.array_read(array, _zero()) * 2.0

    def false() -> Any:
        paddle.tensor.array_write(x - y, _zero() + 1, array)
        return y

    out = paddle.static.nn.cond(p, true, false)
    return [out, *_joined(array, 0)]


for _truth in (True, False):
    _add(
        "array_write", _in_branches, label=f"in a {_truth} branch", p=np.asarray([_truth]), **_PAIR
    )
_add(
    "array_pop",
    lambda x, y: [
        paddle._C_ops.array_pop(_array(x, y, x * y), -1),
        *[paddle._C_ops.array_pop(array, 0) for array in [_array(x, y)] * 2],
    ],
    since=_IN_PLACE,
    **_PAIR,
)

TABLE.refuse(
    "array_write",
    lambda x, i: paddle.tensor.array_length(paddle.tensor.array_write(x, i)),
    "the index is computed at run time, and with it how long the array becomes",
    x=normal(2, 3),
    i=np.asarray([0]),
)
TABLE.refuse(
    "array_write",
    lambda x: paddle.tensor.array_length(paddle.tensor.array_write(x, _zero() + 2)),
    r"index 2 is not within the array or next to its 0 element\(s\)",
    x=normal(2, 3),
)
TABLE.refuse(
    "array_read",
    lambda x: paddle.tensor.array_read(_array(x), _zero() + 3),
    "index 3 is not in the array, which has 1 elements",
    x=normal(2, 3),
)
TABLE.refuse(
    "array_to_tensor",
    lambda x, y: _joined(_array(x, y), 1)[0],
    r"element 1 has shape \[3, 3\] and element 0 \[2, 3\]: they cannot become one tensor",
    x=normal(2, 3),
    y=normal(3, 3),
)
TABLE.refuse(
    "array_to_tensor",
    lambda x: _joined(paddle.tensor.create_array("float32"), 0)[0],
    "the array is empty; write to it first",
    since=_IN_PLACE,
    x=normal(2, 3),
)
TABLE.refuse(
    "array_pop",
    lambda x: paddle._C_ops.array_pop(_array(x), 3),
    "index 3 is not in the array, which has 1 elements",
    since=_IN_PLACE,
    x=normal(2, 3),
)


def _until(x: Any, n: Any) -> Any:
    states = _array(x)

    def body(at: Any) -> list[Any]:
        paddle.tensor.array_write(paddle.tensor.array_read(states, at), at + 1, states)
        return [at + 1]

    paddle.static.nn.while_loop(lambda at: at < n, body, [_zero()])
    return paddle.tensor.array_length(states)


TABLE.refuse(
    "while",
    _until,
    "it writes to an array of tensors, and its number of iterations is computed at run time",
    x=normal(2, 3),
    n=np.asarray([3]),
)
TABLE.refuse(
    "while",
    lambda x: _until(x, paddle.full([1], 2000, "int64")),
    "and its number of iterations is 2000. Such a loop is unrolled, up to 1024",
    x=normal(2, 3),
)


def _longer_branch(p: Any, x: Any) -> Any:
    array = _array(x)

    def longer() -> Any:
        paddle.tensor.array_write(x, _zero() + 1, array)
        return x + 1.0

    paddle.static.nn.cond(p, longer, lambda: x * 2.0)
    return paddle.tensor.array_length(array)


TABLE.refuse(
    "if",
    _longer_branch,
    "its branches leave arrays of tensors of different lengths",
    p=np.asarray([True]),
    x=normal(2, 3),
)

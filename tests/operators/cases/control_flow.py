"""Cases of control flow: ``if`` and ``while``."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.operator_case import Array, CaseTable, Since, normal

TABLE = CaseTable()

_STATIC = paddle.static.nn
_YES, _NO = np.asarray([True]), np.asarray([False])
_X, _W = normal(2, 3), normal(3, 3, seed=1)


def _cond(p: Any, x: Any, w: Any) -> Any:
    return _STATIC.cond(
        p,
        lambda: (paddle.matmul(x, w) * 2.0, paddle.full([2], 3, "int64")),
        lambda: (x - 1.0, paddle.full([2], 4, "int64")),
    )


for _label, _p in {"true": _YES, "false": _NO}.items():
    TABLE.add("if", _cond, p=_p, x=_X, w=_W, gradient=("x", "w"), label=_label)


def _nested(p: Any, q: Any, x: Any) -> Any:
    def inner() -> Any:
        return _STATIC.cond(q, lambda: paddle.tanh(x), lambda: paddle.exp(x) * 0.5)

    return _STATIC.cond(p, lambda: inner() * x, lambda: inner() + x)


for _label, _p, _q in (("tt", _YES, _YES), ("tf", _YES, _NO), ("ft", _NO, _YES)):
    TABLE.add("if", _nested, p=_p, q=_q, x=_X, gradient=("x",), label=f"nested-{_label}")


def _of_a_sum(x: Any) -> Any:
    return _STATIC.cond(paddle.sum(x) > 0.0, lambda: x * x, lambda: x * 3.0)


TABLE.add("if", _of_a_sum, x=_X + 2.0, gradient=("x",), label="computed-true")
TABLE.add("if", _of_a_sum, x=_X - 2.0, gradient=("x",), label="computed-false")


def _of_a_constant(x: Any) -> Any:
    p = paddle.full([1], True, "bool")
    other = _STATIC.cond(paddle.full([], False, "bool"), lambda: x + 1.0, lambda: x * 4.0)
    return _STATIC.cond(p, lambda: paddle.sin(x), lambda: x), other


TABLE.add("if", _of_a_constant, x=_X, gradient=("x",), label="constant")


def _switch(i: Any, x: Any) -> Any:
    return _STATIC.switch_case(
        i, {0: lambda: x * 2.0, 2: lambda: x * x}, default=lambda: paddle.exp(x)
    )


for _at in (0, 2, 7):
    TABLE.add(
        "if", _switch, i=np.asarray([_at], np.int32), x=_X, gradient=("x",),
        label=f"switch_case-{_at}",
    )  # fmt: skip


def _case(a: Any, x: Any) -> Any:
    pairs = [(paddle.mean(a) > 1.0, lambda: x * 2.0), (paddle.mean(a) > 0.0, lambda: x * x)]
    return _STATIC.case(pairs, default=lambda: x - 5.0)


for _value in (2.0, 0.5, -1.0):
    TABLE.add(
        "if", _case, a=np.asarray([_value], np.float32), x=_X, gradient=("x",),
        label=f"case-{_value}",
    )  # fmt: skip


def _handed_on(p: Any, x: Any, y: Any) -> Any:
    return _STATIC.cond(p, lambda: (x, y, x), lambda: (y, x, y))


# Paddle 3.3 counts the gradient of a value that a branch returns twice once.
TABLE.add(
    "if", _handed_on, p=_YES, x=_X, y=_W[:2], gradient=("x", "y"), label="handed-on",
    oracle=lambda p, x, y: (x, y, x),
)  # fmt: skip


def _loop(cond: Any, body: Any, variables: list[Any]) -> Any:
    """``while_loop`` over copies: Paddle 3 takes the memory of a parameter that it is given."""
    return _STATIC.while_loop(cond, body, [paddle.assign(variable) for variable in variables])


def _while(x: Any, w: Any) -> Any:
    i = paddle.full([1], 0, "int64")
    return _loop(
        lambda i, x: i < 5, lambda i, x: [i + 1, paddle.tanh(paddle.matmul(x, w))], [i, x]
    )[1]


TABLE.add("while", _while, x=_X, w=_W, gradient=("x", "w"))


def _counted(x: Any) -> Any:
    i, ten = paddle.full([1], 10, "int32"), paddle.full([], 4, "int32")
    return _loop(lambda i, n, x: i >= n, lambda i, n, x: [i - 2, n, x * 1.5 + 0.25], [i, ten, x])


TABLE.add("while", _counted, x=_X, gradient=("x",), label="counts-down")


def _never(x: Any) -> Any:
    i = paddle.full([1], 9, "int64")
    return _loop(lambda i, x: i < 5, lambda i, x: [i + 1, x * 2.0], [i, x])[1] * x


# Paddle 3's executor leaves the results of a loop without a turn empty.
TABLE.add("while", _never, x=_X, gradient=("x",), label="no-turn", oracle=lambda x: x * x)


def _until_large(x: Any) -> Any:
    n = paddle.full([1], 0, "int64")
    return _loop(lambda n, x: paddle.sum(x) < 50.0, lambda n, x: [n + 1, x * 1.5], [n, x])


TABLE.add("while", _until_large, x=np.abs(_X), label="computed")


def _until_small(x: Any) -> Any:
    return _loop(
        lambda x: paddle.reshape(paddle.max(x), [1]) > 0.5, lambda x: [paddle.tanh(x) * 0.9], [x]
    )[0]


TABLE.add("while", _until_small, x=np.abs(_X), label="computed-vector")


def _written_in_while(x: Any) -> Any:
    """A column of the result for each turn, and numbers in the first of them."""

    def body(i: Any, made: Any) -> Any:
        made = paddle.static.setitem(made, (slice(None), slice(i, i + 1)), x[:, 1:2] * 2.0)
        return [i + 1, paddle.static.setitem(made, (0, slice(0, 1)), 5.0)]

    first = paddle.full([1], 0, "int64")
    return _loop(lambda i, made: i < 2, body, [first, paddle.zeros_like(x)])[1]


TABLE.add("while", _written_in_while, x=_X, label="writes a slice")


# The loop's variable is a feed, which Paddle 2 writes.
TABLE.add(
    "while",
    lambda x: _loop(lambda x: paddle.sum(x) < 50.0, lambda x: [x * 1.5], [x])[0],
    x=np.abs(_X),
    label="a feed is fetched",
)


def _cond_in_while(x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        even = paddle.equal(i % 2, paddle.zeros_like(i))
        return [i + 1, _STATIC.cond(even, lambda: paddle.sin(x), lambda: x * x + 0.5)]

    return _loop(lambda i, x: i < 4, body, [paddle.full([1], 0, "int64"), x])[1]


def _cond_in_while_by_numpy(x: Array) -> Array:
    for turn in range(4):
        x = x * x + 0.5 if turn % 2 else np.sin(x)
    return x


# Paddle 3.3's backward of a cond in a loop gives zeros.
TABLE.add(
    "while", _cond_in_while, x=_X, gradient=("x",), label="cond-inside",
    oracle=_cond_in_while_by_numpy,
)  # fmt: skip


def _while_in_cond(p: Any, x: Any) -> Any:
    def repeat() -> Any:
        i = paddle.full([1], 0, "int64")
        return _loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [i, x])[1]

    return _STATIC.cond(p, repeat, lambda: x + 1.0)


# Paddle 3.3's executor fails at the backward of a loop in a branch.
for _label, _p in {"true": _YES, "false": _NO}.items():
    TABLE.add(
        "while", _while_in_cond, p=_p, x=_X, gradient=("x",), label=f"in-cond-{_label}",
        oracle=lambda p, x: x**4 if p else x + 1,
    )  # fmt: skip


def _while_in_while(x: Any) -> Any:
    def outer(i: Any, x: Any) -> Any:
        j = paddle.full([1], 0, "int64")
        inner = _loop(lambda j, y: j < 2, lambda j, y: [j + 1, paddle.tanh(y) + 0.1], [j, x])
        return [i + 1, inner[1] * 1.25]

    return _loop(lambda i, x: i < 3, outer, [paddle.full([1], 0, "int64"), x])[1]


def _while_in_while_by_numpy(x: Array) -> Array:
    for _ in range(3):
        x = (np.tanh(np.tanh(x) + 0.1) + 0.1) * 1.25
    return x


# Paddle 3.3's executor fails at the backward of a loop in a loop.
TABLE.add(
    "while", _while_in_while, x=_X, gradient=("x",), label="nested", oracle=_while_in_while_by_numpy
)


TABLE.refuse(
    "if",
    lambda p, x: _STATIC.cond(p, lambda: x, lambda: paddle.concat([x, x])),
    p=_YES,
    x=_X,
    match=r"result 0 is float32 \[2, 3\] of the true branch and float32 \[4, 3\]",
)
TABLE.refuse(
    "while",
    lambda x: _loop(
        lambda i, x: i < 3,
        lambda i, x: [i + 1, paddle.concat([x, x])],
        [paddle.full([1], 0, "int64"), x],
    ),
    x=_X,
    match=r"loop variable 1 goes into the body as float32 .* and comes out as float32 \[., 3\]",
    since=Since("3.0", "warns that it assigns a tensor to one of another shape"),
)

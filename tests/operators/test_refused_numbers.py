"""Ids, labels, lengths and divisors that Paddle refuses are errors, and what it makes of each.

Nothing here may become a number that looks like a result. Where Paddle reads or writes beyond a
tensor there is no number to compare with, and it may end the process, so that it is not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention
import pytest

from paddle_ipu.errors import IndexRangeError, IntegerDivisionError
from tests.operators.built_case import BuiltCase, build_case, compile_case, static_mode
from tests.operators.operator_case import OperatorCase, floats, normal
from tests.operators.run_case import run_on_cpu, run_on_ipu_model

RAISES = "raises"
BEYOND = "reads or writes beyond the tensor"
NO_KERNEL = "has no kernel for CPUs"
V3 = not str(paddle.__version__).startswith("2.")
LATER = RAISES if V3 else BEYOND
"""Of an operator that Paddle 3 checks and Paddle 2.6 does not."""


class Row(NamedTuple):
    """An operator, and numbers that do not exist for it.

    Attributes:
        build: Paddle API calls on `good` and, where given, `x`.
        good: numbers that exist.
        low: one too low, put in place of the last.
        high: one too high.
        expected: what the message says the operator takes.
        paddle: what Paddle does of the low one, and of the high one.
        x: another input.
    """

    build: Callable[..., Any]
    good: Any
    low: int
    high: int
    expected: str
    paddle: tuple[str, str]
    x: Any = None


X = normal(4, 5)
BOTH = (RAISES, RAISES)
LABELS = [0, 2, 3, 4]
BOXES = floats([0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 2.0], [0.0, 1.0, 2.0, 3.0])


def _ctc(logits: Any, labels: Any, lengths: Any, label_lengths: Any) -> Any:
    return F.ctc_loss(logits, labels.astype("int32"), lengths, label_lengths)


def _yolo_loss(x: Any, across: Any, down: Any) -> Any:
    """Of boxes at such places [1, 2] of an image of 32 by 32 pixels, in cells of 8 by 8."""
    size = paddle.full([1, 2], 0.1)
    boxes = paddle.stack([across, down, size, size], axis=-1)
    kinds = paddle.zeros([1, 2], "int32")
    return paddle.vision.ops.yolo_loss(x, boxes, kinds, [3, 5, 8, 6], [0, 1], 3, 0.5, 8)


def _full(number: int) -> Any:
    return paddle.full([1], number, "int64")


NUMBERS = {
    "embedding": Row(
        lambda i, x: F.embedding(i, x), [0, 3], -1, 4, "0 to 3", (BEYOND, RAISES), X
    ),
    "embedding with padding": Row(
        lambda i, x: F.embedding(i, x, padding_idx=1), [0, 3], -1, 4, "0 to 3", (BEYOND, BEYOND), X
    ),
    "gather": Row(
        lambda i, x: paddle.gather(x, i), [0, 3], -5, 4, "-4 to 3", (RAISES, LATER), X
    ),
    "gather_nd": Row(
        lambda i, x: paddle.gather_nd(x, i), [[0, 4], [1, 3]], -6, 5, "-5 to 4", BOTH, X
    ),
    "index_select": Row(
        lambda i, x: paddle.index_select(x, i), [0, 3], -5, 4, "-4 to 3", BOTH, X
    ),
    "index_sample": Row(
        lambda i, x: paddle.index_sample(x, i), [[0, 3]] * 4, -1, 5, "0 to 4", BOTH, X
    ),
    "take_along_axis": Row(
        lambda i, x: paddle.take_along_axis(x, i, 1),
        [[0, 3]] * 4, -6, 5, "-5 to 4", (LATER, LATER), X,
    ),
    "put_along_axis": Row(
        lambda i, x: paddle.put_along_axis(x, i, x[:, :2], 1, "add"),
        [[0, 3]] * 4, -6, 5, "-5 to 4", (LATER, LATER), X,
    ),
    "scatter": Row(
        lambda i, x: paddle.scatter(x, i, x[:2]),
        [0, 3], -5, 4, "0 to 3", BOTH, X,
    ),
    "scatter_nd_add": Row(
        lambda i, x: paddle.scatter_nd_add(x, i, x[:2, 0]),
        [[0, 1], [3, 4]], -6, 5, "-5 to 4", BOTH, X,
    ),
    "index_add": Row(
        lambda i, x: paddle.index_add(x, i, 0, x[:2]), [0, 3], -5, 4, "-4 to 3", BOTH, X
    ),
    "index_put": Row(
        lambda i, x: paddle.index_put(x, (i,), x[:2]),
        [0, 3], -5, 4, "-4 to 3", (BEYOND, BEYOND), X,
    ),
    "multiplex": Row(
        lambda i, x: paddle.multiplex([x, x + 1, x * 2], i.astype("int32")),
        [[0], [2], [1], [0]], -1, 3, "0 to 2", BOTH, X,
    ),
    "one_hot": Row(lambda i: F.one_hot(i, 3), [0, 2], -1, 5, "0 to 2", BOTH),
    "one_hot of a scalar": Row(
        lambda i: F.one_hot(i.reshape([]), 3), [2], -1, 3, "0 to 2", BOTH
    ),
    "cross_entropy": Row(
        lambda i, x: F.cross_entropy(x, i), LABELS, -1, 5, "0 to 4", BOTH, X
    ),
    "cross_entropy with weights": Row(
        lambda i, x: F.cross_entropy(x, i, weight=x[0]), LABELS, -1, 5, "0 to 4", BOTH, X
    ),
    "cross_entropy of probabilities": Row(
        lambda i, x: F.cross_entropy(F.softmax(x), i, use_softmax=False),
        LABELS, -1, 5, "0 to 4", BOTH, X,
    ),
    "cross_entropy with smooth labels": Row(
        lambda i, x: F.cross_entropy(x, i, label_smoothing=0.1), LABELS, -1, 5, "0 to 4", BOTH, X
    ),
    "cross_entropy that ignores another label": Row(
        lambda i, x: F.cross_entropy(x, i, ignore_index=6), LABELS, -100, 5, "0 to 4", BOTH, X
    ),
    "cross_entropy along another axis": Row(
        lambda i, x: F.cross_entropy(x.unsqueeze(0), i.unsqueeze(0), axis=1, reduction="none"),
        [0, 2, 3, 1, 0], -1, 4, "0 to 3", BOTH, X,
    ),
    "nll_loss": Row(
        lambda i, x: F.nll_loss(F.log_softmax(x), i), LABELS, -1, 5, "0 to 4", BOTH, X
    ),
    "margin_cross_entropy": Row(
        lambda i, x: F.margin_cross_entropy(x / 10, i),
        LABELS, -100, 5, "0 to 4", (NO_KERNEL, NO_KERNEL), X,
    ),
    "multi_margin_loss": Row(
        lambda i, x: F.multi_margin_loss(x, i), LABELS, -1, 5, "0 to 4", BOTH, X
    ),
    "dice_loss": Row(
        lambda i, x: F.dice_loss(F.softmax(x), i.unsqueeze(-1)),
        LABELS, -1, 5, "0 to 4", BOTH, X,
    ),
    "hsigmoid_loss": Row(
        lambda i, x: F.hsigmoid_loss(x, i.unsqueeze(-1), 4, x[:3]),
        [0, 2, 3, 1], -1, 4, "0 to 3", (BEYOND, BEYOND), X,
    ),
    "max_unpool1d": Row(
        lambda i, x: F.max_unpool1d(x, i.astype("int32"), 2),
        [[[0, 3]]], -1, 4, "0 to 3", (BEYOND, RAISES), normal(1, 1, 2),
    ),
    "max_unpool2d": Row(
        lambda i, x: F.max_unpool2d(x, i.astype("int32"), 2),
        [[[[0, 3]]]], -1, 8, "0 to 7", (BEYOND, RAISES), normal(1, 1, 1, 2),
    ),
    "max_unpool3d": Row(
        lambda i, x: F.max_unpool3d(x, i.astype("int32"), 2),
        [[[[[0, 3]]]]], -1, 16, "0 to 15", (BEYOND, RAISES), normal(1, 1, 1, 1, 2),
    ),
    "send_u_recv from": Row(
        lambda i, x: paddle.geometric.send_u_recv(x, i, paddle.zeros_like(i), out_size=3),
        [0, 3], -1, 4, "0 to 3", BOTH, X,
    ),
    "send_ue_recv from": Row(
        lambda i, x: paddle.geometric.send_ue_recv(
            x, x[:2], i, paddle.zeros_like(i), out_size=3
        ),
        [0, 3], -1, 4, "0 to 3", (BEYOND, BEYOND), X,
    ),
    "send_u_recv to": Row(
        lambda i, x: paddle.geometric.send_u_recv(x, paddle.zeros_like(i), i, out_size=3),
        [0, 2], -1, 3, "0 to 2", (BEYOND, BEYOND), X,
    ),
    "send_uv": Row(
        lambda i, x: paddle.geometric.send_uv(x, x, paddle.zeros_like(i), i),
        [0, 3], -1, 4, "0 to 3", (BEYOND, BEYOND), X,
    ),
    "shard_index": Row(
        lambda i: paddle.shard_index(i.unsqueeze(-1), 20, 2, 0), [0, 3], -1, 20, "0 to 19", BOTH
    ),
    "gather_tree": Row(
        lambda i: F.gather_tree(paddle.ones_like(i), i),
        [[[1, 1]], [[0, 1]]], -1, 2, "0 to 1", (LATER, RAISES),
    ),
    "ctc_loss": Row(
        lambda i, x: _ctc(x, i, _full(4), _full(2)),
        [[1, 2]], -1, 5, "0 to 4", (BEYOND, BEYOND), normal(4, 1, 5),
    ),
    "ctc_loss, length of the labels": Row(
        lambda i, x: _ctc(x, paddle.ones([1, 2], "int32"), _full(4), i),
        [2], -1, 3, "0 to 2", BOTH, normal(4, 1, 5),
    ),
    "ctc_loss, length of the logits": Row(
        lambda i, x: _ctc(x, paddle.ones([1, 2], "int32"), i, _full(2)),
        [4], -1, 5, "0 to 4", (BEYOND, BEYOND), normal(4, 1, 5),
    ),
    "rnnt_loss": Row(
        lambda i, x: F.rnnt_loss(
            x, i.astype("int32"), paddle.full([1], 3, "int32"), paddle.full([1], 2, "int32")
        ),
        [[1, 2]], -1, 5, "0 to 4", (BEYOND, BEYOND), normal(1, 3, 3, 5),
    ),
    "rnnt_loss, length of the logits": Row(
        lambda i, x: F.rnnt_loss(
            x, paddle.ones([1, 2], "int32"), i.astype("int32"), paddle.full([1], 2, "int32")
        ),
        [3], 0, 4, "1 to 3", (BEYOND, BEYOND), normal(1, 3, 3, 5),
    ),
    "yolo_loss, a box beside the image": Row(
        lambda i, x: _yolo_loss(x, i / 4, paddle.full([1, 2], 0.1)),
        [[0, 3]], -1, 4, "0 to 3", (BEYOND, BEYOND), normal(1, 16, 4, 4),
    ),
    "yolo_loss, a box above or below the image": Row(
        lambda i, x: _yolo_loss(x, paddle.full([1, 2], 0.1), i / 4),
        [[0, 3]], -1, 4, "0 to 3", (BEYOND, BEYOND), normal(1, 16, 4, 4),
    ),
    "roi_align": Row(
        lambda i, x: paddle.vision.ops.roi_align(x, paddle.assign(BOXES), i.astype("int32"), 2),
        [2, 1], -1, 4, "0 to 3", (BEYOND, BEYOND), normal(2, 1, 4, 4),
    ),
    "roi_pool": Row(
        lambda i, x: paddle.vision.ops.roi_pool(x, paddle.assign(BOXES), i.astype("int32"), 2),
        [2, 1], -1, 4, "0 to 3", (BEYOND, BEYOND), normal(2, 1, 4, 4),
    ),
    "viterbi_decode": Row(
        lambda i, x: paddle.text.viterbi_decode(x, paddle.ones([5, 5]), i),
        [4], -1, 5, "0 to 4", BOTH, normal(1, 4, 5),
    ),
    "lu_unpack": Row(
        lambda i, x: paddle.linalg.lu_unpack(x, i.astype("int32"))[0],
        [1, 2], 0, 3, "1 to 2", BOTH, normal(2, 2),
    ),
}  # fmt: skip


def _built(row: Row) -> BuiltCase:
    inputs = {"i": np.asarray(row.good)} | ({} if row.x is None else {"x": row.x})
    return build_case(OperatorCase("", row.build, inputs))


def _changed(row: Row, number: int) -> Any:
    wrong = np.asarray(row.good)
    wrong.reshape(-1)[-1] = number
    return wrong


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_does_not_exist_is_an_error(name: str) -> None:
    row = NUMBERS[name]
    built = _built(row)
    compiled = compile_case(built)
    with static_mode():
        compiled.run(dict(built.feed), list(built.fetches.values()))
        for number in (row.low, row.high):
            said = rf"got [a-z ]+ {number}, expected {re.escape(row.expected)}\. .*Paddle's \w+ at"
            with pytest.raises(IndexRangeError, match=said) as caught:
                compiled.run({**built.feed, "i": _changed(row, number)}, [*built.fetches.values()])
            assert f" at {__file__}:" in str(caught.value) or "/paddle/" in str(caught.value)


@pytest.mark.parametrize("name", [name for name, row in NUMBERS.items() if RAISES in row.paddle])
def test_paddle_refuses_it_too(name: str) -> None:
    row = NUMBERS[name]
    built = _built(row)
    for number, does in zip((row.low, row.high), row.paddle, strict=True):
        if does != RAISES:
            continue
        wrong = BuiltCase(
            built.program, {**built.feed, "i": _changed(row, number)}, {}, built.fetches
        )
        with pytest.raises((ValueError, IndexError, RuntimeError)):
            run_on_cpu(wrong)


def test_labels_that_are_ignored() -> None:
    """They are no classes, and stand for none."""
    for loss in (
        F.cross_entropy,
        # Paddle's CPU kernel writes past a reduced result.
        lambda x, i: F.nll_loss(F.log_softmax(x), i, reduction="none"),
    ):
        inputs = {"x": X, "i": np.asarray([0, -100, 3, 4])}
        built = build_case(OperatorCase("", loss, inputs))
        np.testing.assert_allclose(
            run_on_ipu_model(built)["output 0"], run_on_cpu(built)["output 0"], rtol=1e-6
        )


def test_padding_behind_labels_may_be_anything() -> None:
    inputs = {"i": np.asarray([[1, -1]]), "x": normal(4, 1, 5)}
    built = build_case(OperatorCase("", lambda i, x: _ctc(x, i, _full(4), _full(1)), inputs))
    assert np.isfinite(run_on_ipu_model(built)["output 0"])


# Division of integers by zero.

DIVISIONS = {
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "of a number": lambda x, y: paddle.floor_divide(paddle.full_like(y, 7), y),
}
if not V3:
    # Paddle 3 casts integers before it divides them.
    DIVISIONS["divide"] = lambda x, y: paddle.divide(x, y)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", DIVISIONS)
def test_integers_divided_by_zero(op: str, dtype: str) -> None:
    inputs = {"x": np.asarray([7, -7, 3], dtype), "y": np.asarray([2, 3, -4], dtype)}
    built = build_case(OperatorCase("", DIVISIONS[op], inputs))
    compiled = compile_case(built)
    (fetch,) = built.fetches.values()
    wrong = {**built.feed, "y": np.asarray([2, 0, -4], dtype)}
    with static_mode():
        got = compiled.run(dict(built.feed), [fetch])[0]
        np.testing.assert_array_equal(got, run_on_cpu(built)["output 0"])
        with pytest.raises(
            IntegerDivisionError,
            match=r"got divisor 0, expected any number but 0\. Check what is fed, or put another "
            r"number in place of zeros by paddle\.where\. It comes from Paddle's \w+ at "
            + re.escape(__file__),
        ) as caught:
            compiled.run(wrong, [fetch])
    assert isinstance(caught.value, ZeroDivisionError)
    with pytest.raises(Exception, match="division by zero"):
        run_on_cpu(BuiltCase(built.program, wrong, {}, built.fetches))


@pytest.mark.parametrize("divide", [lambda x: x // 0, lambda x: x % 0])
def test_a_constant_divisor_of_zero_is_refused_when_it_is_compiled(divide: Any) -> None:
    built = build_case(OperatorCase("", divide, {"x": np.asarray([7, 2])}))
    with pytest.raises(
        IntegerDivisionError,
        match=rf"got the constant divisor 0.* Change the number in the program.*"
        rf"{re.escape(__file__)}",
    ):
        compile_case(built)


def test_a_constant_divided_by_zero() -> None:
    """It is not evaluated with NumPy, whose quotient is a number."""

    def build(x: Any) -> Any:
        seven = paddle.full([1], 7, "int64")
        return x + paddle.floor_divide(seven, paddle.zeros([1], "int64"))

    built = build_case(OperatorCase("", build, {"x": np.asarray([7, 2])}))
    with pytest.raises(IntegerDivisionError, match="got the constant divisor 0"):
        compile_case(built)


def test_floats_divided_by_zero_are_numbers() -> None:
    inputs = {"x": floats(7, -7, 0), "y": floats(0, 0, 0)}
    for divide in (*list(DIVISIONS.values())[:2], paddle.divide):
        built = build_case(OperatorCase("", divide, inputs))
        np.testing.assert_array_equal(
            run_on_ipu_model(built)["output 0"], run_on_cpu(built)["output 0"]
        )


def test_a_step_that_divides_by_zero_changes_no_weight() -> None:
    inputs = {"w": normal(3), "n": np.asarray([4, 6, 9])}

    def build(w: Any, n: Any) -> Any:
        return w * (12 // n if V3 else paddle.floor_divide(paddle.full_like(n, 12), n)).astype(
            "float32"
        )

    built = build_case(OperatorCase("", build, inputs, gradient=("w",)))
    compiled = compile_case(built)
    fetches = [built.fetches["output 0"]]
    with static_mode():
        before = compiled.run({**built.feed, "n": np.asarray([12, 12, 12])}, fetches)[0]
        with pytest.raises(
            IntegerDivisionError, match="state were left as before this run. Check what is fed"
        ):
            compiled.run({**built.feed, "n": np.asarray([12, 0, 12])}, fetches)
        after = compiled.run({**built.feed, "n": np.asarray([12, 12, 12])}, fetches)[0]
    cotangent = next(a for n, a in built.feed.items() if n.startswith("cotangent"))
    np.testing.assert_allclose(after, before - 0.5 * cotangent, rtol=1e-5)


def test_a_divisor_in_a_branch_counts_where_the_branch_runs() -> None:
    def build(x: Any, y: Any) -> Any:
        return paddle.static.nn.cond(x.sum() > 0, lambda: x % y, lambda: x + y)

    inputs = {"x": np.asarray([-7, 2]), "y": np.asarray([0, 5])}
    built = build_case(OperatorCase("", build, inputs))
    compiled = compile_case(built)
    fetches = list(built.fetches.values())
    with static_mode():
        np.testing.assert_array_equal(compiled.run(dict(built.feed), fetches)[0], [-7, 7])
        with pytest.raises(IntegerDivisionError, match="got divisor 0"):
            compiled.run({**built.feed, "x": np.asarray([7, 2])}, fetches)


def test_an_id_in_a_branch_is_not_counted_from_the_end() -> None:
    def build(i: Any, x: Any) -> Any:
        return paddle.static.nn.cond(i.sum() < 9, lambda: F.embedding(i, x), lambda: x[:2])

    built = build_case(OperatorCase("", build, {"i": np.asarray([0, 3]), "x": X}))
    compiled = compile_case(built)
    fetches = list(built.fetches.values())
    with static_mode():
        compiled.run(dict(built.feed), fetches)
        with pytest.raises(IndexRangeError, match="got index -1, expected 0 to 3"):
            compiled.run({**built.feed, "i": np.asarray([0, -1])}, fetches)

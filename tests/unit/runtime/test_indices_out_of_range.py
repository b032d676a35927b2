"""Ids and labels that do not exist, and integers that an IPU cannot hold, are errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention
import pytest

from paddle_ipu.errors import IndexRangeError

pytestmark = pytest.mark.usefixtures("static_mode")

HERE = re.escape(__file__)


def compiled(
    build: Callable[[], Any], training: bool = False, micro_batches: int = 1, batches: int = 1
) -> Any:
    """Runs a program of int64 feeds ``i`` [3] and ``l`` [3]; gives what its fetch is."""
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup), paddle.utils.unique_name.guard():
        out = build()
        if training:
            paddle.optimizer.Adam(0.1).minimize(out)
    scope = paddle.static.Scope()
    paddle.static.Executor().run(startup, scope=scope)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=training, micro_batch_size=3)
    strategy.set_options({"batches_per_step": batches})
    if micro_batches > 1:
        strategy.set_options(
            {"enable_gradient_accumulation": True, "accumulation_factor": micro_batches}
        )
    feeds = ["i", "l"]
    made = paddle.static.IpuCompiledProgram(program, scope=scope, ipu_strategy=strategy).compile(
        feeds, [out]
    )

    def run(**feed: Any) -> Any:
        given: Mapping[str, Any] = {
            name: np.asarray(feed.get(name, [0, 1, 2] * micro_batches * batches)) for name in feeds
        }
        return made.run(given, [out])[0]

    def variables() -> dict[str, Any]:
        made.weights_to_host()
        names = made.backend.owner.variables
        return {name: np.array(scope.find_var(name).get_tensor()) for name in names}

    run.variables = variables  # type: ignore[attr-defined]
    return run


def _feeds() -> tuple[Any, Any]:
    return (
        paddle.static.data("i", [-1], "int64"),
        paddle.static.data("l", [-1], "int64"),
    )


def _loss() -> Any:
    i, label = _feeds()
    return F.cross_entropy(paddle.static.nn.embedding(i, (10, 4)), label)


def _loss_with_statistics() -> Any:
    i, label = _feeds()
    table = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.5))
    rows = paddle.static.nn.embedding(i, (10, 4), param_attr=table)
    rows = rows * i.astype("float32").unsqueeze(-1)
    return F.cross_entropy(paddle.static.nn.batch_norm(rows), label)


@pytest.mark.parametrize("training", [False, True])
def test_an_id_out_of_the_table(training: bool) -> None:
    run = compiled(_loss, training)
    run(i=[0, 9, 3])
    with pytest.raises(
        IndexRangeError,
        match=rf"operator Gather .* got index 13, expected 0 to 9\..*It comes from Paddle's "
        rf"embedding at {HERE}:\d+",
    ):
        run(i=[0, 13, 3])
    run(i=[0, 9, 3])


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_training_step_with_a_wrong_index_changes_nothing(micro_batches: int) -> None:
    run = compiled(_loss_with_statistics, training=True, micro_batches=micro_batches)
    run(i=[0, 9, 3] * micro_batches)
    before = run.variables()
    with pytest.raises(
        IndexRangeError, match="Weights and optimizer state were left as before this run"
    ):
        run(i=[0, 9, 3] * (micro_batches - 1) + [0, 13, 3])
    after = run.variables()
    assert len(before) > 8
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, name)


def test_a_run_stops_training_at_the_batch_with_a_wrong_index() -> None:
    good = [0, 9, 3]
    one = compiled(_loss_with_statistics, training=True)
    one(i=good)
    run = compiled(_loss_with_statistics, training=True, batches=3)
    with pytest.raises(IndexRangeError, match="state were left as after batch 0 of this run"):
        run(i=[*good, 0, 13, 3, *good])
    expected = one.variables()
    for name, array in run.variables().items():
        np.testing.assert_array_equal(array, expected[name], name)


def test_an_id_below_zero_is_none_of_the_last() -> None:
    run = compiled(_loss)
    with pytest.raises(IndexRangeError, match="got index -1, expected 0 to 9"):
        run(i=[0, -1, 3])


def test_a_label_that_is_no_class_and_one_that_is_ignored() -> None:
    run = compiled(_loss)
    assert np.isfinite(run(l=[0, -100, 3]))
    with pytest.raises(IndexRangeError, match=r"operator Nll .* got label 4, expected 0 to 3\."):
        run(l=[0, 4, 3])
    with pytest.raises(IndexRangeError, match=r"operator Nll .* got label -1, expected 0 to 3\."):
        run(l=[0, -1, 3])


def test_the_micro_batch_is_named() -> None:
    run = compiled(_loss, training=True, micro_batches=2)
    with pytest.raises(IndexRangeError, match="got index 10 in micro-batch 1, expected"):
        run(i=[0, 1, 2, 3, 4, 10])


def test_a_computed_index_is_watched_too() -> None:
    def build() -> Any:
        i, label = _feeds()
        table = paddle.arange(12, dtype="float32").reshape([6, 2])
        return paddle.gather(table, i * 2) + label.astype("float32").sum()

    run = compiled(build)
    assert run(i=[0, 1, 2])[2, 1] == 9.0 + 3.0
    with pytest.raises(IndexRangeError, match=rf"got index 6, .*gather at {HERE}:\d+"):
        run(i=[0, 1, 3])


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_the_first_operator_with_a_wrong_index_is_told(first: int, second: int) -> None:
    """Whether its indices are fed, which the host can judge, or computed by the step."""

    def build() -> Any:
        i, label = _feeds()
        one = paddle.static.nn.embedding(i + 1 if first else i, (10, 4))
        return one + paddle.static.nn.embedding(label + 1 if second else label, (7, 4))

    run = compiled(build)
    run(i=[0, 8, 3], l=[5, 0, 1])
    with pytest.raises(IndexRangeError, match=f"got index {20 + first}, expected 0 to 9"):
        run(i=[0, 20, 3], l=[30, 0, 1])
    with pytest.raises(IndexRangeError, match=f"got index {30 + second}, expected 0 to 6"):
        run(i=[0, 8, 3], l=[30, 0, 1])
    with pytest.raises(IndexRangeError, match=r"got index -[12], expected 0 to 9"):
        run(i=[0, -2, 3], l=[5, 0, 1])
    run(i=[0, 8, 3], l=[5, 0, 1])


@pytest.mark.parametrize("batches", [1, 2])
def test_an_id_among_many(batches: int) -> None:
    program = paddle.static.Program()
    with paddle.static.program_guard(program, startup := paddle.static.Program()):
        ids = paddle.static.data("ids", [4, 100], "int64")
        out = paddle.static.nn.embedding(ids, (50, 2))
    scope = paddle.static.Scope()
    paddle.static.Executor().run(startup, scope=scope)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False)
    strategy.set_options({"batches_per_step": batches})
    made = paddle.static.IpuCompiledProgram(program, scope=scope, ipu_strategy=strategy).compile(
        ["ids"], [out]
    )
    given = np.arange(400 * batches).reshape(-1, 100) % 50
    made.run({"ids": given}, [out])
    given[-1, 7] = 50
    where = " in micro-batch 1" if batches > 1 else ""
    with pytest.raises(IndexRangeError, match=f"got index 50{where}, expected 0 to 49"):
        made.run({"ids": given}, [out])


def test_a_constant_index_is_refused_when_it_is_compiled() -> None:
    def build() -> Any:
        i, label = _feeds()
        table = i.astype("float32") + label.astype("float32")
        return table[np.array([0, 3])]

    with pytest.raises(
        IndexRangeError,
        match=rf"got the constant index 3, expected -3 to 2\. Change the number in the program\. "
        rf"It comes from Paddle's gather_nd at {HERE}:\d+",
    ):
        compiled(build)


def test_an_index_in_a_branch_is_watched_where_the_branch_runs() -> None:
    def build() -> Any:
        i, label = _feeds()
        table = paddle.arange(6, dtype="float32")
        return paddle.static.nn.cond(
            label.sum() > 3,
            lambda: paddle.gather(table, i * 2),
            lambda: paddle.gather(table, i) + paddle.full([1], 7, "int64").astype("float32"),
        )

    run = compiled(build)
    np.testing.assert_array_equal(run(i=[0, 1, 2], l=[2, 2, 2]), [0, 2, 4])
    np.testing.assert_array_equal(run(i=[0, 1, 5], l=[1, 1, 1]), [7, 8, 12])
    with pytest.raises(
        IndexRangeError, match=rf"got index 6, expected -6 to 5\..*gather at {HERE}:\d+"
    ):
        run(i=[0, 1, 3], l=[2, 2, 2])
    with pytest.raises(IndexRangeError, match=r"got index -7, expected -6 to 5"):
        run(i=[0, -7, 3], l=[1, 1, 1])


@pytest.mark.parametrize("turns", ["constant", "computed"])
def test_an_index_in_a_loop_is_watched_in_every_turn(turns: str) -> None:
    def build() -> Any:
        i, label = _feeds()
        table = paddle.reshape(paddle.arange(12, dtype="float32"), [2, 6])
        most = paddle.full([1], 3, "int64") if turns == "constant" else label[0]

        def body(turn: Any, total: Any) -> list[Any]:
            # A loop in the loop, whose wrong index leaves both.
            _, row = paddle.static.nn.while_loop(
                lambda inner, row: inner < 2,
                lambda inner, row: [inner + 1, row + table[:, turn + i[0]].flatten()],
                [paddle.zeros([1], "int64"), paddle.zeros([2])],
            )
            return [turn + 1, total + row]

        start = [paddle.zeros([1], "int64"), paddle.zeros([2])]
        return paddle.static.nn.while_loop(lambda turn, total: turn < most, body, start)[1]

    run = compiled(build)
    np.testing.assert_array_equal(run(i=[3, 0, 0], l=[3, 0, 0]), [24, 60])
    with pytest.raises(
        IndexRangeError, match=rf"got index 6, expected -6 to 5\..*gather_nd at {HERE}:\d+"
    ):
        run(i=[4, 0, 0], l=[3, 0, 0])
    with pytest.raises(IndexRangeError, match=r"got index -9, expected -6 to 5"):
        run(i=[-9, 0, 0], l=[3, 0, 0])


def test_a_wrong_constant_in_a_branch_is_an_error_only_if_the_branch_runs() -> None:
    def build() -> Any:
        i, label = _feeds()
        table = i.astype("float32") * 2
        return paddle.static.nn.cond(
            label.sum() > 3, lambda: table[np.array([0, 3])], lambda: table[np.array([0, 2])]
        )

    run = compiled(build)
    np.testing.assert_array_equal(run(l=[1, 1, 1]), [0, 4])
    with pytest.raises(IndexRangeError, match="got index 3, expected -3 to 2"):
        run(l=[2, 2, 2])


def test_constants_beyond_32_bits() -> None:
    def build() -> Any:
        i, label = _feeds()
        return i + label + paddle.full([3], 2**31, "int64")

    np.testing.assert_array_equal(compiled(build)(i=[1, 0, 0], l=[0, 1, 1]), [2**31 + 1] * 3)


def test_factors_beyond_32_bits() -> None:
    def build() -> Any:
        i, label = _feeds()
        return i * 2**40 + label

    np.testing.assert_array_equal(compiled(build)(i=[1, -2, 0], l=[0, 1, 1]), [2**40, 1 - 2**41, 1])


def test_an_index_of_64_bits_out_of_range() -> None:
    def build() -> Any:
        i, label = _feeds()
        table = paddle.arange(6, dtype="float32")
        return paddle.gather(table, i + label) + (i * label).astype("float32")

    run = compiled(build)
    np.testing.assert_array_equal(run(i=[1, 2, 0], l=[2, 3, 0]), [5, 11, 0])
    with pytest.raises(IndexRangeError, match=r"got index 2147483647 or more, expected -6 to 5"):
        run(i=[2**32, 0, 0], l=[0, 0, 0])
    with pytest.raises(IndexRangeError, match=r"got index -2147483648 or less, expected -6 to 5"):
        run(i=[-(2**40), 0, 0], l=[0, 0, 0])


def test_the_largest_constants_that_fit() -> None:
    def build() -> Any:
        i, label = _feeds()
        return i * 0 + label * 0 + paddle.full([3], -(2**31), "int64")

    np.testing.assert_array_equal(compiled(build)(), np.full(3, -(2**31)))


def test_an_index_into_nothing() -> None:
    run = compiled(lambda: paddle.gather(paddle.zeros([0, 3]), _feeds()[0]))
    with pytest.raises(
        IndexRangeError, match="got index 0, expected no index, as there is nothing to choose from"
    ):
        run(i=[0, 0, 0])

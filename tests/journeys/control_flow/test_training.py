"""Programs with control flow train as on Paddle's CPU executor, and what cannot is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import InvalidProgramError, NotSupported
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import Built, build, distance, pair

NN = paddle.static.nn
RNG = np.random.default_rng(5)
BATCHES = [RNG.standard_normal((4, 3)).astype(np.float32) + sign for sign in (2, -2, 1, -1)]


def _program(body: Callable[[Any, Any], Any], optimizer: Any = None) -> Built:
    """fc, then what `body` makes of it and of a weight, squared and averaged."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        hidden = NN.fc(x, 3, activation="tanh")
        weight = paddle.create_parameter([3, 3], "float32")
        out = body(hidden, weight)
        loss = paddle.mean(out * out)
        (optimizer or paddle.optimizer.SGD(0.1)).minimize(loss)
        return ["x"], {"loss": loss}, None

    return build(make)


def _choose(hidden: Any, weight: Any) -> Any:
    return NN.cond(
        paddle.mean(hidden) > 0, lambda: paddle.matmul(hidden, weight), lambda: hidden * 0.5
    )


def _repeat(hidden: Any, weight: Any) -> Any:
    start = [paddle.full([1], 0, "int64"), paddle.assign(hidden)]
    return NN.while_loop(
        lambda i, h: i < 4, lambda i, h: [i + 1, paddle.tanh(paddle.matmul(h, weight))], start
    )[1]


def _repeat_what_was_chosen(hidden: Any, weight: Any) -> Any:
    return _repeat(_choose(hidden, weight), weight)


@pytest.mark.parametrize("body", [_choose, _repeat, _repeat_what_was_chosen])
@pytest.mark.parametrize("rule", [paddle.optimizer.SGD, paddle.optimizer.Adam])
def test_weights_follow_paddles(body: Any, rule: Any) -> None:
    both = pair(_program(body, rule(0.1)))
    for batch in BATCHES:
        cpu, ipu = both.step({"x": batch})
        assert distance(ipu["loss"], cpu["loss"]) <= 1e-5
    both.assert_equal_weights()


def test_a_gradient_stops_inside_a_block() -> None:
    def body(hidden: Any, weight: Any) -> Any:
        def turned() -> Any:
            still = paddle.matmul(hidden, weight)
            still.stop_gradient = True
            return still * hidden

        return NN.cond(paddle.mean(hidden) > 0, turned, lambda: hidden * 1.5)

    both = pair(_program(body))
    for batch in BATCHES[:2]:
        both.step({"x": batch})
    both.assert_equal_weights()


def test_branches_update_no_weight_they_do_not_read() -> None:
    both = pair(_program(_choose))
    both.step({"x": np.full((4, 3), 9.0, np.float32)})
    both.step({"x": np.full((4, 3), -9.0, np.float32)})
    both.assert_equal_weights()


def test_a_loop_of_unknown_length_has_no_gradient() -> None:
    def body(hidden: Any, weight: Any) -> Any:
        return NN.while_loop(
            lambda h: paddle.sum(paddle.abs(h)) < 50.0,
            lambda h: [paddle.matmul(h, weight) * 2.0],
            [paddle.assign(hidden)],
        )[0]

    message = refused(NotSupported, r"the number of iterations depends on values", _program(body))
    assert f"while at {__file__}:" in message
    assert "Count in the loop with a variable that starts at a constant" in message


def test_a_loop_of_unknown_length_trains_behind_a_stopped_gradient() -> None:
    def body(hidden: Any, weight: Any) -> Any:
        turned = NN.while_loop(
            lambda h: paddle.sum(paddle.abs(h)) < 50.0,
            lambda h: [h * 2.0 + 1.0],
            [paddle.assign(hidden).detach()],
        )[0]
        turned.stop_gradient = True
        return paddle.matmul(hidden, weight) * turned

    both = pair(_program(body))
    for batch in BATCHES[:2]:
        both.step({"x": batch})
    both.assert_equal_weights()


def test_running_statistics_in_a_block_are_refused() -> None:
    def body(hidden: Any, weight: Any) -> Any:
        return NN.cond(paddle.mean(hidden) > 0, lambda: NN.batch_norm(hidden), lambda: hidden * 1.0)

    refused(NotSupported, "updates its running statistics inside a block of if", _program(body))


def test_a_block_on_another_ipu_is_refused() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")

        def elsewhere() -> Any:
            with paddle.static.ipu_shard_guard(index=1):
                return paddle.exp(x)

        with paddle.static.ipu_shard_guard(index=0):
            out = NN.cond(paddle.mean(x) > 0, elsewhere, lambda: x * 1.0)
        with paddle.static.ipu_shard_guard(index=1):
            out = paddle.tanh(out)
        return ["x"], {"out": out}, None

    refused(
        InvalidProgramError,
        "exp at .* has ipu_index 1 inside a block of if",
        build(make),
        {"enable_manual_shard": True},
        is_training=False,
        num_ipus=2,
    )


def test_blocks_run_where_their_guard_is() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        with paddle.static.ipu_shard_guard(index=0):
            h = paddle.tanh(x)
        with paddle.static.ipu_shard_guard(index=1):
            out = NN.cond(paddle.mean(h) > 0, lambda: paddle.exp(h), lambda: h * 2.0)
        return ["x"], {"out": out}, None

    both = pair(build(make), {"enable_manual_shard": True}, is_training=False, num_ipus=2)
    for batch in BATCHES[:2]:
        cpu, ipu = both.step({"x": batch})
        assert distance(ipu["out"], cpu["out"]) <= 1e-6


def test_dropout_in_blocks_draws_anew_in_every_branch_and_turn() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [1, 4096], "float32")
        w = paddle.create_parameter([1], "float32")

        def turn(i: Any, kept: Any, last: Any) -> list[Any]:
            drawn = paddle.nn.functional.dropout(x * w, 0.5)
            return [i + 1, kept + drawn, drawn]

        zero = paddle.zeros([1, 4096])
        start = [paddle.full([1], 0, "int64"), zero + 0.0, zero * 1.0]
        _, kept, last = NN.while_loop(lambda i, kept, last: i < 2, turn, start)
        chosen = NN.cond(
            paddle.mean(x) > 0, lambda: paddle.nn.functional.dropout(x * w, 0.5), lambda: x * w
        )
        loss = paddle.mean(kept + chosen)
        paddle.optimizer.SGD(0.0).minimize(loss)
        return ["x"], {"kept": kept, "last": last, "chosen": chosen}, None

    built = build(make)
    both = pair(built, micro_batch_size=1)
    kept, last, chosen = both.on_ipu({"x": np.ones((1, 4096), np.float32)})
    first = kept - last
    draws = [(array != 0).reshape(-1) for array in (first, last, chosen)]
    for one in draws:
        assert abs(one.mean() - 0.5) < 0.05
    for left, right in ((0, 1), (0, 2), (1, 2)):
        assert abs((draws[left] & draws[right]).mean() - 0.25) < 0.05


def _written_by_a_block(x: Any) -> Any:
    y = x * 2.0

    def write() -> None:
        paddle.assign(x + 10.0, output=y)

    NN.cond(paddle.sum(x) > 0, write)
    return y


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_block_may_write_a_variable_around_it(sign: float) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2], "float32")
        y = _written_by_a_block(x)
        return ["x"], {"z": y + 1.0, "y": y}, None

    both = pair(build(make), is_training=False)
    cpu, ipu = both.step({"x": np.array([1, 2], np.float32) * sign})
    np.testing.assert_array_equal(ipu["z"], cpu["z"])
    np.testing.assert_array_equal(ipu["y"], cpu["y"])


def test_a_loop_may_count_in_place() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2], "float32")
        i = paddle.full([1], 0, "int64")

        def turn(i: Any, y: Any) -> list[Any]:
            return [paddle.increment(i), y * 2.0]

        i, y = NN.while_loop(lambda i, y: i < 3, turn, [i, paddle.assign(x)])
        return ["x"], {"y": y, "i": i + 1}, None

    got = pair(build(make), is_training=False).on_ipu({"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(got[0], [8, 16])
    np.testing.assert_array_equal(got[1], [4])

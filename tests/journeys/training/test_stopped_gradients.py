"""Gradients stop where the program stops them, and where Paddle's own derivatives do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from paddle.nn import functional

from tests.journeys.training.side_by_side import build, pair, rows

Loss = Callable[[Any, Any], Any]


def _stopped(value: Any) -> Any:
    value.stop_gradient = True
    return value


def _detached(hidden: Any, head: Any) -> Any:
    return paddle.mean(head * hidden.detach())


def _marked(hidden: Any, head: Any) -> Any:
    return paddle.mean(head * _stopped(hidden * 2.0))


def _marked_behind_a_scale(hidden: Any, head: Any) -> Any:
    return paddle.mean(head * _stopped(paddle.scale(hidden, 1.0)))


def _marked_part(hidden: Any, head: Any) -> Any:
    kept, stopped = paddle.split(hidden, 2, -1)
    return paddle.mean(kept * _stopped(stopped)) + paddle.mean(head)


def _marked_labels(hidden: Any, head: Any) -> Any:
    return functional.cross_entropy(head, _stopped(functional.softmax(hidden)), soft_label=True)


def _under_no_grad(hidden: Any, head: Any) -> Any:
    with paddle.no_grad():
        labels = functional.softmax(hidden)
    return functional.cross_entropy(head, labels, soft_label=True)


def _soft_labels(hidden: Any, head: Any) -> Any:
    return functional.cross_entropy(head, functional.softmax(hidden), soft_label=True)


def _labels_of_sigmoid_cross_entropy(hidden: Any, head: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(head, functional.sigmoid(hidden))


def _weight_of_lerp(hidden: Any, head: Any) -> Any:
    return paddle.mean(paddle.square(paddle.lerp(head, hidden, functional.sigmoid(hidden))))


@pytest.mark.parametrize(
    "loss_of",
    [
        _detached,
        _marked,
        _marked_behind_a_scale,
        pytest.param(
            _marked_part,
            marks=pytest.mark.skipif(
                paddle.__version__.startswith("3.0"),
                reason="Paddle 3.0's own backward fails where a part of a list is stopped",
            ),
        ),
        _marked_labels,
        _under_no_grad,
        _soft_labels,
        _labels_of_sigmoid_cross_entropy,
        _weight_of_lerp,
    ],
)
def test_gradients_stop_where_they_do_on_the_cpu(loss_of: Loss) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        hidden = paddle.tanh(paddle.nn.Linear(8, 6)(x))
        loss = loss_of(hidden, paddle.nn.Linear(6, 6)(hidden))
        paddle.optimizer.SGD(0.5).minimize(loss)
        return ["x"], {"loss": loss, "hidden": hidden}, None

    both = pair(build(make))
    for step in range(3):
        cpu, ipu = both.step({"x": rows(4, step)["x"]})
        np.testing.assert_allclose(ipu["hidden"], cpu["hidden"], rtol=1e-5, atol=1e-6)
    both.assert_equal_weights(1e-5)


@pytest.mark.parametrize("by_name", [False, True])
def test_gradients_stop_at_the_values_of_no_grad_set(by_name: bool) -> None:
    if by_name and not paddle.__version__.startswith("2."):
        pytest.skip("Paddle 3 takes values only")

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 8], "float32")
        hidden = paddle.tanh(paddle.nn.Linear(8, 6)(x))
        doubled = hidden * 2.0
        loss = paddle.mean(paddle.nn.Linear(6, 6)(hidden)) + paddle.mean(doubled * doubled)
        stopped = {doubled.name if by_name else doubled}
        paddle.optimizer.SGD(0.5).minimize(loss, no_grad_set=stopped)
        return ["x"], {"loss": loss}, None

    both = pair(build(make))
    for step in range(3):
        both.step({"x": rows(4, step)["x"]})
    both.assert_equal_weights(1e-5)

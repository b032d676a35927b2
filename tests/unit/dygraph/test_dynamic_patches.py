"""Strategies made in dynamic mode patch Paddle once, however many there are."""

from __future__ import annotations

import paddle
import pytest

import paddle_ipu


def test_a_scheduler_steps_after_many_strategies() -> None:
    paddle_ipu.activate()
    assert paddle.in_dynamic_mode()
    strategies = [paddle.static.IpuStrategy() for _ in range(1100)]
    scheduler = paddle.optimizer.lr.StepDecay(0.5, step_size=1, gamma=0.5)
    scheduler.step()
    assert scheduler.get_lr() == pytest.approx(0.25)
    assert strategies[-1].get_option("lr") == pytest.approx(0.25)
    strategies[-1].release_patch()
    assert paddle.optimizer.lr.LRScheduler.step.__name__ == "step"

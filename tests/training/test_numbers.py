"""Training on the IPU gives the numbers of Paddle's CPU executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

from tests.training import tiny_bert
from tests.training.side_by_side import pair

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: paddle.optimizer.SGD(0.05),
    "adam": lambda: paddle.optimizer.Adam(1e-3),
    "lamb": lambda: paddle.optimizer.Lamb(5e-3, lamb_weight_decay=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_of_tiny_bert_equal_paddles(name: str) -> None:
    bert = tiny_bert.pretraining(OPTIMIZERS[name])
    both = pair(bert.built)
    losses = []
    for step in range(50):
        cpu, ipu = both.step(tiny_bert.sentences(step))
        for value, expected in cpu.items():
            assert ipu[value].shape == expected.shape
            assert ipu[value].dtype == expected.dtype
        for value in ("loss", "mlm", "nsp"):
            np.testing.assert_allclose(ipu[value], cpu[value], rtol=1e-5, err_msg=f"step {step}")
        losses.append(float(cpu["loss"]))
    # A run that stands still would agree with anything.
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    both.assert_equal_weights(1e-4, except_for=bert.key_biases)

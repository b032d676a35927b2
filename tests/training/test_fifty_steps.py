"""Tiny BERT's pretraining by other optimizers than the one of ``test_numbers``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import pytest

from tests.training.tiny_bert import assert_fifty_steps_equal_paddles

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: paddle.optimizer.SGD(0.1),
    "adam": lambda: paddle.optimizer.Adam(2e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_of_tiny_bert_equal_paddles(name: str) -> None:
    assert_fifty_steps_equal_paddles(OPTIMIZERS[name])

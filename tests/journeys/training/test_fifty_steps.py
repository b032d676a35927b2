"""Tiny BERT's pretraining by other optimizers than the one of ``test_numbers``."""

from __future__ import annotations

import pytest

from tests.journeys.training.tiny_bert import assert_fifty_steps_equal_paddles


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_fifty_steps_of_tiny_bert_equal_paddles(optimizer: str) -> None:
    assert_fifty_steps_equal_paddles(optimizer)

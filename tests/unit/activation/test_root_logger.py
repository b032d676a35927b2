"""What Paddle's import leaves on Python's root logger."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from paddle.distributed.utils.log_utils import get_logger

import paddle_ipu
from paddle_ipu.activation import root_logger


@pytest.fixture
def theirs() -> Iterator[logging.Handler]:
    """A handler as Paddle makes them, on the root logger."""
    root = logging.getLogger()
    handler = get_logger(logging.WARNING, name="paddle_ipu.test").handlers[0]
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


def test_paddles_handler_is_taken_and_put_back(theirs: logging.Handler) -> None:
    """Where another handler is on the root logger, ``logging.basicConfig`` does nothing."""
    root = logging.getLogger()
    root_logger.release()
    assert theirs not in root.handlers
    root_logger.restore()
    assert theirs in root.handlers


def test_a_handler_of_the_user_stays() -> None:
    root, mine = logging.getLogger(), logging.StreamHandler()
    mine.setFormatter(logging.Formatter("%(message)s"))
    root.addHandler(mine)
    try:
        root_logger.release()
        assert mine in root.handlers
    finally:
        root.removeHandler(mine)


def test_activation_takes_it_and_deactivation_puts_it_back(theirs: logging.Handler) -> None:
    root = logging.getLogger()
    paddle_ipu.deactivate()
    try:
        assert theirs in root.handlers
        paddle_ipu.activate()
        assert theirs not in root.handlers
        paddle_ipu.deactivate()
        assert theirs in root.handlers
    finally:
        paddle_ipu.activate()

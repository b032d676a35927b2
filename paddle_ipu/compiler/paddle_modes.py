"""Blocks in Paddle's static or dynamic mode, whichever mode is on around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def static_mode() -> Iterator[None]:
    """A block in static mode."""
    import paddle

    was_dynamic = paddle.in_dynamic_mode()
    paddle.enable_static()
    try:
        yield
    finally:
        if was_dynamic:
            paddle.disable_static()


@contextmanager
def dynamic_mode() -> Iterator[None]:
    """A block in dynamic mode."""
    import paddle

    was_static = not paddle.in_dynamic_mode()
    if was_static:
        paddle.disable_static()
    try:
        yield
    finally:
        if was_static:
            paddle.enable_static()

"""Signals that end a run in good order: SIGINT and SIGTERM become an exception."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptedRunError(BaseException):
    """A signal asked the run to end; like KeyboardInterrupt, no Exception."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block the first signal raises :class:`InterruptedRunError`.

    A second one acts as without the block: what is being cleaned up is abandoned.
    """
    # None stands for a handler in C, such as Paddle's, which Python cannot put back.
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        raise InterruptedRunError(number)

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

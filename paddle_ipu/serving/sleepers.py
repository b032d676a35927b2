"""Threads that wait for answers, and are woken one after the other.

Woken all at once they would wake up to wait for the interpreter, each a second time, and keep the
processors from the model. So each wakes the next one as soon as it is awake itself. One that does
something else, a signal's handler for instance, holds those behind it up for a moment only.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import pairwise
from time import monotonic

_SLOW = 0.001
"""Seconds that no thread takes to wake up, unless others keep the interpreter from it."""

_PATIENCE = 0.1
"""Seconds after which a thread looks whether it is to wake up, though nobody woke it."""


class Sleeper:
    """A thread that waits.

    Attributes:
        is_awake: it was woken and went on, or was woken when it had gone.
        is_gone: it waits no more, though nobody woke it.
        is_due: it is to wake up after another one.
    """

    __slots__ = ("_following", "_lock", "_woken", "is_awake", "is_due", "is_gone")

    def __init__(self) -> None:
        # A bare lock costs a fraction of an Event.
        self._lock = threading.Lock()
        self._lock.acquire()
        self.is_awake = self.is_due = self.is_gone = False
        self._woken = math.inf
        self._following: Sleeper | None = None

    def sleep(self, seconds: float) -> bool:
        """Until woken; False where that took too long, which it never does below 0 seconds."""
        if seconds < 0:
            until, left = math.inf, _PATIENCE
        else:
            until, left = monotonic() + seconds, min(seconds, _PATIENCE)
        try:
            while not self._lock.acquire(timeout=left):
                left = min(until - monotonic(), _PATIENCE)
                if left <= 0:
                    self._leave()
                    return False
                if self.is_due:
                    break
            self._hand_on()
        except BaseException:
            self._leave()
            raise
        return True

    def wake(self) -> None:
        """Wakes the thread; more than once does no harm."""
        self._woken = monotonic()
        try:
            self._lock.release()
        except RuntimeError:
            return
        if self.is_gone:
            self._hand_on()

    def then(self, following: Sleeper) -> None:
        """Has the thread wake another one; where it is awake already, that is woken now."""
        following.is_due = True
        self._following = following
        if self.is_awake:
            following.wake()

    def _hand_on(self) -> None:
        self.is_awake = True
        following = self._following
        if following is None:
            return
        following.wake()
        if monotonic() - self._woken > _SLOW:
            # Where threads have to wait for the interpreter, they had better wait together.
            after = following._following
            while after is not None:
                after.wake()
                after = after._following
        self._following = None

    def _leave(self) -> None:
        self.is_gone = True
        if self._woken < math.inf:
            self._hand_on()


class Sleepers:
    """The threads that wait for the answers of one runner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Sequence[Sleeper] = ()

    def wake(self, sleepers: Sequence[Sleeper]) -> None:
        """Has threads woken in turn, after those of the call before."""
        if not sleepers:
            return
        for one, following in pairwise(sleepers):
            one.then(following)
        with self._lock:
            before, self._last = self._last, sleepers
        if before:
            before[-1].then(sleepers[0])
        else:
            sleepers[0].wake()

    def are_left(self, count: int) -> bool:
        """Whether at least so many of the last ones, and one at all, are still to wake up."""
        count = max(count, 1)
        # Another thread may have others wake up meanwhile.
        last = self._last
        return count <= len(last) and not last[-count].is_awake

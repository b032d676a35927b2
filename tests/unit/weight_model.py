"""What weights are after interrupted steps: a model of three lines, and the interrupts.

A trainer's step is ``v += x; w -= v`` in whole numbers: the model's numbers are the device's to the
last bit.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from paddle_ipu.runtime import scope as scopes
from paddle_ipu.sessions.extensions import SessionExtensions
from paddle_ipu.sessions.weights import SessionWeights

Row = tuple[float, ...]


class Values(NamedTuple):
    """What the variables of a Scope are."""

    weight: Row
    velocity: Row

    def trained(self, x: Row) -> Values:
        velocity = tuple(v + each for v, each in zip(self.velocity, x, strict=True))
        return Values(_less(self.weight, velocity), velocity)

    def moved(self, x: Row) -> Values:
        return self._replace(weight=_less(self.weight, x))


def _less(weight: Row, change: Row) -> Row:
    return tuple(w - each for w, each in zip(weight, change, strict=True))


class Interrupted(BaseException):
    """What a signal's handler raises."""


_SEAMS = (
    (scopes, "write"),
    (SessionWeights, "writeWeights"),
    (SessionWeights, "readWeights"),
    (SessionWeights, "weightsFromHost"),
    (SessionWeights, "weightsToHost"),
    (SessionExtensions, "runArrays"),
)
"""Where a signal may arrive: before and after each call of these."""


def _is_finalizing() -> bool:
    """Whether Python drops an object, and would ignore what is raised."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """Has ``gc.collect`` look at what is made in the block alone, which it does often."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def interrupt(moment: int) -> Iterator[None]:
    """Has a signal arrive at a moment, counted over the calls of all seams.

    Its handler raises :class:`Interrupted`.
    """
    left = [moment]

    def handle(*_: object) -> None:
        raise Interrupted

    def passed() -> None:
        if _is_finalizing():
            return
        left[0] -= 1
        if left[0] == -1:
            signal.raise_signal(signal.SIGINT)

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **keywords: Any) -> Any:
            passed()
            result = call(*args, **keywords)
            passed()
            return result

        return act

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _SEAMS:
            patch.setattr(owner, name, watched(getattr(owner, name)))
        handler = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def maybe_interrupted(moment: int | None) -> Iterator[list[bool]]:
    """Interrupts at a moment, where there is one; tells whether it did."""
    told = [False]
    if moment is None:
        yield told
        return
    told[0] = True
    try:
        with interrupt(moment):
            yield told
    except Interrupted:
        return
    except OSError as error:
        # What Paddle makes of an exception in a backward.
        if Interrupted.__name__ not in str(error):
            raise
        return
    told[0] = False


def try_orders(machine: type[RuleBasedStateMachine], examples: int) -> None:
    """Tries so many orders of a machine's rules; ``WEIGHT_STATES=20000`` tries as many."""
    with only_new_garbage():
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=int(os.environ.get("WEIGHT_STATES", examples)),
                stateful_step_count=25,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )

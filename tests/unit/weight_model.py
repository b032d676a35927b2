"""What weights are after interrupted steps: a model of three lines, interrupts and failures.

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

import paddle
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from paddle import nn

from paddle_ipu.runtime import scope as scopes
from paddle_ipu.sessions.runs import SessionRuns
from paddle_ipu.sessions.weights import SessionWeights
from paddle_ipu.xla.step.executable import Executable

WIDTH = 2
"""Numbers in a weight."""

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


class Weighted(nn.Layer):  # type: ignore[misc]
    """The sum of its inputs, weighted."""

    def __init__(self) -> None:
        super().__init__()
        zero = nn.initializer.Constant(0.0)
        self.weight = self.create_parameter([WIDTH], default_initializer=zero)

    def forward(self, x: Any) -> Any:
        return paddle.sum(x * self.weight)


class Interrupted(BaseException):
    """What a signal's handler raises."""


class CallError(Exception):
    """What a call raises that fails."""


class Moment(NamedTuple):
    """When something comes between, counted over the calls of all seams.

    Attributes:
        calls: starts and ends of calls before it.
        fails: whether a call fails, instead of a signal that arrives.
    """

    calls: int
    fails: bool = False


_SEAMS = (
    (scopes, "write"),
    (SessionWeights, "writeWeights"),
    (SessionWeights, "readWeights"),
    (SessionWeights, "weightsFromHost"),
    (SessionWeights, "weightsToHost"),
    (SessionRuns, "runArrays"),
)
"""Where a signal may arrive, or a failure: before and after each call of these."""


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
def interrupt(moment: Moment) -> Iterator[None]:
    """Raises :class:`Interrupted` from a signal's handler, or :class:`CallError` from a call."""
    left = [moment.calls]

    def handle(*_: object) -> None:
        raise Interrupted

    def passed() -> None:
        if _is_finalizing():
            return
        left[0] -= 1
        if left[0] != -1:
            return
        if moment.fails:
            raise CallError
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
def maybe_interrupted(moment: Moment | None) -> Iterator[list[bool]]:
    """Interrupts at a moment, if there is one; gives a list of whether it did."""
    told = [False]
    if moment is None:
        yield told
        return
    told[0] = True
    try:
        with interrupt(moment):
            yield told
    except (Interrupted, CallError):
        return
    except OSError as error:
        # What Paddle makes of an exception in a backward.
        if Interrupted.__name__ not in str(error):
            raise
        return
    told[0] = False


@contextmanager
def weights_lost() -> Iterator[None]:
    """A run in the block takes the device's weights with it, and raises."""
    run = Executable._run

    def lose(self: Executable, *arguments: Any) -> Any:
        run(self, *arguments)
        for array in self.weights.values():
            array.delete()
        raise RuntimeError("out of memory")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="out of memory"):
        patch.setattr(Executable, "_run", lose)
        yield


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

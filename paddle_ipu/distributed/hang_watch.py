"""Which instance hangs: ``poprun`` asks each host how far its instances are.

Instances wait for one another in every run, so that one that hangs stops all of them. It is the one
that has begun fewer runs than those that wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from paddle_ipu.distributed import cleaner

Beats = Mapping[int, tuple[int, str, float]]
"""As `cleaner.beats` gives them."""

_SILENCE = 240.0
"""Seconds that a host has for an answer; its connection is lost before, where there is none."""
_GAP = 5.0
"""Seconds between two looks after which ``poprun`` was stopped; so may all instances have been, for
instance by ``scontrol suspend``."""
_NONE = (0, "", 0.0)


class Source(Protocol):
    """A host that says how far its instances are."""

    @property
    def host(self) -> str:
        """Its name."""

    def ask(self) -> None:
        """Asks it; not again before it has answered."""

    def answer(self) -> Beats | None:
        """What it said to that; None as long as it has not."""


@dataclass(frozen=True, slots=True)
class ThisHost:
    """The host of ``poprun``, which answers at once.

    Attributes:
        folder: where its instances count.
    """

    folder: Path
    host: str = "localhost"

    def ask(self) -> None:
        """Does nothing: the answer is read at once."""

    def answer(self) -> Beats:
        """The counts of its instances."""
        return cleaner.beats(self.folder)


@dataclass(frozen=True, slots=True)
class Hang:
    """Instances that went no further.

    Attributes:
        instances: those that have begun fewer runs than others; where none is behind, those that
            are stopped, or the one that computes while the others wait; empty where none differs.
        text: what there is to say.
    """

    instances: tuple[int, ...]
    text: str


@dataclass(slots=True)
class _SourceState:
    """What is known of one source.

    Attributes:
        answered: when it was asked what it answered last.
        pending: when it was asked what it has not answered; None where it has answered.
        beats: its last answer.
    """

    source: Source
    answered: float
    pending: float | None = None
    beats: Beats = field(default_factory=dict)


class Watch:
    """Watches the instances of all hosts.

    All times are of ``poprun``'s own clock: an answer is about some time after its question.

    Args:
        sources: the hosts.
        hosts: the host of each instance, "" where all are on this one.
        patience: seconds in which some instance must begin something.
        clock: gives seconds.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        hosts: Sequence[str],
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts, self._patience, self._clock = hosts, patience, clock
        self._progressed = self._polled = clock()
        self._states = [_SourceState(source, self._progressed) for source in sources]
        self._counts = (0,) * len(hosts)
        self._processor_seconds: list[float] = []

    def hang(self) -> Hang | None:
        """A hang, None as long as some instance goes on. Call it every second or more often."""
        self._poll()
        now = self._clock()
        stopped, self._polled = now - self._polled > _GAP, now
        beats = {number: b for state in self._states for number, b in state.beats.items()}
        latest = [beats.get(number, _NONE) for number in range(len(self._hosts))]
        counts = tuple(count for count, _, _ in latest)
        if counts != self._counts or not self._processor_seconds or stopped:
            self._counts, self._progressed = counts, now
            self._processor_seconds = [seconds for _, _, seconds in latest]
        elapsed = now - self._progressed
        if elapsed < self._patience:
            return None
        silent = [
            state.source.host
            for state in self._states
            if state.answered - self._progressed < self._patience
        ]
        if silent:
            if elapsed < self._patience + _SILENCE:
                return None
            return Hang((), f"{', '.join(silent)} did not say for {elapsed:.0f} s how far its "
                            "instances are, and no other has begun a run meanwhile")  # fmt: skip
        return self._diagnosis([(state, seconds) for _, state, seconds in latest])

    def _poll(self) -> None:
        """Reads the answers, and asks each source that has answered again."""
        for state in self._states:
            if state.pending is None:
                state.pending = self._clock()
                state.source.ask()
            answer = state.source.answer()
            if answer is not None:
                state.beats, state.answered, state.pending = answer, state.pending, None

    def _diagnosis(self, processes: Sequence[tuple[str, float]]) -> Hang:
        """The hang when no instance has begun a run.

        Args:
            processes: (state of the process, seconds of processors used) of each instance.
        """
        instances = range(len(self._counts))
        fewest, most = min(self._counts), max(self._counts)
        text = f"no instance has begun a run for {self._patience:.0f} s"
        if fewest < most:
            behind = tuple(number for number in instances if self._counts[number] == fewest)
            return Hang(
                behind,
                f"{self._names(behind)}: {text}; begun there are {fewest}, elsewhere up to {most}",
            )
        each = f"each has begun {fewest}"
        stopped = tuple(number for number in instances if processes[number][0] in ("T", "t"))
        if stopped:
            return Hang(
                stopped, f"{self._names(stopped)}: {text}, {each}, and there the process is stopped"
            )
        used = [
            now - before
            for (_, now), before in zip(processes, self._processor_seconds, strict=True)
        ]
        busy = tuple(number for number in instances if used[number] > self._patience / 2)
        if len(busy) == 1:
            return Hang(
                busy, f"{self._names(busy)}: {text}, {each}, and it computes while others wait"
            )
        return Hang((), f"{text}, and none is behind the others: {each}")

    def _names(self, instances: tuple[int, ...]) -> str:
        named = ", ".join(
            f"{number} on {host}" if (host := self._hosts[number]) else f"{number}"
            for number in instances
        )
        return f"instance {named} hangs" if len(instances) == 1 else f"instances {named} hang"

"""Runs of a step, recorded: which of XLA's instructions the time of each run went to.

JAX's profiler writes down when each instruction of a program began and ended, on every thread. A
moment in which several of them work is shared equally between them; one in which none does, while
the step runs, is XLA's own; the rest of a run is the host's. So the parts of a run sum to its time.
"""

from __future__ import annotations

import tempfile
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax

from paddle_ipu.errors import MeasurementError
from paddle_ipu.xla.lowerings.scope_names import NOWHERE, Origin
from paddle_ipu.xla.step.hlo_origins import Kind, Share, origins

_RUN = "paddle_ipu.run"
_END = "end: "
_NANOSECOND = 1e-9
_KEPT = 20_000
"""Instructions that stay known one by one: as a trace some 6 MB."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An instruction at work, in nanoseconds; the name of its XLA module tells programs apart."""

    name: str
    module: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run with each instruction that worked in it.

    Attributes:
        number: from 1.
        start, end: in nanoseconds.
        work: by start, with whose time it is; within the run.
        left_out: instructions at the end of the run that are not in `work`.
    """

    number: int
    start: float
    end: float
    work: Sequence[tuple[Interval, Sequence[Share]]]
    left_out: int


@dataclass(slots=True)
class Recording:
    """What was recorded; it is there once the recording has ended.

    Attributes:
        seconds: of each run.
        host: seconds of all runs in which XLA had not begun or had ended.
        idle: seconds of all runs between XLA's first and last instruction in which none worked.
        parts: seconds of all runs, by what they are of.
        kept: the last runs, as many as have few enough instructions.
    """

    seconds: list[float] = field(default_factory=list)
    host: float = 0.0
    idle: float = 0.0
    parts: dict[tuple[Kind, Origin], float] = field(default_factory=dict)
    kept: list[RecordedRun] = field(default_factory=list)

    def run(self) -> AbstractContextManager[Any]:
        """What a run happens in."""
        return jax.profiler.TraceAnnotation(_RUN)

    def add(
        self,
        runs: Sequence[tuple[float, float]],
        intervals: Sequence[Interval],
        shares: Mapping[str, Mapping[str, Sequence[Share]]],
    ) -> None:
        """Adds the time of runs up.

        Args:
            runs: start and end of each, in nanoseconds.
            intervals: the instructions at work, of these and other programs.
            shares: what each instruction of the runs' programs is of, by program and name.
        """
        own = sorted(
            (item for item in intervals if item.module in shares), key=lambda item: item.start
        )
        starts = [item.start for item in own]
        longest = max((item.end - item.start for item in own), default=0.0)
        for number, (start, end) in enumerate(runs, 1):
            near = own[bisect_left(starts, start - longest) : bisect_left(starts, end)]
            inside = [item for item in near if item.end > start]
            self.seconds.append((end - start) * _NANOSECOND)
            working = [item for item in inside if not _is_container(shares, item)]
            self._keep(number, start, end, working, shares)
            if not inside:
                self.host += (end - start) * _NANOSECOND
                continue
            first = max(start, min(item.start for item in inside))
            last = min(end, max(item.end for item in inside))
            self.host += (end - start - (last - first)) * _NANOSECOND
            times, idle = shared_out(working, first, last)
            self.idle += idle * _NANOSECOND
            for (module, name), time in times.items():
                for share in shares[module].get(name, _UNKNOWN):
                    key = share.kind, share.origin
                    seconds = time * share.part * _NANOSECOND
                    self.parts[key] = self.parts.get(key, 0.0) + seconds

    def _keep(
        self,
        number: int,
        start: float,
        end: float,
        working: Sequence[Interval],
        shares: Mapping[str, Mapping[str, Sequence[Share]]],
    ) -> None:
        work = [
            (
                replace(item, start=max(start, item.start), end=min(end, item.end)),
                shares[item.module].get(item.name, _UNKNOWN),
            )
            for item in working[:_KEPT]
        ]
        self.kept.append(RecordedRun(number, start, end, work, len(working) - len(work)))
        while len(self.kept) > 1 and sum(len(run.work) for run in self.kept) > _KEPT:
            del self.kept[0]


@contextmanager
def recording(texts: Callable[[], Sequence[str]]) -> Iterator[Recording]:
    """Records the runs that happen inside, each within :meth:`Recording.run`.

    Args:
        texts: gives the compiled programs of the runs as text, once they ran.

    Raises:
        MeasurementError: JAX's profiler runs already, or recorded no run.
    """
    measured = Recording()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory(prefix="paddle_ipu-trace-") as folder:
        try:
            jax.profiler.start_trace(folder, profiler_options=options)
        except RuntimeError as error:
            raise MeasurementError(
                f"runs cannot be measured while JAX's profiler is on: {error}. One measurement, or "
                "one jax.profiler trace, at a time."
            ) from error
        try:
            yield measured
        finally:
            jax.profiler.stop_trace()  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            # jaxlib makes classes without a module when they are first read. Python 3.12 and later
            # warn of that, and jaxlib ends the process where the warning is an error.
            warnings.simplefilter("ignore", DeprecationWarning)
            runs, intervals = _read(Path(folder))
    if not runs:
        raise MeasurementError(
            "no run was measured: call Executor.run with the compiled program inside the `with`."
        )
    shares = dict(map(origins, texts()))
    measured.add(runs, intervals, shares)


def _read(folder: Path) -> tuple[list[tuple[float, float]], list[Interval]]:
    """(start and end of each run, the instructions at work) of a trace's files."""
    runs: list[tuple[float, float]] = []
    begun: list[tuple[str, str, float, float, Any]] = []
    ended: dict[Any, float] = {}
    for path in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            for line in plane.lines:
                for event in line.events:
                    name, start, end = event.name, event.start_ns, event.end_ns
                    if name == _RUN:
                        runs.append((start, end))
                        continue
                    stats = dict(event.stats)
                    if name.startswith(_END) and "_c" in stats:
                        ended[stats["_c"]] = end
                    elif "hlo_op" in stats:
                        module = str(stats.get("hlo_module", ""))
                        begun.append((str(stats["hlo_op"]), module, start, end, stats.get("_p")))
    intervals = [
        # A parallel instruction hands its work on at once, and ends when the last part has.
        Interval(name, module, start, max(end, ended.get(number, end)))
        for name, module, start, end, number in begun
    ]
    return sorted(runs), intervals


_UNKNOWN = (Share("operator", NOWHERE, 1.0),)


def _is_container(shares: Mapping[str, Mapping[str, Sequence[Share]]], item: Interval) -> bool:
    known = shares[item.module].get(item.name, _UNKNOWN)
    return known[0].kind == "container"


def shared_out(
    intervals: Sequence[Interval], first: float, last: float
) -> tuple[dict[tuple[str, str], float], float]:
    """(time by module and instruction, time of none) from `first` to `last`.

    Where several work at a time, each has an equal share of it.
    """
    borders = [(max(first, item.start), 1, item) for item in intervals]
    borders += [(min(last, item.end), -1, item) for item in intervals]
    # An instruction ends before the next one begins.
    borders.sort(key=lambda border: (border[0], border[1]))
    times: dict[tuple[str, str], float] = {}
    working: dict[tuple[str, str], int] = {}
    count, before, idle = 0, first, 0.0
    for moment, change, item in borders:
        passed = moment - before
        if passed > 0:
            if count:
                for key, number in working.items():
                    times[key] = times.get(key, 0.0) + passed * number / count
            else:
                idle += passed
            before = moment
        key = item.module, item.name
        working[key] = working.get(key, 0) + change
        if not working[key]:
            del working[key]
        count += change
    return times, idle + max(0.0, last - before)

"""Measured runs as a trace, beside a predicted one or alone.

This machine is a process of its own. One thread has the runs. XLA's instructions stand below, each
under the operator that it is of; those that work at the same time are on threads beside each other.
These are no threads of the machine: an instruction may work on several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paddle_ipu.cost_model.report.trace_event import Event, complete_event, process_events


@dataclass(frozen=True, slots=True)
class MeasuredInstruction:
    """An instruction of XLA's at work in a measured run.

    Attributes:
        start, end: nanoseconds since the first run of the trace.
        name: of the operator that it is of, or that most of its time is of, and its phase; the
            family where it is of none.
        family: what the measurement counts that time as.
        instruction: XLA's name.
        operator: Paddle's, "" where that is not known.
        source: ``file:line`` of the user's call; "" where it is not known.
        layer: the path of the layer; "" for none.
        shares: name -> part of its time, where it is of several operators.
    """

    start: int
    end: int
    name: str
    family: str
    instruction: str
    operator: str = ""
    source: str = ""
    layer: str = ""
    shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A measured run.

    Attributes:
        number: from 1.
        start, end: nanoseconds since the first run of the trace.
        left_out: instructions at its end that the trace has not.
    """

    number: int
    start: int
    end: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredTrace:
    """What this machine did in some of the measured runs.

    Attributes:
        machine: what it was measured on.
        instructions: of these runs, by start.
    """

    machine: str
    runs: Sequence[MeasuredRun]
    instructions: Sequence[MeasuredInstruction]


def measured_events(trace: MeasuredTrace, process: int) -> list[Event]:
    """The events of a measured trace.

    Args:
        process: the number that this machine gets.
    """
    # The thread of the process's own number is its main one, which Perfetto shows first.
    of_runs, of_instructions = process, process + 1
    free: list[int] = []
    events: list[Event] = []
    for work in trace.instructions:
        lane = next((n for n, end in enumerate(free) if end <= work.start), len(free))
        free[lane : lane + 1] = [work.end]
        arguments: dict[str, Any] = {
            "instruction": work.instruction,
            "operator": work.operator,
            "source": work.source,
            "layer": work.layer,
        }
        if work.shares:
            arguments["shares"] = {name: round(part, 3) for name, part in work.shares}
        events.append(
            complete_event(
                work.name,
                work.family,
                process,
                of_instructions + lane,
                work.start,
                work.end,
                arguments,
            )  # fmt: skip
        )
    threads = {of_runs: "runs"}
    for lane in range(len(free)):
        threads[of_instructions + lane] = "at the same time" if lane else "instructions of XLA"
    return [
        *process_events(process, "this machine (measured)", threads),
        *(
            complete_event(
                f"run {run.number}",
                "run",
                process,
                of_runs,
                run.start,
                run.end,
                {"instructions_left_out": run.left_out} if run.left_out else {},
            )  # fmt: skip
            for run in trace.runs
        ),
        *events,
    ]


def measured_trace_as_json(trace: MeasuredTrace) -> dict[str, Any]:
    """A trace of measured runs alone."""
    return {
        "displayTimeUnit": "ms",
        "otherData": {"measured": trace.machine, "writer": "paddle_ipu"},
        "traceEvents": measured_events(trace, 1),
    }

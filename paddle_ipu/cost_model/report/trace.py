"""A prediction as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Times are predicted device time. Each IPU is a process with two threads: what it does for which
micro-batch, and the operators of one micro-batch in each direction. Process n is IPU n - 1, since
viewers take process 0 for an idle system. Where runs were measured, this machine is the last
process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paddle_ipu.cost_model.cycles import OperatorTime
from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.cost_model.report.measured_trace import MeasuredTrace, measured_events
from paddle_ipu.cost_model.report.timeline import Block, Timeline, Work
from paddle_ipu.cost_model.report.trace_event import Event, complete_event, process_events

_STAGES, _OPERATORS = 1, 2
_NANOSECONDS = 1e9


def trace_as_json(
    prediction: Prediction,
    timeline: Timeline,
    operators: list[OperatorTime],
    measured: MeasuredTrace | None = None,
) -> dict[str, Any]:
    """The trace; operators stand in the first block that has most of the stages active."""
    machine = prediction.machine
    writer = _Writer(machine.processor.clock)
    here = (
        []
        if measured is None
        else measured_events(measured, max(_ipus(prediction), default=-1) + 2)
    )
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "predicted": True,
            "machine": machine.name,
            "clock": machine.processor.clock,
            **({} if measured is None else {"measured": measured.machine}),
            "writer": "paddle_ipu",
        },
        "traceEvents": [
            *writer.names(prediction),
            *writer.blocks(timeline, prediction),
            *writer.operators(_fullest(timeline), prediction, operators),
            *here,
        ],
    }


def _ipus(prediction: Prediction) -> list[int]:
    return sorted({stage.ipu for stage in prediction.cycles.stages})


def _fullest(timeline: Timeline) -> Block:
    return max(timeline.blocks, key=lambda block: len(block.works))


class _Writer:
    def __init__(self, clock: float) -> None:
        self._unit = _NANOSECONDS / clock

    def _time(self, cycles: float) -> int:
        """Nanoseconds."""
        return round(cycles * self._unit)

    def names(self, prediction: Prediction) -> Iterator[Event]:
        threads = {_STAGES: "micro-batches", _OPERATORS: "operators of a micro-batch"}
        for ipu in _ipus(prediction):
            yield from process_events(ipu + 1, f"IPU {ipu} (predicted)", threads)

    def event(
        self, name: str, category: str, ipu: int, thread: int, start: float, cycles: float,
        **arguments: Any,
    ) -> Event:  # fmt: skip
        return complete_event(
            name, category, ipu + 1, thread, self._time(start), self._time(start + cycles),
            {"cycles": round(cycles), **arguments},
        )  # fmt: skip

    def blocks(self, timeline: Timeline, prediction: Prediction) -> Iterator[Event]:
        ipus = _ipus(prediction)
        for block in timeline.blocks:
            for work in block.works:
                yield self.event(
                    f"{work.kind} {work.micro_batch}", work.kind, work.ipu, _STAGES, work.start,
                    work.cycles, stage=work.stage, micro_batch=work.micro_batch, phase=block.phase,
                )  # fmt: skip
            if block.repeats > 1:
                for ipu in ipus:
                    yield self.event(
                        f"{block.repeats} more like these", block.phase, ipu, _STAGES,
                        block.start, block.cycles, repeats=block.repeats,
                    )  # fmt: skip
        for name, start, cycles in timeline.update:
            for ipu in ipus:
                yield self.event(name, "weight update", ipu, _STAGES, start, cycles)

    def operators(
        self, block: Block, prediction: Prediction, operators: list[OperatorTime]
    ) -> Iterator[Event]:
        by_stage: dict[int, list[OperatorTime]] = {}
        for time in operators:
            by_stage.setdefault(time.stage, []).append(time)
        stages = {stage.stage: stage for stage in prediction.cycles.stages}
        alive = {
            (ipu.ipu, step.label, step.phase): step.bytes
            for ipu in prediction.memory.ipus
            for step in ipu.steps
        }
        for work in block.works:
            times = by_stage.get(work.stage, [])
            at = work.start
            if work.kind == "forward":
                stream = stages[work.stage].stream
                if stream:
                    yield self._operator("host", "stream", work, at, stream, {})
                    at += stream
                parts = [(time, "forward", time.forward) for time in times]
            else:
                again = [(t, "recompute", t.recompute) for t in times if t.recompute.cycles]
                back = [(time, "backward", time.backward) for time in reversed(times)]
                parts = [*again, *back]
            for time, phase, cost in parts:
                if not cost.cycles:
                    continue
                operator = time.operator
                yield self._operator(
                    operator.op_type, phase, work, at, cost.cycles,
                    {
                        "node": operator.name,
                        "source": operator.origin.source,
                        "layer": operator.origin.layer,
                        "compute": round(cost.compute),
                        "exchange": round(cost.exchange),
                        "sync": round(cost.sync),
                        "flops": cost.flops,
                        "bytes": cost.bytes,
                    },
                )  # fmt: skip
                size = alive.get((work.ipu, operator.name, phase))
                if size is not None:
                    yield {
                        "name": "memory",
                        "ph": "C",
                        "pid": work.ipu + 1,
                        "ts": self._time(at) / 1e3,
                        "args": {"bytes": size},
                    }
                at += cost.cycles

    def _operator(
        self, name: str, phase: str, work: Work, at: float, cycles: float, more: dict[str, Any]
    ) -> Event:
        return self.event(
            f"{name} ({phase})", phase, work.ipu, _OPERATORS, at, cycles,
            stage=work.stage, micro_batch=work.micro_batch, **more,
        )  # fmt: skip

"""Everything that a report tells, worked out once for all its forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddle_ipu.cost_model.advice import Advice, advise
from paddle_ipu.cost_model.cycles import OperatorTime, operator_times
from paddle_ipu.cost_model.insights import Insight, speed_insights
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.queueing import Serving, serving
from paddle_ipu.cost_model.report.measured_trace import MeasuredTrace
from paddle_ipu.cost_model.report.timeline import Timeline, timeline
from paddle_ipu.cost_model.uncertainty import Interval, rate_interval


@dataclass(frozen=True)
class Report:
    """A prediction with what follows from it.

    Attributes:
        name: what the program is called, a script or a model.
        advice: what would save memory; empty where the program fits.
        insights: what would make it faster.
        interval: how far the predicted rate may be off.
        measured: what was measured on this machine, None where nothing was. It is never mixed with
            what is predicted.
        measured_trace: what this machine did meanwhile, None where nothing was measured.
        serving: what requests at a rate wait, None where none was asked about.
    """

    name: str
    prediction: Prediction
    advice: list[Advice]
    insights: list[Insight]
    timeline: Timeline
    operators: list[OperatorTime]
    interval: Interval
    measured: Mapping[str, Any] | None = None
    measured_trace: MeasuredTrace | None = None
    serving: Serving | None = None


def make_report(
    program: Program,
    machine: Machine,
    *,
    name: str = "",
    measured: Mapping[str, Any] | None = None,
    measured_trace: MeasuredTrace | None = None,
    requests: float | None = None,
) -> Report:
    """Predicts a program, and what changes to its strategy would do.

    Args:
        requests: of one row, a second, that an inference program answers; None for none.
    """
    pricing = Pricing(machine.processor)
    lives = livenesses(program)
    prediction = predict(program, machine, pricing, lives)
    fits = prediction.memory.fits
    return Report(
        name,
        prediction,
        [] if fits else advise(program, machine, prediction.memory, pricing),
        speed_insights(prediction, pricing),
        timeline(prediction),
        list(operator_times(program, pricing, lives)),
        rate_interval(prediction, lives),
        measured,
        measured_trace,
        None if requests is None else serving(requests, prediction.cycles.seconds, program.samples),
    )

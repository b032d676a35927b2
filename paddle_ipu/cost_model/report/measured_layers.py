"""Layers with what is predicted of an IPU and what was measured here, side by side.

The two are times of different machines: what they share is the program, and so which layers stand
out in one of them only.
"""

from __future__ import annotations

from dataclasses import dataclass

from paddle_ipu.cost_model.report.contents import Report
from paddle_ipu.cost_model.report.terminal import duration, printable
from paddle_ipu.dialect.node_origin import folded

_SHOWN = 15


@dataclass(slots=True)
class LayerTimes:
    """Seconds of a run that a layer's operators take, both directions, all IPUs together.

    Attributes:
        layer: its path, numbers folded; "" for operators in no layer.
        predicted: on the machine of the report; the weight update is left out.
        measured: on this machine.
    """

    layer: str
    predicted: float = 0.0
    measured: float = 0.0


def measured_layers(report: Report) -> list[LayerTimes]:
    """The layers, longest measured first; none where nothing was measured."""
    if report.measured is None:
        return []
    found: dict[str, LayerTimes] = {}

    def of(name: str) -> LayerTimes:
        layer = folded(name)
        return found.setdefault(layer, LayerTimes(layer))

    prediction = report.prediction
    settings = prediction.program.settings
    micro_batches = settings.accumulation * settings.batches_per_step
    for time in report.operators:
        cycles = sum(part.cycles for part in (time.forward, time.backward, time.recompute))
        seconds = cycles * micro_batches / prediction.machine.processor.clock
        of(time.operator.origin.layer).predicted += seconds
    for line in report.measured.get("lines", ()):
        of(line.get("layer", "")).measured += line["seconds"]
    return sorted(found.values(), key=lambda row: (-row.measured, -row.predicted, row.layer))


def measured_layers_text(report: Report) -> str:
    """A table for a terminal; "" where nothing was measured or no operator is in a layer."""
    rows = measured_layers(report)
    if not any(row.layer for row in rows):
        return ""
    name = report.prediction.machine.name
    lines = [
        f"layers, side by side: a run predicted for {name}, and measured on this machine",
        "  predicted  measured  layer",
        *(
            f"  {_seconds(row.predicted):>9}  {_seconds(row.measured):>8}  "
            f"{row.layer or 'in no layer'}"
            for row in rows[:_SHOWN]
        ),
    ]
    if len(rows) > _SHOWN:
        lines.append(f"  {len(rows) - _SHOWN} more")
    return printable("\n".join(lines))


def _seconds(seconds: float) -> str:
    return duration(seconds) if seconds else "-"

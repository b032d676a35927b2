"""A prediction as one JSON object; ``version`` grows when a field changes its meaning."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.cycles import CycleReport, OperatorCycles, OperatorTime, StageCycles
from paddle_ipu.cost_model.memory import Holding, IpuMemory
from paddle_ipu.cost_model.part_costs import Cost
from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.cost_model.report.contents import Report
from paddle_ipu.cost_model.report.measured_layers import measured_layers
from paddle_ipu.cost_model.report.operator_flows import operator_flows
from paddle_ipu.cost_model.report.sources import Source, sources
from paddle_ipu.cost_model.uncertainty import CHECKED, Interval
from paddle_ipu.pages.layer_graph import flows_as_json

VERSION = 1
NODE_COLUMNS = (
    "name", "op_type", "operator", "source", "layer", "ipu", "stage", "forward", "backward",
    "recompute", "exchange", "flops", "bytes", "priced",
)  # fmt: skip


def report_as_json(report: Report) -> dict[str, Any]:
    """Everything a report shows. Bytes and cycles are numbers, rates are rows a second.

    ``memory.ipus[].curve`` is the liveness curve: ``[operator, phase, bytes]`` of each step of a
    pipeline cycle. ``operators`` are kinds of operators by line, ``nodes`` each one of them.
    ``interval`` has the rates between which 80 % of the belief lies, what it hangs on most, and
    what predictions were checked on.
    ``sources`` say of each figure of the machine and each constant where it comes from.
    ``flows`` are what operators hand to each other forward, from one of ``nodes.rows`` to another.
    ``measured`` is there only where something was measured; all else is predicted.
    ``serving`` is there only where a rate of requests was given; its ``percentiles`` are pairs of
    a share of the requests and the seconds in which they have their answer.
    ``measured_layers``, there with it, has seconds of a run of each layer, both kinds side by side.
    """
    prediction = report.prediction
    program, machine = prediction.program, prediction.machine
    cycles = prediction.cycles
    return {
        "version": VERSION,
        "predicted": True,
        "name": report.name,
        "machine": asdict(machine),
        "constants": asdict(CONSTANTS),
        "sources": {
            "columns": list(Source._fields),
            "rows": [list(row) for row in sources(machine)],
        },
        "program": {
            "operators": len(program.operators),
            "weights": sum(t.elements for t in program.weights),
            "rows": program.rows,
            "samples": program.samples,
            "rule": program.rule,
            "settings": asdict(program.settings),
        },
        "throughput": cycles.throughput,
        "interval": _interval(report.interval),
        "latency": cycles.latency,
        "seconds": cycles.seconds,
        "host_seconds": cycles.host,
        "utilisation": cycles.utilisation,
        "bubble": cycles.bubble,
        "cycles": {
            "run": cycles.per_run,
            "update": cycles.per_update,
            "steady": cycles.steady,
            "copies": cycles.copies,
            "phases": cycles.phases,
            "weight_update": cycles.update,
        },
        "pipeline": {
            "critical": cycles.critical,
            "stages": [_stage(stage) for stage in cycles.stages],
        },
        "operators": [_with_origin(row) for row in cycles.operators],
        "nodes": {"columns": list(NODE_COLUMNS), "rows": [_node(t) for t in report.operators]},
        "flows": flows_as_json(operator_flows([time.operator for time in report.operators])),
        "timeline": report.timeline.as_json(),
        "unpriced": cycles.unpriced,
        "roofline": _roofline(prediction, cycles),
        "memory": {
            "fits": prediction.memory.fits,
            "off_chip": prediction.memory.off_chip,
            "worst": prediction.memory.worst.ipu,
            "ipus": [_ipu(ipu) for ipu in prediction.memory.ipus],
        },
        "advice": [asdict(item) for item in report.advice],
        "insights": [asdict(item) for item in report.insights],
        **_measured(report),
        **_serving(report),
    }


def _serving(report: Report) -> dict[str, Any]:
    """What requests wait, where that was asked."""
    found = report.serving
    if found is None:
        return {}
    times = [[share, seconds] for share, seconds in found.percentiles.items()]
    return {"serving": asdict(found) | {"percentiles": times}}


def _interval(interval: Interval) -> dict[str, Any]:
    influences = [
        {**asdict(each), "factors": list(each.factors), "rates": list(each.rates)}
        for each in interval.influences
    ]
    return {
        "low": interval.low,
        "high": interval.high,
        "influences": influences,
        "checked": CHECKED,
    }


def _measured(report: Report) -> dict[str, Any]:
    """What was measured, and layers with what is predicted of them beside."""
    if report.measured is None:
        return {}
    layers = [asdict(row) for row in measured_layers(report)]
    return {"measured": dict(report.measured), "measured_layers": layers}


def _with_origin(item: OperatorCycles | Holding) -> dict[str, Any]:
    """The fields of an item, with those of its origin in the place of it."""
    own = {field.name: getattr(item, field.name) for field in fields(item)}
    return {**own.pop("origin")._asdict(), **own}


def _node(time: OperatorTime) -> list[Any]:
    """An operator's values in the order of NODE_COLUMNS; cycles and bytes of a micro-batch."""
    operator, parts = time.operator, (time.forward, time.backward, time.recompute)
    return [
        operator.name,
        operator.op_type,
        *operator.origin,
        operator.ipu,
        time.stage,
        *(round(part.cycles, 1) for part in parts),
        round(sum(part.exchange + part.sync for part in parts), 1),
        sum(part.flops for part in parts),
        sum(part.bytes for part in parts),
        time.priced,
    ]


def _stage(stage: StageCycles) -> dict[str, Any]:
    def parts(cost: Cost) -> dict[str, float]:
        return {
            "cycles": cost.cycles,
            "compute": cost.compute,
            "exchange": cost.exchange,
            "sync": cost.sync,
            "flops": cost.flops,
        }

    return {
        "stage": stage.stage,
        "ipu": stage.ipu,
        "cycles": stage.cycles,
        "forward": parts(stage.forward),
        "backward": parts(stage.backward),
        "recompute": parts(stage.recompute),
        "stream": stage.stream,
    }


def _ipu(ipu: IpuMemory) -> dict[str, Any]:
    return {
        "ipu": ipu.ipu,
        "capacity": ipu.capacity,
        "peak": ipu.peak,
        "tile": {"capacity": ipu.tile_capacity, "peak": ipu.per_tile},
        "over": ipu.over,
        "fits": ipu.fits,
        "categories": ipu.categories,
        "always": ipu.always,
        "peak_step": ipu.peak_step,
        "curve": [[step.label, step.phase, step.bytes] for step in ipu.steps],
        "layers": ipu.layers,
        "always_layers": ipu.always_layers,
        "whole_layers": ipu.whole_layers,
        "category_layers": ipu.category_layers,
        "tensors": [_with_origin(holding) for holding in ipu.holdings],
    }


def _roofline(prediction: Prediction, cycles: CycleReport) -> dict[str, Any]:
    """Peaks of one IPU, and where each kind of operator with products stands below them."""
    processor = prediction.machine.processor
    points = []
    for row in cycles.operators:
        if row.flops and row.bytes:
            time = (row.forward + row.backward) / processor.clock
            points.append({
                "operator": row.op_type,
                "source": row.origin.source,
                "layer": row.origin.layer,
                "ipu": row.ipu,
                "intensity": row.flops / row.bytes,
                "flops_per_second": row.flops / time if time else 0.0,
            })  # fmt: skip
    return {
        "peak_flops": processor.half_flops,
        "memory_bandwidth": processor.tiles * (processor.load_bytes + 8) * processor.clock,
        "exchange_bandwidth": processor.tiles * processor.exchange_bytes * processor.clock,
        "points": points,
    }

"""What runs of a program really took on this machine, by family of operators and by line.

These are seconds of the XLA program that the IPU Model runs here, never of an IPU: the predictor's
are in ``paddle_ipu.cost_model``. Families are the predictor's, so that the two can stand side by
side.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from paddle_ipu.cost_model.report.directory import trace_text, write_form
from paddle_ipu.cost_model.report.measured_trace import (
    MeasuredInstruction,
    MeasuredRun,
    MeasuredTrace,
    measured_trace_as_json,
)
from paddle_ipu.cost_model.report.terminal import duration
from paddle_ipu.dialect.node_origin import NodeOrigin, folded
from paddle_ipu.operating_system import processors
from paddle_ipu.popart.schema import all_schemas

if TYPE_CHECKING:
    from paddle_ipu.xla.lowerings.scope_names import Origin
    from paddle_ipu.xla.step.step_trace import Recording

VERSION = 1

_FAMILIES = {
    "matmul": "matmul",
    "conv": "convolution",
    "map": "elementwise",
    "reduce": "reduction",
    "norm": "normalisation",
    "softmax": "softmax",
    "pool": "pooling",
    "gather": "gather and scatter",
    "scatter": "gather and scatter",
    "random": "random numbers",
    "sort": "sorting",
    "loss": "loss",
    "move": "rearrangement",
    "view": "rearrangement",
    "free": "rearrangement",
}
"""Kinds of the predictor's formulas -> families."""

_KINDS = {row.op_type: row.cost.kind for row in all_schemas() if row.cost is not None}

_OTHERS = {
    "LSTM": "recurrent",
    "GRU": "recurrent",
    "RNN": "recurrent",
    "Recurrent": "recurrent",
    "GatherNd": "gather and scatter",
    "TakeAlongAxis": "gather and scatter",
    "PutAlongAxis": "gather and scatter",
    "ReplicatedAllReduce": "collectives",
    "ReplicatedReduceScatter": "collectives",
    "CpuKernel": "host operators",
    "If": "control flow",
    "Loop": "control flow",
    "Scan": "control flow",
    "Call": "control flow",
}

COPIES, HOST, BETWEEN = "copies", "host", "between operators"
UPDATE, ACCUMULATION = "weight update", "gradient accumulation"
UNNAMED = "without an operator"

FAMILIES = (
    *dict.fromkeys(_FAMILIES.values()),
    *dict.fromkeys(_OTHERS.values()),
    "other operators", UPDATE, ACCUMULATION, COPIES, HOST, BETWEEN, UNNAMED,
)  # fmt: skip
"""Every family; `HOST`, `BETWEEN` and `UNNAMED` belong to no operator."""

_NOT_ATTRIBUTED = frozenset((BETWEEN, UNNAMED))
_LINES = 10


@dataclass(frozen=True, slots=True)
class Family:
    """Seconds of a run that one family of operators took, and its share of the run."""

    family: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds of a run that one operator of a line and a layer took, XLA's copies for it too.

    Attributes:
        source: ``file:line`` of the user's call; "" where it is not known.
        layer: the path of the layer; "" for none.
        operator: Paddle's; PopART's where it comes from none of Paddle's.
        popart: PopART's operator.
        forward, backward: what it is made of; what backward computes again is backward's.
    """

    source: str
    layer: str
    operator: str
    popart: str
    family: str
    forward: float
    backward: float

    @property
    def seconds(self) -> float:
        """Forward and backward."""
        return self.forward + self.backward


@dataclass(slots=True)
class Measurement:
    """Measured runs; everything is there once the measurement has ended. ``str`` gives it as text.

    Attributes:
        machine: what it was measured on.
        steps: runs that were measured.
        seconds: of each run, feeds and fetches included.
        families: largest first; their seconds sum to `seconds_per_run`.
        lines: largest first.
        trace: when each instruction of the last runs was at work.
    """

    machine: str = ""
    seconds: Sequence[float] = ()
    families: Sequence[Family] = ()
    lines: Sequence[Line] = ()
    trace: MeasuredTrace = field(default=MeasuredTrace("", (), ()), repr=False)

    @property
    def steps(self) -> int:
        """Runs that were measured."""
        return len(self.seconds)

    @property
    def seconds_per_run(self) -> float:
        """The mean of all runs."""
        return sum(self.seconds) / len(self.seconds) if self.seconds else 0.0

    @property
    def not_attributed(self) -> float:
        """Seconds of a run on XLA's threads that no operator can be told to have taken."""
        return sum(f.seconds for f in self.families if f.family in _NOT_ATTRIBUTED)

    def _folded(self) -> list[tuple[tuple[str, str], tuple[float, float]]]:
        """(operator, layer with its numbers folded and line) -> seconds of forward, and of both."""
        found: dict[tuple[str, str], tuple[float, float]] = {}
        for line in self.lines:
            key = line.operator, NodeOrigin("", line.source, folded(line.layer)).where
            forward, seconds = found.get(key, (0.0, 0.0))
            found[key] = forward + line.forward, seconds + line.seconds
        return sorted(found.items(), key=lambda item: -item[1][1])

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON object; seconds are of one run."""
        return {
            "version": VERSION,
            "machine": self.machine,
            "steps": self.steps,
            "seconds": list(self.seconds),
            "seconds_per_run": self.seconds_per_run,
            "families": [asdict(family) for family in self.families],
            "lines": [{**asdict(line), "seconds": line.seconds} for line in self.lines],
            "not_attributed": self.not_attributed,
        }

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what was at work when in the last runs, for ui.perfetto.dev or chrome://tracing.

        Raises:
            ReportError: it cannot be written.
        """
        write_form(Path(path), trace_text(measured_trace_as_json(self.trace)))

    def __str__(self) -> str:
        lines = [
            f"measured, not predicted: {self.steps} run(s) on {self.machine}",
            f"a run took {duration(self.seconds_per_run)}"
            + (
                f" ({duration(min(self.seconds))} to {duration(max(self.seconds))})"
                if self.seconds
                else ""
            )
            + "; it went to",
        ]
        lines += [f"  {f.share:>6.1%}  {duration(f.seconds):>8}  {f.family}" for f in self.families]
        total = self.seconds_per_run or 1.0
        if self.lines:
            lines.append("operators that took longest (forward + backward)")
        lines += [
            f"  {seconds / total:>6.1%}  {duration(forward):>8} + "
            f"{duration(seconds - forward):<8}  {operator:<20} {where}".rstrip()
            for (operator, where), (forward, seconds) in self._folded()[:_LINES]
        ]
        return "\n".join(lines)


def fill(
    measurement: Measurement,
    recording: Recording,
    graph: ir.Graph,
    origin_of: Callable[[ir.Node], NodeOrigin],
) -> None:
    """Puts into a measurement what was recorded.

    Args:
        graph: the PopART graph whose nodes the recording's origins number.
        origin_of: what a node was translated from.
    """
    runs = len(recording.seconds)
    families = {HOST: recording.host, BETWEEN: recording.idle}
    lines: dict[tuple[str, str, str, str], list[float]] = {}

    @cache
    def told(kind: str, origin: Origin) -> _Told:
        op_type = origin.path[-1][0] if origin.path else ""
        nodes = nodes_at(graph, origin.path)
        made_from = next(filter(any, map(origin_of, reversed(nodes))), NodeOrigin())
        return _Told(_family(kind, origin.phase, op_type), op_type, bool(nodes), made_from)

    for (kind, origin), seconds in recording.parts.items():
        of = told(kind, origin)
        families[of.family] = families.get(of.family, 0.0) + seconds
        if not of.is_known:
            continue
        key = of.made_from.source, of.made_from.layer, of.operator, of.op_type
        lines.setdefault(key, [0.0, 0.0])[origin.phase == "backward"] += seconds
    measurement.machine = machine()
    measurement.seconds = tuple(recording.seconds)
    total = sum(recording.seconds)
    measurement.families = tuple(
        Family(name, seconds / runs, seconds / total)
        for name, seconds in sorted(families.items(), key=lambda item: -item[1])
        if seconds
    )
    measured = [
        Line(*key, family_of(key[-1]), forward / runs, backward / runs)
        for key, (forward, backward) in lines.items()
    ]
    measurement.lines = tuple(sorted(measured, key=lambda line: (-line.seconds, line.source)))
    measurement.trace = _trace(recording, measurement.machine, told)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a kind and an origin of XLA's instructions tell.

    Attributes:
        op_type: PopART's operator; "" for none.
        is_known: the graph has that operator.
        made_from: what it was translated from.
    """

    family: str
    op_type: str
    is_known: bool
    made_from: NodeOrigin

    @property
    def operator(self) -> str:
        """Paddle's; PopART's where it comes from none of Paddle's."""
        return self.made_from.operator or self.op_type

    def name(self, phase: str) -> str:
        """What a trace calls it: the operator as predicted ones are called, or the family."""
        if not self.op_type or self.family in (COPIES, "collectives"):
            return self.family
        return f"{self.op_type} ({phase})"


def _trace(
    recording: Recording, machine: str, told: Callable[[str, Origin], _Told]
) -> MeasuredTrace:
    begin = min((run.start for run in recording.kept), default=0.0)

    def moment(nanoseconds: float) -> int:
        return round(nanoseconds - begin)

    instructions: list[MeasuredInstruction] = []
    for run in recording.kept:
        for interval, shares in run.work:
            parts: dict[str, float] = {}
            for share in shares:
                name = told(share.kind, share.origin).name(share.origin.phase)
                parts[name] = parts.get(name, 0.0) + share.part
            largest = max(shares, key=lambda share: share.part)
            of = told(largest.kind, largest.origin)
            instructions.append(
                MeasuredInstruction(
                    moment(interval.start),
                    moment(interval.end),
                    of.name(largest.origin.phase),
                    of.family,
                    interval.name,
                    of.operator,
                    of.made_from.source,
                    of.made_from.layer,
                    tuple(parts.items()) if len(parts) > 1 else (),
                )
            )
    runs = [
        MeasuredRun(run.number, moment(run.start), moment(run.end), run.left_out)
        for run in recording.kept
    ]
    return MeasuredTrace(machine, runs, instructions)


def _family(kind: str, phase: str, op_type: str) -> str:
    if kind == "copy":
        return COPIES
    if kind == "collective":
        return "collectives"
    if phase == "update":
        return UPDATE
    if phase == "accumulation":
        return ACCUMULATION
    if kind == "random":
        return "random numbers"
    return family_of(op_type) if op_type else UNNAMED


def family_of(op_type: str) -> str:
    """The family of a PopART operator."""
    if op_type in _OTHERS:
        return _OTHERS[op_type]
    kind = _KINDS.get(op_type)
    return "other operators" if kind is None else _FAMILIES[kind]


def nodes_at(graph: ir.Graph, path: Sequence[tuple[str, int]]) -> list[ir.Node]:
    """The node that a path of (type, number) leads to, behind those whose subgraphs it is in.

    It ends where the graph has another operator: a program that XLA compiles to the same code may
    have been stored with names of its own.
    """
    path_nodes: list[ir.Node] = []
    graphs = [graph]
    for op_type, number in path:
        nodes = [node for inner in graphs if (node := _at(inner, op_type, number)) is not None]
        if len(nodes) != 1:
            break
        path_nodes.append(nodes[0])
        graphs = [
            attribute.as_graph()
            for attribute in nodes[0].attributes.values()
            if attribute.type == ir.AttributeType.GRAPH
        ]
    return path_nodes


def _at(graph: ir.Graph, op_type: str, number: int) -> ir.Node | None:
    if not 0 <= number < len(graph):
        return None
    node = graph[number]
    same = "".join(c if c.isalnum() else "_" for c in node.op_type) == op_type
    return node if same else None


def machine() -> str:
    """This machine: its processor, how many of it this process may use, and the system."""
    name = processors.description().get("model name", platform.processor() or platform.machine())
    return f"{processors.usable()} x {name}, {platform.system()} {platform.machine()}"

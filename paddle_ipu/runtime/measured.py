"""What runs of a program really took on this machine, by family of operators and by line.

These are seconds of the XLA program that the IPU Model runs here, never of an IPU: the predictor's
are in ``paddle_ipu.cost_model``. Families are the predictor's, so that the two can stand side by
side.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from paddle_ipu.cost_model.report.terminal import duration
from paddle_ipu.dialect.node_origin import NodeOrigin, folded
from paddle_ipu.operating_system import processors
from paddle_ipu.popart.schema import all_schemas

if TYPE_CHECKING:
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
    """

    machine: str = ""
    seconds: Sequence[float] = ()
    families: Sequence[Family] = ()
    lines: Sequence[Line] = ()

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
    for (kind, origin), seconds in recording.parts.items():
        op_type = origin.path[-1][0] if origin.path else ""
        family = _family(kind, origin.phase, op_type)
        families[family] = families.get(family, 0.0) + seconds
        nodes = nodes_at(graph, origin.path)
        if not nodes:
            continue
        made_from = next(filter(any, map(origin_of, reversed(nodes))), NodeOrigin())
        key = made_from.source, made_from.layer, made_from.operator or op_type, op_type
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

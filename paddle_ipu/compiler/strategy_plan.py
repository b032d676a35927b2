"""What ``paddle_ipu.plan`` returns: strategies that fit, at a prompt, as a chart, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from paddle_ipu.compiler.proposals import Proposal, Proposals
from paddle_ipu.cost_model.memory import ROOM, livenesses
from paddle_ipu.cost_model.memory_check import size
from paddle_ipu.cost_model.plan import Candidate, Plan
from paddle_ipu.cost_model.report.strategy_text import placement_text, strategy_text
from paddle_ipu.cost_model.report.terminal import printable
from paddle_ipu.cost_model.uncertainty import CHECKED, ratio_interval
from paddle_ipu.notebook.charts import axes_of
from paddle_ipu.notebook.html_table import html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from paddle_ipu.compiler.prediction_target import PredictionTarget


_COMPARED = 3
_LARGEST = 3
"""Categories and layers that a refusal names."""
_LARGER = "take a machine with more IPUs, or a smaller model"
_SHORTER = "take shorter rows, or a smaller model: what an IPU has at once is of one micro-batch"
_HELPS = {
    **dict.fromkeys(("weights", "accumulators", "optimizer state", "constants", "code"), _LARGER),
    **dict.fromkeys(("activations", "temporaries", "streams"), _SHORTER),
    "stash": "take shorter rows, or a pipeline of fewer IPUs: its first stages keep a micro-batch "
    "for each stage behind them, there and back",
}
"""What helps where most of an IPU is of a category."""


@dataclass(frozen=True, slots=True)
class Close:
    """A strategy's rate as a share of the best one's.

    Attributes:
        ratio: as predicted.
        low, high: between which 80 % of the belief lies; the same figures are uncertain for both.
    """

    ratio: float
    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether either may be the faster."""
        return self.low < 1.0 < self.high


@dataclass(frozen=True, repr=False)
class StrategyPlan:
    """Strategies for a program on a machine, each predicted as ``compile`` would translate it.

    ``print`` shows what ``paddle-ipu plan`` prints, a prompt or a notebook its table.

    Attributes:
        target: the program and the machine.
        tried: every candidate that fits by the planner's estimate, and how many do not.
        proposed: those of them that ``compile`` takes.
        seconds: that planning took.
    """

    target: PredictionTarget
    tried: Plan
    proposed: Proposals
    seconds: float

    @property
    def proposals(self) -> Sequence[Proposal]:
        """The strategies that fit: those with room in memory first, each kind fastest first.

        Where rates are nearly the same as the fastest one, the strategy with the most memory to
        spare is the first.
        """
        return self.proposed.proposals

    @cached_property
    def close(self) -> Sequence[Close]:
        """How the rates of the next ones, at most three, compare with the best's."""
        if self.best is None:
            return ()
        first = self.best.candidate.prediction
        lives = livenesses(first.program)
        found = []
        for proposal in self.proposals[1 : 1 + _COMPARED]:
            other = proposal.candidate.prediction
            low, high = ratio_interval(first, other, lives, livenesses(other.program))
            found.append(Close(other.cycles.throughput / first.cycles.throughput, low, high))
        return found

    @property
    def best(self) -> Proposal | None:
        """The fastest that fits with room, else the fastest that fits; None where none does."""
        return self.proposals[0] if self.proposals else None

    def __str__(self) -> str:
        lines = [self.target.subject] if self.target.subject else []
        lines.append(
            f"{self._headline()} in {self.seconds:.1f} s; {len(self.tried.candidates)} fit"
        )
        lines += [*self._table(), *self._close()]
        if self.best is not None:
            lines.append(f"predictions were checked {CHECKED}")
            if (tight := self.tried.tight) is not None:
                lines += self._tight(tight, self.best.candidate)
        if self.target.program.rows_are_fixed:
            lines.append(
                f"the feeds' own shapes give micro-batches of {self.target.program.rows} rows: "
                "others are tried where dimension 0 is -1, as in paddle.static.data('x', [-1, 16])"
            )
        if self.best is None:
            lines += self._refusal()
        else:
            lines += ["", strategy_text(self.best.calls)]
            if where := placement_text(self.best.candidate):
                lines += ["", "where the stages begin:", where]
        if (by_hand := self.proposed.by_hand) is not None:
            rate = by_hand.prediction.cycles.throughput
            lines += [
                "",
                table_row(by_hand),
                f"is an estimate of {rate:,.0f} rows/s for operators placed by hand, with "
                "paddle.static.ipu_shard_guard(index=..., stage=...):",
                placement_text(by_hand),
            ]
        return printable("\n".join(lines))

    def _close(self) -> list[str]:
        """How sure it is that the first of the table is the fastest."""
        if not self.close:
            return []
        lines = ["the next ones' rates as shares of the first's, with 80 % intervals:"]
        for row, close in enumerate(self.close, 2):
            note = "; too close to call" if close.is_open else ""
            if close.ratio > 1:
                note = "; the first has more memory to spare"
            lines.append(
                f"  row {row}: {close.ratio:.1%} ({close.low:.1%} to {close.high:.1%}){note}"
            )
        return lines

    def _tight(self, tight: Candidate, best: Candidate) -> list[str]:
        """What a plan that fills memory would gain, if the prediction is right to the last tile."""
        rates = [each.prediction.cycles.throughput for each in (tight, best)]
        if rates[0] <= rates[1]:
            return []
        faster = rates[0] / rates[1] - 1
        return [
            "",
            table_row(tight),
            f"is {faster:.1%} faster, with less than {ROOM:.0%} of a tile to spare",
        ]

    def __repr__(self) -> str:
        lines = [f"{self._headline()}; {len(self.tried.candidates)} fit", *self._table()]
        if self.best is None:
            lines += self._refusal()
        return printable("\n".join(lines))

    def _repr_html_(self) -> str:
        columns = _columns(self._training)
        rows = [
            [column.cell(proposal.candidate) for column in columns] for proposal in self.proposals
        ]
        caption = f"{self._headline()}; {len(self.tried.candidates)} fit"
        if self.best is None:
            caption = "\n".join([caption, *self._refusal()])
        return html_table([column.name for column in columns], rows, caption)

    def to_dict(self) -> dict[str, Any]:
        """The proposals as plain data, as ``paddle-ipu plan --json`` prints them."""
        return {
            "fitting": [proposal_record(proposal) for proposal in self.proposals],
            "close": [asdict(each) | {"is_open": each.is_open} for each in self.close],
            "too_large": self.tried.too_large,
            "checked": CHECKED,
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """A chart of the proposals' rows a second, by Matplotlib.

        Args:
            axes: to draw on; those of a new figure where None.

        Raises:
            ReportError: Matplotlib is not installed.
        """
        drawn = axes_of(axes)
        shown = [proposal.candidate for proposal in self.proposals][::-1]
        places = range(len(shown))
        drawn.barh(places, [candidate.prediction.cycles.throughput for candidate in shown])
        drawn.set_yticks(places, [_label(candidate) for candidate in shown])
        drawn.set_xlabel("rows a second")
        name = self.target.machine.name
        drawn.set_title(f"Predicted for {name}", parse_math=False)
        return drawn

    @property
    def _training(self) -> bool:
        return self.target.program.settings.training

    def _headline(self) -> str:
        tried = len(self.tried.candidates) + self.tried.too_large
        return f"{tried} strategies for {self.target.machine.name}"

    def _table(self) -> list[str]:
        rows = (table_row(proposal.candidate) for proposal in self.proposals)
        return [table_head(self._training), *rows]

    def _refusal(self) -> list[str]:
        """Why there is no proposal."""
        proposed, closest = self.proposed, self.tried.closest
        if proposed.by_hand is not None:
            return ["no strategy fits whose placement need_avg_shard can make"]
        if proposed.refused:
            return [f"compile would refuse all that fit: {proposed.refused[0]}"]
        if closest is None:
            return ["no strategy makes this batch on this machine: give another batch"]
        worst = closest.prediction.memory.worst
        largest = sorted(worst.categories, key=lambda name: -worst.categories[name])[:_LARGEST]
        parts = ", ".join(f"{name} {size(worst.categories[name])}" for name in largest)
        lines = [
            table_row(closest),
            f"the closest lacks {size(worst.over)} on IPU {worst.ipu}, which holds {parts}",
        ]
        layers = [(name, held) for name, held in worst.layers.items() if name][:_LARGEST]
        if layers:
            named = ", ".join(f"{name} {size(held)}" for name, held in layers)
            lines.append(f"its layers: {named}")
        return [*lines, _HELPS[largest[0]]]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table; a negative width is of numbers, which end where it ends."""

    name: str
    width: int
    cell: Callable[[Candidate], str]

    def padded(self, text: str) -> str:
        """A text that is as wide as the column."""
        return text.rjust(-self.width) if self.width < 0 else text.ljust(self.width)


def _throughput(candidate: Candidate) -> str:
    return f"{candidate.prediction.cycles.throughput:,.0f}"


def _ipus(candidate: Candidate) -> str:
    settings = candidate.prediction.program.settings
    return f"{settings.ipus // settings.replicas} x {settings.replicas}"


def _rows(candidate: Candidate) -> str:
    return f"{candidate.prediction.program.rows}"


def _fullest_tile(candidate: Candidate) -> str:
    worst = candidate.prediction.memory.worst
    placed = "" if candidate.cuts is not None else "  (placed as written)"
    return f"{worst.per_tile / worst.tile_capacity:.0%}{placed}"


def _state(candidate: Candidate) -> str:
    return "on chip" if candidate.prediction.program.settings.state_on_chip else "off chip"


def _rows_at_once(candidate: Candidate) -> str:
    program = candidate.prediction.program
    return f"{program.rows * program.settings.replicas}"


_ALWAYS = (
    _Column("rows/s", -10, _throughput),
    _Column("IPUs x replicas", 15, _ipus),
    _Column("micro-batch", 11, _rows),
)
_IN_TRAINING = (
    _Column("accumulation", 12, lambda c: f"{c.prediction.program.settings.accumulation}"),
    _Column("batch", 6, lambda c: f"{c.batch}"),
    _Column("recomputation", 13, lambda c: c.prediction.program.settings.recomputation),
    _Column("state", 8, _state),
)
_IN_INFERENCE = (
    _Column("rows at once", 12, _rows_at_once),
    _Column("latency", 10, lambda c: f"{c.prediction.cycles.latency * 1e3:.3f} ms"),
)
_LAST = (_Column("fullest tile", 0, _fullest_tile),)


def _columns(training: bool) -> tuple[_Column, ...]:
    return (*_ALWAYS, *(_IN_TRAINING if training else _IN_INFERENCE), *_LAST)


def table_head(training: bool) -> str:
    """The names of the table's columns."""
    return "  ".join(column.padded(column.name) for column in _columns(training))


def table_row(candidate: Candidate) -> str:
    """A strategy as a row of the table."""
    columns = _columns(candidate.prediction.program.settings.training)
    return "  ".join(column.padded(column.cell(candidate)) for column in columns)


def _label(candidate: Candidate) -> str:
    settings = candidate.prediction.program.settings
    label = f"{_ipus(candidate)} IPUs, {_rows(candidate)} rows"
    if not settings.training:
        return label
    again = "" if settings.recomputation == "NoRecompute" else f", {settings.recomputation}"
    return f"{label} x {settings.accumulation}{again}\nstate {_state(candidate)}"


def proposal_record(proposal: Proposal) -> dict[str, Any]:
    """A strategy as plain data."""
    candidate = proposal.candidate
    prediction = candidate.prediction
    settings = prediction.program.settings
    return {
        "throughput": prediction.cycles.throughput,
        "latency": prediction.cycles.latency,
        "ipus_of_a_replica": settings.ipus // settings.replicas,
        "replicas": settings.replicas,
        "micro_batch_size": prediction.program.rows,
        "accumulation_factor": settings.accumulation,
        "batch": candidate.batch,
        "auto_recomputation": settings.recomputation,
        "state_on_chip": settings.state_on_chip,
        "tile_share": prediction.memory.worst.per_tile / prediction.memory.worst.tile_capacity,
        "strategy": strategy_text(proposal.calls),
        "placement": placement_text(candidate),
    }

"""What ``paddle_ipu.verify`` compared and found, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from paddle_ipu.dialect import dialect
from paddle_ipu.pages.layer_graph import OperatorFlow
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.ranges import ScaleRow, ValueRange

AGREES, ROUNDS, DIVERGES, FOLLOWS = "agrees", "rounding", "diverges", "follows"
"""Verdicts on an operator. ``rounding`` and ``follows`` are out of tolerance, but right for their
operands; one that ``follows`` reads, directly or not, one that ``diverges``."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One result of one operator in the drift table.

    Attributes:
        number: position of the operator in the program's forward part.
        operator: its phi name.
        source: ``file:line`` of the user's call.
        result: its result, both sides having run the whole program up to here; in a table of
            derivatives, the derivative with respect to the operand of that name.
        verdict: ``agrees``; ``rounding``: out of tolerance by no more than rounding errors of its
            operands; ``diverges``: Paddle's kernel computes something else of the same operands,
            or, beside another precision, all operands agree; ``follows`` one that diverges.
        values: the range of the result on the side that is compared with.
        gain: the result's drift over the largest drift among its operands: how much the operator
            magnifies errors.
        gradient: the loss's gradient with respect to the result, where both sides have it.
        gradient_values: its range as backward has it, times the loss scale.
        alone: beside the CPU, the result and that of Paddle's kernel for the operands that the
            operator read on the IPU.
        layer: the path of the layer, "" for none.
    """

    number: int
    operator: str
    source: str
    result: Comparison
    verdict: str
    values: ValueRange | None = None
    gain: float = 0.0
    gradient: Comparison | None = None
    gradient_values: ValueRange | None = None
    alone: Comparison | None = None
    layer: str = ""

    def place(self) -> str:
        """The operator, the user's line and the layer."""
        return dialect.described(self.operator, self.source, self.layer)


@dataclass(frozen=True, slots=True)
class NotFinite:
    """The origin of the first NaN, or of the first infinity.

    Attributes:
        kind: ``NaN`` or ``infinity``.
        phase: ``forward``, ``loss``, ``backward``, ``update``, ``feed`` or ``weight``.
        operator: the operator's phi name; the update rule; "" for a feed or weight.
        source: ``file:line`` of the user's call, "" where Paddle recorded none.
        tensor: name of the tensor that holds it.
        micro_batch: counted over the steps.
        count, size: how many elements of how many.
        reason: what is wrong with the operands.
        advice: what to do.
        layer: the path of the layer, "" for none.
        number: the operator's position in the program's forward part, None of what is none there.
    """

    kind: str
    phase: str
    operator: str
    source: str
    tensor: str
    micro_batch: int
    count: int
    size: int
    reason: str
    advice: str
    layer: str = ""
    number: int | None = None

    def __str__(self) -> str:
        place = dialect.described(self.operator, self.source, self.layer)
        by = {
            "forward": f"{place} (result {self.tensor})",
            "backward": f"the derivative of {place} (gradient of {self.tensor})",
            "loss": f"the gradient that the loss {self.tensor} is given, {place}",
            "update": f"the update of {self.tensor} by {place}",
            "feed": f"the feed {self.tensor!r}",
            "weight": f"the variable {self.tensor!r}, as it was given",
        }[self.phase]
        return (
            f"First {self.kind}: {by}, micro-batch {self.micro_batch}: {self.count} of {self.size} "
            f"elements. {self.reason} {self.advice}".rstrip()
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """An explanation of a loss that does not go down.

    Attributes:
        title: in a few words.
        text: the numbers.
        advice: what to do.
    """

    title: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.title}: {self.text} {self.advice}".rstrip()


@dataclass(frozen=True, slots=True)
class StepRow:
    """One run of a training program on the IPU.

    Attributes:
        loss: the first fetch that is one number, averaged over micro-batches; None without one.
        gradient: norm of the gradients of all trained parameters, of the last micro-batch.
        weights: norm of all trained parameters after the run.
        update: norm of what the run added to them, over their norm before.
    """

    loss: float | None
    gradient: float
    weights: float
    update: float


SIDES = {
    "cpu": ("the IPU", "Paddle's CPU kernels"),
    "fp32": ("the program as compiled", "itself in float32"),
    "fp16": ("the program in half", "itself as compiled"),
}
"""By ``against``: what is compared, and with what."""

_ON_THE_PAGE = (
    "verify(..., raise_on_mismatch=False) returns the report; its save_html(path) writes the table "
    "of every operator."
)


@dataclass(slots=True)
class ReportContents:
    """What was compared, and what differs.

    Attributes:
        rtol, atol: an element agrees when ``|got - expected| <= atol + rtol * |expected|``; beyond
            that it may be rounding (`rounding`).
        steps: how often the program ran on either side.
        fetches: in the order of `fetch_list`.
        gradients: the raw gradient of every trained parameter, before clipping and decay.
        updates: trained parameters and optimizer state after the steps.
        operators: every forward operator; filled on a difference, or when asked for.
        flows: what operators hand to each other, by `OperatorRow.number`; filled with `operators`.
        derivatives: every differentiable operand of every operator by itself, in the order of
            backward; filled where gradients differ though every operator agrees.
        notes: what was not compared, and why.
        against: what the program is compared with, a key of `SIDES`.
        max_drift: beside another precision, the norm of an error may be this share of the norm.
        not_finite: where NaN and infinity come from, when a fetch, a gradient or a weight has one.
        findings: what may keep the loss from going down.
        history: in training over several steps, loss and norms of gradients and weights.
        loss_scale: the factor that backward's gradients have on the device.
        scales: what loss scales do to gradients in half.
    """

    rtol: float
    atol: float
    steps: int
    fetches: list[Comparison] = field(default_factory=list)
    gradients: list[Comparison] = field(default_factory=list)
    updates: list[Comparison] = field(default_factory=list)
    operators: list[OperatorRow] = field(default_factory=list)
    flows: list[OperatorFlow] = field(default_factory=list)
    derivatives: list[OperatorRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    against: str = "cpu"
    max_drift: float = 0.0
    not_finite: list[NotFinite] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    history: list[StepRow] = field(default_factory=list)
    loss_scale: float = 1.0
    scales: list[ScaleRow] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        """True when no fetch, gradient, weight and state of the IPU holds NaN or infinity."""
        return not any(row.not_finite for row in self._compared())

    @property
    def ok(self) -> bool:
        """True when every fetch, gradient, weight and state agrees, but for rounding."""
        return all(row.ok for row in self._compared())

    @property
    def verdict(self) -> str:
        """``agrees``, ``rounding``, ``differs``, or ``not finite`` whatever else.

        ``rounding``: something is out of tolerance, but by no more than Paddle's own kernels round.
        """
        if not self.finite:
            return "not finite"
        return self._likeness()

    def _likeness(self) -> str:
        if not self.ok:
            return "differs"
        return "rounding" if any(row.rounding for row in self._compared()) else "agrees"

    def _compared(self) -> tuple[Comparison, ...]:
        return (*self.fetches, *self.gradients, *self.updates)

    def headline(self) -> str:
        """The verdict in one line."""
        beside = f"{self.other} after {self.steps} step(s), {self.tolerance}"
        alike = {
            "agrees": f"agrees with {beside}",
            "rounding": f"agrees, but for ROUNDING, with {beside}",
            "differs": f"DIFFERS from {beside}",
        }[self._likeness()]
        if not self.finite:
            counts = self._counts(lambda row: row.not_finite > 0)
            return f"NOT FINITE: {counts} hold NaN or infinity; beside that it {alike}"
        rounding = [row for row in self._compared() if row.rounding]
        if not rounding or not self.ok:
            return alike
        # A bias that is noise altogether says less than a fetch.
        fetched = [row for row in rounding if row in self.fetches]
        most = max(fetched or rounding, key=lambda row: row.drift)
        counts = self._counts(lambda row: row.rounding)
        return f"{alike}: {counts}, drift {most.drift:.2g} in {most.called}"

    def _counts(self, predicate: Callable[[Comparison], bool]) -> str:
        """How many rows of which section, in words."""
        counts = [(sum(map(predicate, rows)), len(rows), name) for name, rows in self.sections()]
        return ", ".join(f"{count} of {size} {name}" for count, size, name in counts if count)

    @property
    def first_divergence(self) -> OperatorRow | Comparison | None:
        """Where the sides part: an operator, else a gradient, an update or a fetch; None if `ok`.

        The first operator in program order that is wrong for what it reads; without one the first
        operator in the order of backward whose own derivative differs; then the first gradient,
        weight or state.
        """
        if self.ok:
            return None
        for operator in (*self.operators, *self.derivatives):
            if operator.verdict == DIVERGES:
                return operator
        rows = (*self.gradients, *self.updates, *self.fetches)
        return next(row for row in rows if not row.ok)

    def explanation(self) -> str:
        """What differs or is not finite, where it began and what to do; "" when all is well."""
        first = self.first_divergence
        lines = []
        if not self.finite:
            bad = self._counts(lambda row: row.not_finite > 0)
            alike = ", as on the other side" if first is None else ""
            lines.append(f"{bad} hold NaN or infinity{alike}.")
        if first is not None:
            counts = self._counts(lambda row: not row.ok)
            lines.append(f"{counts} differ from {self.other} ({self.tolerance}).")
        if not lines:
            return ""
        lines += map(str, (*self.findings, *self.not_finite))
        beginning = self.beginning()
        if beginning is not None:
            where, advice = beginning
            lines += [where, f"{advice} {_ON_THE_PAGE}"]
        return "\n".join(lines)

    def beginning(self) -> tuple[str, str] | None:
        """Where the sides part, and what to do about it.

        None if they do not, or if what is not finite says it.
        """
        first = self.first_divergence
        if first is None or self.not_finite:
            return None
        return self._where(first), self._advice(first)

    @property
    def other(self) -> str:
        """What the program is compared with, in words."""
        return SIDES[self.against][1]

    @property
    def tolerance(self) -> str:
        """What counts as agreeing, in words."""
        if self.against == "cpu":
            return f"rtol={self.rtol:g}, atol={self.atol:g}"
        return f"max_drift={self.max_drift:g}"

    def _where(self, first: OperatorRow | Comparison) -> str:
        if isinstance(first, OperatorRow) and first in self.derivatives:
            return (
                f"First diverging derivative: {first.place()} with respect to its operand "
                f"{first.result.name}: {first.result.numbers()}. Every operator agrees forward."
            )
        if isinstance(first, OperatorRow):
            return (
                f"First diverging operator: {first.place()} (result {first.result.name}): "
                f"{first.result.numbers()}. {self._operands_of(first)}"
            )
        place = f" ({first.source})" if first.source else ""
        text = f"First difference: {first.name!r}, {first.what}{place}: {first.numbers()}."
        if first in self.gradients:
            if not self.derivatives:
                return text
            return f"{text} Each operator agrees by itself; together they do not."
        if first in self.updates:
            return (
                f"{text} Of the IPU's own gradients Paddle's rule makes something else. "
                "Every gradient agrees, so the update does not."
            )
        if not self.operators:
            return text
        return f"{text} Each operator agrees by itself; together they do not."

    def _operands_of(self, first: OperatorRow) -> str:
        alone = first.alone
        if alone is None:
            return "Everything it reads agrees."
        return (
            "Everything it reads agrees, or is not the reason: of what it read on the IPU, "
            f"Paddle's kernel makes {alone.expected:.7g} at {list(alone.index)}, the IPU "
            f"{alone.got:.7g}; drift {alone.drift:.3g}, where rounding makes {alone.noise:.2g}."
        )

    def _advice(self, first: OperatorRow | Comparison) -> str:
        row = first.result if isinstance(first, OperatorRow) else first
        if self.against != "cpu":
            return (
                "Keep what loses too much in float32, or scale it; "
                "max_drift says how much is too much."
            )
        if row in self.updates:
            return "Report the rule with these numbers."
        return "If the program is what you mean, report the operator with these numbers."

    def sections(self) -> Iterator[tuple[str, Sequence[Comparison]]]:
        """(title, rows) of what is compared beside the operators."""
        yield "fetches", self.fetches
        yield "gradients", self.gradients
        yield "weights and states", self.updates

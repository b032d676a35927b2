"""What ``paddle_ipu.verify`` compared and found, as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.ranges import ScaleRow, ValueRange

AGREES, DIVERGES, FOLLOWS = "agrees", "diverges", "follows"
"""Verdicts on an operator: ``follows`` differs too, but so did something it reads."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One result of one operator in the drift table.

    Attributes:
        number: position of the operator in the program's forward part.
        operator: its phi name.
        source: ``file:line`` of the user's call.
        result: its result, both sides having run the whole program up to here; in a table of
            derivatives, the derivative with respect to the operand of that name.
        verdict: ``agrees``, ``diverges`` (everything it reads agrees) or ``follows``.
        values: the range of the result on the side that is compared with.
        gain: the result's drift over the largest drift among what the operator reads; how much it
            makes of errors that it is given.
        gradient: the loss's gradient with respect to the result, where both sides have it.
        gradient_values: its range as backward has it, times the loss scale.
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

    def place(self) -> str:
        """The operator and the user's line."""
        return f"{self.operator} at {self.source}" if self.source else self.operator


@dataclass(frozen=True, slots=True)
class NotFinite:
    """Where the first NaN, or the first infinity, comes from.

    Attributes:
        kind: ``NaN`` or ``infinity``.
        phase: ``forward``, ``loss``, ``backward``, ``update``, ``feed`` or ``weight``.
        operator: the operator's phi name; the update rule; "" for a feed or weight.
        source: ``file:line`` of the user's call, "" where Paddle recorded none.
        tensor: name of the tensor that holds it.
        micro_batch: counted over the steps.
        count, size: how many elements of how many.
        reason: what the operator was given.
        advice: what to do.
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

    def __str__(self) -> str:
        place = f"{self.operator} at {self.source}" if self.source else self.operator
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
    """Something that explains a loss that does not go down.

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
"""By what ``against`` says: what is compared, and what with."""


@dataclass(slots=True)
class ReportContents:
    """What was compared, and what differs.

    Attributes:
        rtol, atol: an element agrees when ``|got - expected| <= atol + rtol * |expected|``.
        steps: how often the program ran on either side.
        fetches: in the order of `fetch_list`.
        gradients: the raw gradient of every trained parameter, before clipping and decay.
        updates: trained parameters and optimizer state after the steps.
        operators: every forward operator; filled on a difference, or when asked for.
        derivatives: every differentiable operand of every operator by itself, in the order of
            backward; filled where gradients differ though every operator agrees.
        notes: what was not compared, and why.
        against: what the program is compared with, a key of :data:`SIDES`.
        max_drift: beside another precision, the norm of an error may be this share of the norm.
        not_finite: where NaN and infinity come from, when a fetch, a gradient or a weight has one.
        findings: what may keep the loss from going down.
        course: in training over several steps, how loss, gradients and weights went.
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
    derivatives: list[OperatorRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    against: str = "cpu"
    max_drift: float = 0.0
    not_finite: list[NotFinite] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    course: list[StepRow] = field(default_factory=list)
    loss_scale: float = 1.0
    scales: list[ScaleRow] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        """True when no fetch, gradient, weight and state of the IPU holds NaN or infinity."""
        return not any(row.not_finite for row in (*self.fetches, *self.gradients, *self.updates))

    @property
    def ok(self) -> bool:
        """True when every fetch, gradient, weight and state agrees."""
        return all(row.ok for row in (*self.fetches, *self.gradients, *self.updates))

    @property
    def first_divergence(self) -> OperatorRow | Comparison | None:
        """Where the sides part: an operator, else a gradient, an update or a fetch; None if `ok`.

        The first operator in program order that differs while all it reads agrees; without one
        the first operator in the order of backward whose own derivative differs; then the first
        gradient, weight or state.
        """
        if self.ok:
            return None
        for operator in (*self.operators, *self.derivatives):
            if operator.verdict == DIVERGES:
                return operator
        rows = (*self.gradients, *self.updates, *self.fetches)
        return next(row for row in rows if not row.ok)

    def explanation(self) -> str:
        """What differs, where it began and what to do; "" when everything agrees."""
        first = self.first_divergence
        if first is None:
            return ""
        counts = [
            f"{sum(not row.ok for row in rows)} of {len(rows)} {name}"
            for name, rows in self.sections()
            if any(not row.ok for row in rows)
        ]
        lines = [f"{', '.join(counts)} differ from {self.other} ({self.tolerance})."]
        lines += map(str, (*self.findings, *self.not_finite))
        if not self.not_finite:
            lines += [self._where(first), self._advice(first)]
        return "\n".join(lines)

    @property
    def other(self) -> str:
        """What the program is compared with, in words."""
        return SIDES[self.against][1]

    @property
    def tolerance(self) -> str:
        """What counts as agreeing, in words."""
        if self.against == "cpu":
            return f"rtol={self.rtol:g}, atol={self.atol:g}"
        return f"drift up to {self.max_drift:g}"

    def _where(self, first: OperatorRow | Comparison) -> str:
        if isinstance(first, OperatorRow) and first in self.derivatives:
            return (
                f"First diverging derivative: {first.place()} with respect to its operand "
                f"{first.result.name}: {first.result.numbers()}. Every operator agrees forward."
            )
        if isinstance(first, OperatorRow):
            return (
                f"First diverging operator: {first.place()} (result {first.result.name}): "
                f"{first.result.numbers()}. Everything it reads agrees."
            )
        place = f" ({first.source})" if first.source else ""
        text = f"First difference: {first.name!r}, {first.what}{place}: {first.numbers()}."
        if first in self.gradients:
            if not self.derivatives:
                return text
            return f"{text} Each operator agrees by itself: rounding added up."
        if first in self.updates:
            return f"{text} Every gradient agrees, so the update does not."
        if not self.operators:
            return text
        return f"{text} No single operator is out of tolerance by itself: rounding added up."

    def _advice(self, first: OperatorRow | Comparison) -> str:
        row = first.result if isinstance(first, OperatorRow) else first
        if self.against != "cpu":
            hint = (
                "Keep what loses too much in float32, or scale it; "
                "max_drift says how much is too much."
            )
        elif row.shape == row.expected_shape and row.max_abs <= 1e-4 * row.magnitude:
            hint = (
                "The error is small beside the tensor's largest element "
                f"({row.magnitude:.3g}), as rounding is: raise rtol and atol if you expect it."
            )
        elif row in self.updates:
            hint = (
                "Where a gradient is rounding noise around zero, Adam, AdamW and Lamb turn it into "
                "whole steps of either sign; otherwise report the rule."
            )
        else:
            hint = "If the program is what you mean, report the operator with these numbers."
        return (
            f"{hint} verify(..., raise_on_mismatch=False) returns the report; its "
            "save_html(path) writes the table of every operator."
        )

    def sections(self) -> Iterator[tuple[str, Sequence[Comparison]]]:
        """(title, rows) of what is compared beside the operators."""
        yield "fetches", self.fetches
        yield "gradients", self.gradients
        yield "weights and states", self.updates

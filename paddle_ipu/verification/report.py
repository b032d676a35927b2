"""What ``paddle_ipu.verify`` found: comparisons of tensors, the drift table, and their text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

AGREES, DIVERGES, FOLLOWS = "agrees", "diverges", "follows"
"""Verdicts on an operator: ``follows`` differs too, but so did something it reads."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor of the IPU beside the same one of Paddle's CPU kernels.

    Attributes:
        name: the tensor's name in the program.
        what: what it is, in words.
        source: ``file:line`` of the user's call it comes from, "" where there is none.
        ok: shape and dtype are equal and every element is within tolerance.
        shape, dtype: of the IPU's tensor, for one micro-batch.
        expected_shape, expected_dtype: of the CPU's.
        max_abs: largest ``|got - expected|``; infinite where only one side is finite.
        max_rel: largest ``|got - expected| / |expected|`` where `expected` is not zero.
        magnitude: largest finite ``|expected|``.
        differing: how many of the `size` elements are out of tolerance.
        got, expected: the element that is worst against its tolerance, at `index`.
        micro_batch: the first micro-batch out of tolerance, counted over the steps; else None.
    """

    name: str
    what: str
    source: str
    ok: bool
    shape: tuple[int, ...]
    expected_shape: tuple[int, ...]
    dtype: str
    expected_dtype: str
    max_abs: float
    max_rel: float
    magnitude: float
    differing: int
    size: int
    index: tuple[int, ...]
    got: float
    expected: float
    micro_batch: int | None

    def numbers(self) -> str:
        """Got and expected, in words."""
        if self.shape != self.expected_shape:
            return f"got shape {list(self.shape)}, expected {list(self.expected_shape)}"
        if self.dtype != self.expected_dtype:
            return f"got dtype {self.dtype}, expected {self.expected_dtype}"
        return (
            f"got {self.got:.7g}, expected {self.expected:.7g} at {list(self.index)}; "
            f"{self.differing} of {self.size} elements differ, max abs error {self.max_abs:.3g}, "
            f"max rel error {self.max_rel:.3g}"
        )


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
    """

    number: int
    operator: str
    source: str
    result: Comparison
    verdict: str

    def place(self) -> str:
        """The operator and the user's line."""
        return f"{self.operator} at {self.source}" if self.source else self.operator


@dataclass(slots=True)
class VerificationReport:
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
            for name, rows in self._sections()
            if any(not row.ok for row in rows)
        ]
        return (
            f"{', '.join(counts)} differ from Paddle's CPU kernels (rtol={self.rtol:g}, "
            f"atol={self.atol:g}).\n{self._where(first)}\n{self._advice(first)}"
        )

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
        if row.shape == row.expected_shape and row.max_abs <= 1e-4 * row.magnitude:
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

    def _sections(self) -> Iterator[tuple[str, Sequence[Comparison]]]:
        yield "fetches", self.fetches
        yield "gradients", self.gradients
        yield "weights and states", self.updates

    def __str__(self) -> str:
        lines = [
            f"verify: {'agrees with' if self.ok else 'DIFFERS from'} Paddle's CPU kernels "
            f"after {self.steps} step(s), rtol={self.rtol:g}, atol={self.atol:g}"
        ]
        lines += [f"note: {note}" for note in self.notes]
        for title, rows in self._sections():
            if rows:
                lines += ["", f"{title}:", _HEADER]
                lines += [_line("ok" if r.ok else "DIFFERS", r, r.what) for r in rows]
        if self.operators:
            lines += ["", "operators, in program order:", _HEADER]
            lines += [_line(o.verdict, o.result, o.place()) for o in self.operators]
        if self.derivatives:
            lines += ["", "derivatives of each operator by itself:", _HEADER]
            lines += [_line(o.verdict, o.result, o.place()) for o in self.derivatives]
        if not self.ok:
            lines += ["", self.explanation()]
        return "\n".join(lines)

    def to_html(self) -> str:
        """A page that needs nothing else: tables that sort by a click on a column's head."""
        from paddle_ipu.verification.page import page

        return page(self)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`to_html` to a file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")


_HEADER = f"  {'':8} {'max abs':>9} {'max rel':>9} {'magnitude':>9}  name"


def _line(verdict: str, row: Comparison, where: str) -> str:
    numbers = f"{row.max_abs:9.2e} {row.max_rel:9.2e} {row.magnitude:9.2e}"
    return f"  {verdict:8} {numbers}  {row.name}  {where}"


def compare(
    name: str,
    *,
    got: Sequence[Array],
    expected: Sequence[Array],
    rtol: float,
    atol: float,
    what: str = "",
    source: str = "",
) -> Comparison:
    """Compares one tensor over micro-batches.

    Integers and bools must be equal; NaN equals NaN, infinity equals infinity of the same sign.

    Args:
        got, expected: one array for each micro-batch, in their order.
    """
    first, other = got[0], expected[0]
    common: dict[str, Any] = {
        "name": name,
        "what": what,
        "source": source,
        "shape": first.shape,
        "expected_shape": other.shape,
        "dtype": first.dtype.name,
        "expected_dtype": other.dtype.name,
    }
    if first.shape != other.shape or not first.size:
        same = first.shape == other.shape and first.dtype == other.dtype
        return Comparison(
            **common, ok=same, max_abs=0.0 if same else np.inf, max_rel=0.0 if same else np.inf,
            magnitude=0.0, differing=0 if same else int(other.size), size=int(other.size),
            index=(), got=np.nan, expected=np.nan, micro_batch=None if same else 0,
        )  # fmt: skip
    a = np.stack([np.asarray(array, np.float64) for array in got])
    b = np.stack([np.asarray(array, np.float64) for array in expected])
    exact = not np.issubdtype(other.dtype, np.floating)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.where(equal, 0.0, np.abs(a - b))
    error = np.where(np.isfinite(error), error, np.inf)
    finite = np.where(np.isfinite(b), np.abs(b), 0.0)
    allowed = np.zeros_like(finite) if exact else atol + rtol * finite
    out = error > allowed
    relative = error[finite > 0] / finite[finite > 0]
    worst = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
    turns = out.reshape(len(out), -1).any(axis=1)
    return Comparison(
        **common,
        ok=not out.any() and first.dtype == other.dtype,
        max_abs=float(error.max()),
        max_rel=float(relative.max(initial=0.0)),
        magnitude=float(finite.max()),
        differing=int(out.sum()),
        size=int(out.size),
        index=tuple(int(i) for i in worst[1:]),
        got=float(a[worst]),
        expected=float(b[worst]),
        micro_batch=int(np.argmax(turns)) if turns.any() else None,
    )

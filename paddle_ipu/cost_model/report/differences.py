"""What grew and what shrank between two reports: of the whole, and by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from paddle_ipu.cost_model.report.figures import Figures, LayerFigures

Unit = Literal["rows/s", "s", "cycles", "bytes"]

_ROUNDING = 1e-9
"""Relative: sums of the same cycles in another order are equal."""

_TOTALS: tuple[tuple[str, Unit, Callable[[Figures], float]], ...] = (
    ("throughput", "rows/s", lambda figures: figures.throughput),
    ("latency", "s", lambda figures: figures.latency),
    ("cycles of a {period}", "cycles", lambda figures: figures.update_cycles),
    ("fullest tile", "bytes", lambda figures: figures.fullest_tile),
    ("always live, all IPUs", "bytes", lambda figures: figures.always),
    ("not always live, at the peaks", "bytes", lambda figures: figures.passing),
    ("streaming memory", "bytes", lambda figures: figures.off_chip),
)
_MEASURES: tuple[tuple[str, str, Unit, Callable[[LayerFigures], float]], ...] = (
    ("cycles", "cycles of a micro-batch", "cycles", lambda layer: layer.cycles),
    ("always", "always-live memory", "bytes", lambda layer: layer.always),
    ("passing", "memory that is not always live", "bytes", lambda layer: layer.passing),
)


@dataclass(frozen=True, slots=True)
class Change:
    """A figure in two reports.

    Attributes:
        name: what it is of: a total, or the path of a layer.
        before: None where the first report has no such layer.
        after: None where the second has none.
    """

    name: str
    unit: Unit
    before: float | None
    after: float | None

    @property
    def amount(self) -> float:
        """What was added; negative where it shrank."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def differs(self) -> bool:
        """Whether the figures differ, other than by rounding."""
        largest = max(abs(self.after or 0.0), abs(self.before or 0.0))
        return abs(self.amount) > _ROUNDING * largest


@dataclass(frozen=True, slots=True)
class LayerChanges:
    """One measure of the layers.

    Attributes:
        key: ``cycles``, ``always`` or ``passing``.
        title: what is measured, in words.
        changes: those that changed, the largest change first.
        unchanged: how many layers of both reports did not.
    """

    key: str
    title: str
    changes: tuple[Change, ...]
    unchanged: int


@dataclass(frozen=True)
class Differences:
    """What is different in a second report.

    Attributes:
        settings: (name, before, after) of what predictions depend on, where it is not the same.
        totals: of the whole, changed or not; those that are 0 in both are left out.
        layers: by measure.
        gone: layers of the first report only.
        new: layers of the second one only.
    """

    before: Figures
    after: Figures
    settings: tuple[tuple[str, Any, Any], ...]
    totals: tuple[Change, ...]
    layers: tuple[LayerChanges, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def share_no_layer(self) -> bool:
        """Whether both have layers, and none of them is the same."""
        first, second = (set(figures.layers) - {""} for figures in (self.before, self.after))
        return bool(first and second and not first & second)


def differences(before: Figures, after: Figures) -> Differences:
    """Compares the figures of two reports."""
    names = dict.fromkeys([*before.settings, *after.settings])
    pairs = [(name, before.settings.get(name), after.settings.get(name)) for name in names]
    period = "weight update" if before.training or after.training else "micro-batch"
    totals = [
        Change(name.format(period=period), unit, of(before), of(after))
        for name, unit, of in _TOTALS
    ]
    return Differences(
        before,
        after,
        tuple(pair for pair in pairs if pair[1] != pair[2]),
        tuple(total for total in totals if total.before or total.after),
        tuple(_layer_changes(before, after, *measure) for measure in _MEASURES),
        tuple(sorted(set(before.layers) - set(after.layers))),
        tuple(sorted(set(after.layers) - set(before.layers))),
    )


def _layer_changes(
    before: Figures,
    after: Figures,
    key: str,
    title: str,
    unit: Unit,
    measure: Callable[[LayerFigures], float],
) -> LayerChanges:
    def value(figures: Figures, layer: str) -> float | None:
        found = figures.layers.get(layer)
        return None if found is None else measure(found)

    rows = [
        Change(layer, unit, value(before, layer), value(after, layer))
        for layer in {**before.layers, **after.layers}
    ]
    changed = sorted((row for row in rows if row.differs), key=lambda row: -abs(row.amount))
    same = sum(not row.differs for row in rows if None not in (row.before, row.after))
    return LayerChanges(key, title, tuple(changed), same)

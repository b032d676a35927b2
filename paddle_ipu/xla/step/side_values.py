"""What goes into the evaluation of a graph, and comes out of it, beside the graph's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import jax

from paddle_ipu.xla.lowerings.range_checks import Checks, RangeChecks
from paddle_ipu.xla.step.finite_checks import FiniteFlags


@dataclass(slots=True)
class SideValues:
    """Side values of a graph, or of a segment of it that is evaluated under ``jax.checkpoint``.

    Attributes:
        taps: tensor -> zeros added to that input, weight or result, to differentiate with respect
            to it.
        finite: collects which results are finite; None where none is looked at.
        checks: collects range checks; None where there are none.
    """

    taps: Mapping[str, jax.Array] = field(default_factory=dict)
    finite: FiniteFlags | None = None
    checks: Checks | None = None

    def of_segment(self, taps: Mapping[str, jax.Array]) -> SideValues:
        """Empty side values of a segment, to be added to these by :meth:`add`."""
        return SideValues(
            taps,
            None if self.finite is None else FiniteFlags(),
            None if self.checks is None else RangeChecks(),
        )

    @property
    def flags(self) -> list[jax.Array]:
        """The flags that were collected."""
        return [] if self.finite is None else self.finite.flags

    @property
    def extremes(self) -> list[jax.Array]:
        """The extremes of the range checks that were collected."""
        return self.checks.extremes if isinstance(self.checks, RangeChecks) else []

    def add(
        self, segment: SideValues, flags: Sequence[jax.Array], extremes: Sequence[jax.Array]
    ) -> None:
        """Adds those of a segment, with the arrays that the checkpointed function returned."""
        if self.finite is not None and segment.finite is not None:
            self.finite.nodes += segment.finite.nodes
            self.finite.flags += flags
        if isinstance(self.checks, RangeChecks) and isinstance(segment.checks, RangeChecks):
            self.checks.checks += segment.checks.checks
            self.checks.extremes += extremes

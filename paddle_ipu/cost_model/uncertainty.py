"""How far a predicted rate may be off: an interval, and which figures it hangs on most.

Each uncertain figure is set to both ends of what is believed of it
(:data:`~paddle_ipu.cost_model.constants.TABLE`,
:data:`~paddle_ipu.cost_model.machines.UNCERTAIN`), and the program is predicted anew. Figures are
taken to be independent, so the logarithms of the rates' changes add up as squares; with them does
what no figure stands for (:data:`UNMODELLED`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, hypot, log

from paddle_ipu.cost_model.constants import CONSTANTS, TABLE
from paddle_ipu.cost_model.cycles import predict_cycles
from paddle_ipu.cost_model.liveness import StageLiveness
from paddle_ipu.cost_model.machines import UNCERTAIN, Machine
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import Prediction
from paddle_ipu.cost_model.program import Program

UNMODELLED = (0.87, 1.12)
"""Factors of a rate between which 80 % of the belief lies when all figures are right: control code,
the scheduler's order, the host. Assumed from published rates (``python -m benchmarks.published``).
"""

CHECKED = (
    "on published rates of BERT and ResNet-50; those of other networks were 17 to 38 % lower than "
    "predicted"
)
"""What predictions were checked on. Of four families that nothing was fitted to, one of eleven
published rates is in its interval (``python -m benchmarks.public_examples``)."""

_LEAST = 5e-4


@dataclass(frozen=True, slots=True)
class Influence:
    """What one figure does to the rate.

    Attributes:
        name: of the constant, or of the machine's figure.
        kind: ``fitted``, ``counted``, ``assumed`` or ``machine``.
        factors: of the figure, low and high.
        rates: the rate over the predicted one, at each of them.
    """

    name: str
    kind: str
    factors: tuple[float, float]
    rates: tuple[float, float]

    @property
    def reach(self) -> float:
        """The larger of the two changes of the rate's logarithm."""
        return max(abs(log(rate)) for rate in self.rates)


@dataclass(frozen=True, slots=True)
class Interval:
    """Between which rates 80 % of the belief lies.

    Attributes:
        low, high: rows a second.
        influences: of the figures that matter, the largest first.
    """

    low: float
    high: float
    influences: tuple[Influence, ...]


def rate_interval(prediction: Prediction, lives: Mapping[int, StageLiveness]) -> Interval:
    """The interval of a predicted throughput.

    Args:
        lives: the stages' liveness, as for :func:`~paddle_ipu.cost_model.prediction.predict`.
    """
    program, machine = prediction.program, prediction.machine
    rate = prediction.cycles.throughput
    if not rate:
        return Interval(0.0, 0.0, ())

    found = [
        Influence(name, kind, factors, (ends[0] / rate, ends[1] / rate))
        for name, kind, factors, ends in _rates(program, machine, lives)
    ]
    down, up = -log(UNMODELLED[0]), log(UNMODELLED[1])
    for influence in found:
        changes = [log(by) for by in influence.rates]
        down, up = hypot(down, min(0.0, *changes)), hypot(up, max(0.0, *changes))
    found.sort(key=lambda influence: -influence.reach)
    influences = tuple(influence for influence in found if influence.reach >= _LEAST)
    return Interval(rate * exp(-down), rate * exp(up), influences)


def ratio_interval(
    first: Prediction,
    other: Prediction,
    lives: Mapping[int, StageLiveness],
    other_lives: Mapping[int, StageLiveness],
) -> tuple[float, float]:
    """Between which shares of the first's rate 80 % of the belief has the other's.

    A figure is changed for both at once: what makes both slower alike makes neither of them better.
    Both are predicted for one machine.

    Args:
        lives: the liveness of the first's stages, `other_lives` of the other's.
    """
    rates = first.cycles.throughput, other.cycles.throughput
    if not all(rates):
        return 0.0, 0.0
    ratio = rates[1] / rates[0]
    down = up = 0.0
    for (*_, mine), (*_, theirs) in zip(
        _rates(first.program, first.machine, lives),
        _rates(other.program, other.machine, other_lives),
        strict=True,
    ):
        changes = [log(b / a / ratio) for a, b in zip(mine, theirs, strict=True)]
        down, up = hypot(down, min(0.0, *changes)), hypot(up, max(0.0, *changes))
    return ratio * exp(-down), ratio * exp(up)


def _rates(
    program: Program, machine: Machine, lives: Mapping[int, StageLiveness]
) -> Iterator[tuple[str, str, tuple[float, float], tuple[float, float]]]:
    """Of each uncertain figure its name, its kind, its factors, and the rate at each of them."""

    def rate(machine: Machine, pricing: Pricing) -> float:
        return predict_cycles(program, machine, pricing, lives).throughput

    for name, belief in TABLE.items():
        factors = belief.low, belief.high
        ends = (replace(CONSTANTS, **{name: getattr(CONSTANTS, name) * by}) for by in factors)
        low, high = (rate(machine, Pricing(machine.processor, end)) for end in ends)
        yield name, belief.kind, factors, (low, high)
    for name, factors in UNCERTAIN.items():
        low, high = (rate(o, Pricing(o.processor)) for o in _with(machine, name, factors))
        yield name, "machine", factors, (low, high)


def _with(machine: Machine, name: str, factors: tuple[float, float]) -> Iterator[Machine]:
    """The machine with a figure of it, or of its processor, times each of the factors."""
    for by in factors:
        if hasattr(machine, name):
            yield replace(machine, **{name: getattr(machine, name) * by})
        else:
            processor = machine.processor
            changed = replace(processor, **{name: getattr(processor, name) * by})
            yield replace(machine, processor=changed)

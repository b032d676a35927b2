"""A plan's candidates as strategies that ``compile`` takes: each translates the program anew.

The planner scales tensors and places PopART's operators, which is fast and an estimate. What is
proposed to the user is translated and predicted as ``compile`` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddle_ipu.compiler.paddle_modes import static_mode
from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.compiler.source import Source
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.plan import PLANNED, Candidate, Plan, preferred
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.report.strategy_text import Call, strategy_calls, strategy_text
from paddle_ipu.errors import PaddleIpuError, popart_exception
from paddle_ipu.options.strategy import check_consistent

if TYPE_CHECKING:
    import paddle

_MOST_TRANSLATED = 32
"""How often a program is translated at most."""


@dataclass(frozen=True, repr=False)
class Proposal:
    """A strategy that ``compile`` takes, by the calls that make it, and its prediction."""

    candidate: Candidate
    calls: Sequence[Call]

    @property
    def throughput(self) -> float:
        """Rows a second, all replicas together."""
        return self.candidate.prediction.cycles.throughput

    def strategy(self) -> paddle.static.IpuStrategy:
        """A new ``IpuStrategy`` with its options, which ``to_static`` layers do not run with."""
        with static_mode():
            return _strategy_of(self.calls)

    def __str__(self) -> str:
        return strategy_text(self.calls)

    def __repr__(self) -> str:
        program = self.candidate.prediction.program
        return (
            f"<Proposal: {self.throughput:,.0f} rows/s with {program.settings.replicas} replica(s) "
            f"of {program.settings.ipus // program.settings.replicas} IPU(s), "
            f"{program.rows} row(s) a micro-batch>"
        )


@dataclass(frozen=True)
class Proposals:
    """What a plan comes to.

    Attributes:
        proposals: those with room in memory first, each kind fastest first; of a tie for the
            first place the emptiest is there.
        refused: messages of ``compile`` for candidates that it does not take, each once.
        by_hand: the fastest candidate whose placement ``need_avg_shard`` does not make, None
            where a proposal is as fast.
    """

    proposals: Sequence[Proposal]
    refused: Sequence[str]
    by_hand: Candidate | None


def proposals(
    source: Source,
    made: Plan,
    machine: Machine,
    *,
    most: int,
    machine_name: str,
    translation: Translation | None = None,
) -> Proposals:
    """The fastest candidates of a plan that ``compile`` takes; in static mode.

    Args:
        most: how many.
        machine_name: what ``ipu_machine`` takes for the machine.
        translation: of the source, kept from a plan for another machine of its IPUs.
    """
    pricing = Pricing(machine.processor)
    translation = translation or Translation(source)
    before = translation.count
    found: list[Proposal] = []
    refused: list[str] = []
    by_hand: list[Candidate] = []
    written: set[str] = set()
    for candidate in made.candidates:
        if len(found) == most or translation.count - before == _MOST_TRANSLATED:
            break
        calls = strategy_calls(candidate, source.values, translation.fresh, machine_name)
        # Placements of which ``need_avg_shard`` makes the same one.
        if (text := strategy_text(calls)) in written:
            continue
        written.add(text)
        try:
            program = translation.of(candidate, calls)
        except (PaddleIpuError, popart_exception) as error:
            refused.append(str(error))
            continue
        prediction = predict(program, machine, pricing)
        if prediction.memory.fits:
            found.append(Proposal(Candidate(prediction, candidate.cuts), calls))
        elif is_placed(candidate):
            by_hand.append(candidate)
    found = preferred(found, lambda proposal: proposal.candidate)
    return Proposals(found, list(dict.fromkeys(refused)), _faster(by_hand, found))


def is_placed(candidate: Candidate) -> bool:
    """Whether a candidate has a placement that is not the program's own."""
    return candidate.cuts is not None and candidate.prediction.program.settings.pipelined


def _faster(by_hand: Sequence[Candidate], found: Sequence[Proposal]) -> Candidate | None:
    if not by_hand:
        return None
    best = found[0].candidate.prediction.cycles.throughput if found else 0.0
    return by_hand[0] if by_hand[0].prediction.cycles.throughput > best else None


class Translation:
    """A program translated for candidates, once for several that differ in settings alone.

    Args:
        source: the program.

    Attributes:
        fresh: what a new ``IpuStrategy`` has.
        count: how often it was translated.
    """

    def __init__(self, source: Source) -> None:
        self.fresh = _strategy_of(())._ipu_strategy.snapshot()
        self.count = 0
        self._source = source
        self._alike: dict[tuple[int, float, str, int, int], Program] = {}
        self._refused: dict[int, Exception] = {}

    def of(self, candidate: Candidate, calls: Sequence[Call]) -> Program:
        """The program that ``compile`` would give to a session.

        Raises:
            PaddleIpuError, popart_exception: it would refuse it.
        """
        strategy = _strategy_of(calls)
        check_consistent(strategy._ipu_strategy.snapshot())
        planned = candidate.prediction.program
        if planned.rows in self._refused:
            raise self._refused[planned.rows]
        settings = planned.settings
        if settings.pipelined and settings.training:
            # Where it is cut depends on all options.
            return self._translated(strategy, planned)
        largest = max((op.memory_proportion for op in planned.operators), default=0.0)
        of_replica = settings.ipus // settings.replicas if settings.pipelined else 0
        steps = settings.batches_per_step if settings.pipelined else 0
        key = (planned.rows, largest, settings.recomputation, of_replica, steps)
        if key not in self._alike:
            self._alike[key] = self._translated(strategy, planned)
        return self._alike[key].with_settings(
            **{name: getattr(planned.settings, name) for name in PLANNED}
        )

    def _translated(self, strategy: paddle.static.IpuStrategy, planned: Program) -> Program:
        self.count += 1
        source = self._source
        try:
            return predicted_program(source.program, strategy, source.feeds, source.fetches)
        except (PaddleIpuError, popart_exception) as error:
            if not planned.settings.pipelined:
                # Operators that have other rows than the feeds.
                self._refused[planned.rows] = error
            raise


def _strategy_of(calls: Sequence[Call]) -> paddle.static.IpuStrategy:
    """A new strategy with those calls made."""
    import paddle

    strategy = paddle.static.IpuStrategy()
    for call in calls:
        call.on(strategy)
    return strategy

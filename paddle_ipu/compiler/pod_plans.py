"""The smallest Pod that does a program's work at a wanted rate, and what the next size gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paddle_ipu.compiler.proposals import Proposal
from paddle_ipu.compiler.strategy_plan import StrategyPlan, proposal_record, table_head, table_row
from paddle_ipu.cost_model.machines import Machine
from paddle_ipu.cost_model.memory_check import size
from paddle_ipu.cost_model.plan import Candidate
from paddle_ipu.cost_model.report.terminal import printable
from paddle_ipu.cost_model.uncertainty import CHECKED


@dataclass(frozen=True, repr=False)
class PodPlan:
    """What a plan for a Pod came to. The candidates, which take memory, are left out.

    Attributes:
        best: the fastest strategy that fits with room, else the fastest that fits; None where none
            does.
        by_hand: the estimate of a placement that is faster, to be made with ``ipu_shard_guard``.
        closest: what lacks least of those that do not fit.
    """

    machine: Machine
    best: Proposal | None
    by_hand: Candidate | None
    closest: Candidate | None

    @property
    def throughput(self) -> float:
        """Rows a second of the fastest; 0 where nothing fits."""
        fastest = self._fastest
        return 0.0 if fastest is None else fastest.prediction.cycles.throughput

    def __str__(self) -> str:
        return f"{self.machine.name} gives {self.throughput:,.0f} rows/s"

    def __repr__(self) -> str:
        return f"<PodPlan: {self}>"

    def line(self) -> str:
        """The fastest strategy as a row of a table, or why there is none."""
        if (fastest := self._fastest) is not None:
            by_hand = "" if self.by_hand is None else "  (placed by hand)"
            return table_row(fastest) + by_hand
        if self.closest is None:
            return "no strategy makes this batch"
        lacking = size(self.closest.prediction.memory.worst.over)
        return f"no strategy fits; the closest lacks {lacking} on an IPU"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "machine": self.machine.name,
            "ipus": self.machine.ipus,
            "throughput": self.throughput,
            "placed_by_hand": self.by_hand is not None,
            "best": None if self.best is None else proposal_record(self.best),
        }

    @property
    def _fastest(self) -> Candidate | None:
        return self.by_hand or (None if self.best is None else self.best.candidate)


def pod_plan_of(plan: StrategyPlan) -> PodPlan:
    """What is kept of a plan."""
    return PodPlan(plan.target.machine, plan.best, plan.proposed.by_hand, plan.tried.closest)


@dataclass(frozen=True, repr=False)
class PodPlans:
    """Plans for Pods of growing size, to the one behind the smallest that reaches a rate.

    ``print`` shows what ``paddle-ipu plan --rate`` prints.

    Attributes:
        rate: wanted rows a second, all replicas together.
        pods: the smallest first.
        training: what is planned is trained.
        subject: what is planned, in a line, where that is a model of the zoo; else "".
    """

    rate: float
    pods: Sequence[PodPlan]
    training: bool
    subject: str = ""

    @property
    def smallest(self) -> PodPlan | None:
        """The smallest Pod that reaches the rate; None where none does."""
        return next((pod for pod in self.pods if pod.throughput >= self.rate), None)

    @property
    def following(self) -> PodPlan | None:
        """The next size; None where there is none, or none reaches the rate."""
        if self.smallest is None:
            return None
        return next(iter(self.pods[self.pods.index(self.smallest) + 1 :]), None)

    def __str__(self) -> str:
        lines = [self.subject] if self.subject else []
        lines += [self._answer(), f"{'machine':<10}  {table_head(self.training)}"]
        lines += [f"{pod.machine.name:<10}  {pod.line()}" for pod in self.pods]
        if self.smallest is not None:
            lines.append(f"--machine {self.smallest.machine.name} instead of --rate shows how")
        if any(pod.throughput for pod in self.pods):
            lines.append(f"predictions were checked {CHECKED}")
        return printable("\n".join(lines))

    def __repr__(self) -> str:
        return printable(self._answer())

    def to_dict(self) -> dict[str, Any]:
        """The plans as plain data, as ``paddle-ipu plan --rate --json`` prints them."""
        smallest, following = self.smallest, self.following
        return {
            "rate": self.rate,
            "smallest": None if smallest is None else smallest.machine.name,
            "next": None if following is None else following.machine.name,
            "pods": [pod.to_dict() for pod in self.pods],
            "checked": CHECKED,
        }

    def _answer(self) -> str:
        """The smallest Pod and what the next gives, or that there is none, in a line."""
        wanted, smallest, following = f"{self.rate:,.10g} rows/s", self.smallest, self.following
        if smallest is None:
            most = max(self.pods, key=lambda pod: pod.throughput)
            if not most.throughput:
                return f"no Pod reaches {wanted}: no strategy fits any of them"
            return f"no Pod reaches {wanted}: {most} at most"
        answer = f"the smallest Pod for {wanted}: {smallest}; "
        if following is None:
            return f"{answer}there is none larger"
        return (
            f"{answer}{following}, {following.throughput / smallest.throughput:.2f} times as many"
        )

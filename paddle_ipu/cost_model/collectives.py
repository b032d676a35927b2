"""Sums over replicas: what their bytes take, and what their steps take however few the bytes are.

The replicas of a link domain, R of them, are a ring, and r is the rate at which an IPU sends in it,
both directions together. GCL takes the best of its ways round for each sum (GCL user guide,
``method``); for B bytes:

    way                     steps    bytes
    bidirectional ring      2 (R-1)  2 (R-1) / R x B / r
    meeting in the middle   R        2 B / r                  (R is even)
    broadcast               1        (R-1) x B / r            to the farthest, R / 2 replicas away

A step is two syncs and a call of the workers that add up what came; on its way data pass IPUs, each
of which takes ``hop_seconds``. Link domains then exchange what the ring has scattered by a ring of
their gateways, without syncs, whose 2 (D-1) steps take ``gateway_seconds`` each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from paddle_ipu.cost_model.constants import Constants
from paddle_ipu.cost_model.links import ring_rate
from paddle_ipu.cost_model.machines import Machine, Processor


@dataclass(frozen=True, slots=True)
class SumCycles:
    """What sums take: cycles by their bytes, and cycles that they take with one byte, too."""

    bytes: float = 0.0
    latency: float = 0.0

    @property
    def cycles(self) -> float:
        """Both."""
        return self.bytes + self.latency

    def __add__(self, other: SumCycles) -> SumCycles:
        return SumCycles(self.bytes + other.bytes, self.latency + other.latency)


def sum_cycles(
    sizes: Iterable[float], replicas: int, replica_ipus: int, machine: Machine, constants: Constants
) -> SumCycles:
    """Cycles in which an IPU sums tensors with the other replicas' IPUs of its place, one by one.

    Args:
        sizes: bytes of each tensor.
        replica_ipus: IPUs of a replica, which share the links of their side.
    """
    total = SumCycles()
    if replicas < 2:
        return total
    processor = machine.processor
    domains = max(1, -(-replicas * replica_ipus // machine.link_domain))
    within = max(1, replicas // domains)
    apart = max(1, replica_ipus // 2)
    rate = ring_rate(processor, replica_ipus) / processor.clock
    hop = constants.hop_seconds * processor.clock
    # Of each IPU its replica's part goes to the other domains.
    gateway = 2.0 * (domains - 1) / domains / within * machine.board_ipus
    gateway *= processor.clock / machine.gateway_bandwidth
    waits = 2.0 * (domains - 1) * constants.gateway_seconds * processor.clock
    step = step_cycles(processor)
    for size, count in Counter(sizes).items():
        ways = (
            SumCycles(factor * size / rate, steps * step + passed * apart * hop)
            for steps, passed, factor in _ways(within)
        )
        best = min(ways, key=lambda way: way.cycles) + SumCycles(gateway * size, waits)
        total += SumCycles(count * best.bytes, count * best.latency)
    return total


def step_cycles(processor: Processor) -> float:
    """Cycles of an exchange between IPUs, however few its bytes are, and of adding what came."""
    return 2.0 * processor.global_sync_cycles + processor.call_cycles


def _ways(replicas: int) -> Iterable[tuple[int, int, float]]:
    """Steps, replicas passed one after another, and times the bytes are sent, of each way."""
    if replicas < 2:
        return [(0, 0, 0.0)]
    half = replicas // 2
    return [
        (2 * (replicas - 1), 2 * (replicas - 1), 2.0 * (replicas - 1) / replicas),
        (2 * half, 2 * half, 4.0 * half / replicas),
        (1, half, replicas - 1.0),
    ]

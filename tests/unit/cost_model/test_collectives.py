"""What sums over replicas take, beside a ring that is walked step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddle_ipu.cost_model.collectives import SumCycles, sum_cycles
from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.cycles import predict_cycles
from paddle_ipu.cost_model.machines import MACHINES, Machine
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.terminal import summary
from tests.unit.cost_model.programs import chain

POD64, POD256 = MACHINES["POD64"], MACHINES["POD256"]
CLOCK = POD64.processor.clock
STEP = 2 * POD64.processor.global_sync_cycles + POD64.processor.call_cycles
HOP = CONSTANTS.hop_seconds * CLOCK
ONE_WAY = POD64.processor.link_bandwidth * POD64.processor.link_efficiency / CLOCK
"""Bytes a cycle of a rail in one direction."""


def found(
    *sizes: float, replicas: int, ipus: int = 1, machine: Machine = POD64, hop: float = 1.0
) -> SumCycles:
    constants = replace(CONSTANTS, hop_seconds=hop * CONSTANTS.hop_seconds)
    return sum_cycles(sizes, replicas, ipus, machine, constants)


def walked(replicas: int, directions: tuple[int, ...]) -> int:
    """Steps until each replica has all fragments, which go on by one replica a step."""
    has = [{at} for at in range(replicas)]
    steps = 0
    while any(len(fragments) < replicas for fragments in has):
        steps += 1
        has = [
            {f for way in directions for f in has[(at - way) % replicas]} | has[at]
            for at in range(replicas)
        ]
    return steps


def ways(size: float, replicas: int) -> list[float]:
    """Cycles of a sum by each way: there and back it takes as many steps."""
    around, both = walked(replicas, (1,)), walked(replicas, (1, -1))
    # Each half of the bytes goes round its way, in as many fragments as there are replicas.
    ring = 2 * around * (size / 2 / replicas / ONE_WAY + STEP + HOP)
    middle = 2 * both * (size / replicas / ONE_WAY + STEP + HOP)
    # All to all: those on the busiest link are half of the others'.
    broadcast = (replicas - 1) / 2 * size / ONE_WAY + STEP + replicas // 2 * HOP
    return [ring, middle, broadcast]


@pytest.mark.parametrize("replicas", [2, 3, 4, 7, 16, 64])
@pytest.mark.parametrize("size", [4, 3e3, 1e5, 2e6, 1e9])
def test_the_best_way_round_the_ring_is_taken(replicas: int, size: float) -> None:
    expected = min(ways(size, replicas))
    assert found(size, replicas=replicas).cycles == pytest.approx(expected)


def test_small_sums_are_latency_and_large_ones_bytes() -> None:
    small, large = found(4, replicas=16), found(1e9, replicas=16)
    assert small.latency == pytest.approx(STEP + 8 * HOP) and small.bytes < 0.01 * small.latency
    assert large.bytes == pytest.approx(2 * 15 / 16 * 1e9 / (2 * ONE_WAY))
    assert large.latency < 0.01 * large.bytes


def test_every_tensor_waits_for_its_own_steps() -> None:
    many, one = found(*[1e4] * 100, replicas=16), found(1e6, replicas=16)
    assert many.latency > 10 * one.latency
    assert found(replicas=16) == found(1e6, replicas=1) == SumCycles()


def test_replicas_of_more_ipus_are_farther_apart() -> None:
    near, far = (found(4, replicas=16, ipus=ipus) for ipus in (2, 4))
    assert far.latency - near.latency == pytest.approx(8 * HOP)
    assert found(4, replicas=16, hop=2).latency - near.latency == pytest.approx(8 * HOP)


def test_link_domains_wait_for_their_gateways() -> None:
    within = found(4, replicas=64, machine=POD64)
    across = found(4, replicas=256, machine=POD256)
    steps = 2 * walked(4, (1,))
    gateways = steps * CONSTANTS.gateway_seconds * CLOCK
    assert across.latency - within.latency == pytest.approx(gateways)


def update(program: Program, machine: Machine = POD64) -> dict[str, float]:
    return predict(program, machine).cycles.update


def trained(replicas: int = 16, stages: int = 1) -> Program:
    """Eight weights of 64 x 64 half."""
    return chain(8, accumulation=8, replicas=replicas, stages=stages)


def test_merged_sums_wait_once() -> None:
    apart = trained()
    merged = update(apart.with_settings(merged_sums=True))
    assert update(apart)["steps of collectives"] > 2 * merged["steps of collectives"]
    whole = found(8 * 64 * 64 * 2, replicas=16)
    assert merged["collectives"] == pytest.approx(whole.bytes)
    assert merged["steps of collectives"] == pytest.approx(whole.latency)


def test_what_is_scattered_is_merged_by_an_option_of_its_own() -> None:
    apart = trained().with_settings(state_sharded=True, state_min_elements=0)
    assert update(apart.with_settings(merged_sums=True)) == update(apart)
    merged = update(apart.with_settings(merged_scatters=True))
    assert merged["steps of collectives"] < update(apart)["steps of collectives"]


def test_replicas_that_share_state_sum_the_norms_of_lamb() -> None:
    lamb = replace(trained(), rule="lamb")
    shared = lamb.with_settings(state_sharded=True, state_min_elements=0)
    norms = update(shared)["steps of collectives"] - update(lamb)["steps of collectives"]
    assert norms == pytest.approx(found(*[4] * 16, replicas=16).latency)
    large = shared.with_settings(state_min_elements=8192)
    assert update(large)["steps of collectives"] == update(lamb)["steps of collectives"]


def test_a_norm_of_all_gradients_goes_from_ipu_to_ipu() -> None:
    plain = trained(replicas=1, stages=4)
    clipped = replace(plain, norm_clips=1)
    assert update(plain)["steps of collectives"] == 0
    assert update(clipped)["steps of collectives"] == pytest.approx(2 * (STEP + 2 * HOP))
    assert update(replace(trained(replicas=1), norm_clips=1))["steps of collectives"] == 0


def test_the_update_and_the_interval_have_the_steps() -> None:
    program = trained(replicas=64)
    cycles = predict(program, POD64).cycles
    assert cycles.phases["update"] == pytest.approx(sum(cycles.update.values()))
    lives = livenesses(program)
    fast = replace(CONSTANTS, hop_seconds=0.0)
    pricing = Pricing(POD64.processor, fast)
    assert predict_cycles(program, POD64, pricing, lives).throughput > cycles.throughput
    report = make_report(program, POD64)
    assert "hop_seconds" in {influence.name for influence in report.interval.influences}
    assert "steps of collectives" in {name for name, *_ in report.timeline.update}
    (line,) = [
        each for each in summary(report.prediction).splitlines() if each.startswith("the weight")
    ]
    assert "steps of collectives" in line

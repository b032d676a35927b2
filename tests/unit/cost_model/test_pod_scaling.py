"""The page on scaling: its tables are what its command prints, and grow as its formulas say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import paddle_ipu
from benchmarks import pod_scaling
from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.links import ring_rate
from paddle_ipu.cost_model.program import Program

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("static_mode"),
    # Paddle's own words about batch normalisation in static mode.
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
]


@pytest.fixture(scope="module")
def found() -> Sequence[pod_scaling.Network]:
    import paddle

    paddle.enable_static()
    paddle_ipu.activate()
    try:
        return pod_scaling.networks()
    finally:
        paddle.disable_static()


def test_the_page_has_what_the_command_prints(found: Sequence[pod_scaling.Network]) -> None:
    page = pod_scaling.PAGE.read_text(encoding="utf-8")
    shown = "\n\n".join(pod_scaling.texts(found, "POD"))
    assert pod_scaling.with_tables(page, shown) == page, "run pod_scaling --write"


def sums_of(program: Program) -> list[int]:
    """Bytes of what is summed of the fullest IPU: gradients, and norms of what is shared."""
    settings = program.settings
    ipus: dict[int, dict[str, list[int]]] = {}
    for operator in program.operators:
        for tensor in operator.read:
            if tensor.name in program.state:
                shared = settings.state_sharded and tensor.elements >= settings.state_min_elements
                norms = [4, 4] if shared and program.rule == "lamb" else []
                ipus.setdefault(operator.ipu, {})[tensor.name] = [tensor.bytes, *norms]
    return max(
        ([size for sizes in group.values() for size in sizes] for group in ipus.values()), key=sum
    )


@pytest.mark.parametrize("number", [0, 1])
def test_gradients_take_what_the_links_need_and_no_longer_than_a_ring_for_each(
    found: Sequence[pod_scaling.Network], number: int
) -> None:
    network = found[number]
    sums = sums_of(network.program)
    size, count = sum(sums), len(sums)
    assert size > 1e6
    for point in pod_scaling.points(network, "POD", True):
        if point.replicas == 1:
            continue
        processor = point.machine.processor
        domains = -(-point.machine.ipus // point.machine.link_domain)
        within = point.replicas // domains
        rate = ring_rate(processor, network.ipus)
        least = 2 * (within - 1) / within * size / rate
        step = (2 * processor.global_sync_cycles + processor.call_cycles) / processor.clock
        step += max(1, network.ipus // 2) * CONSTANTS.hop_seconds
        rings = least + count * 2 * (within - 1) * step
        taken = point.gradients - point.gateways
        assert 0.9 * least < taken <= rings * (1 + 1e-9)
        share = 2 * (domains - 1) / domains * size / within * point.machine.board_ipus
        expected = share / point.machine.gateway_bandwidth
        expected += count * 2 * (domains - 1) * CONSTANTS.gateway_seconds
        assert point.gateways == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("number", [0, 1])
def test_steps_grow_with_the_system(found: Sequence[pod_scaling.Network], number: int) -> None:
    steps = [point.steps for point in pod_scaling.points(found[number], "POD", True)]
    assert steps == sorted(steps) and steps[-1] > 2 * steps[2]

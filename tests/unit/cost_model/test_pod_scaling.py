"""The page on scaling: its tables are what its command prints, and grow as its formulas say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import paddle_ipu
from benchmarks import pod_scaling
from benchmarks.pod_scaling import Point
from paddle_ipu.cost_model.links import ring_rate

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


@pytest.mark.parametrize("number", [0, 1])
def test_gradients_take_what_the_links_need(
    found: Sequence[pod_scaling.Network], number: int
) -> None:
    points = [p for p in pod_scaling.points(found[number], "POD", True) if p.replicas > 1]

    def domains(point: Point) -> int:
        return -(-point.machine.ipus // point.machine.link_domain)

    def bytes_by(point: Point) -> float:
        """Of the fullest IPU, by the formula of the ring."""
        within = point.replicas / domains(point)
        seconds = point.gradients - point.gateways
        rate = ring_rate(point.machine.processor, found[number].ipus)
        return seconds * rate * within / (within - 1) / 2

    size = bytes_by(points[0])
    assert size > 1e6
    for point in points:
        assert bytes_by(point) == pytest.approx(size)
        outside = domains(point) - 1
        within = point.replicas / domains(point)
        share = 2 * outside / domains(point) * size / within * point.machine.board_ipus
        expected = share / point.machine.gateway_bandwidth
        assert point.gateways == pytest.approx(expected, abs=1e-12)

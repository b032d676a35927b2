"""Where long programs are cut into parts."""

from __future__ import annotations

import pytest

from paddle_ipu.popart.builder import Builder
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.step import parts
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.segments import Segment


def _branches(count: int) -> tuple[list[LoweredNode], str]:
    """`count` times four operators, two of them branches of the first, the last their sum."""
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    onnx = builder.aiOnnx
    x = builder.addInputTensor("FLOAT", [4], "x")
    for _ in range(count):
        x = onnx.abs([x])
        x = onnx.add([onnx.sin([x]), onnx.cos([x])])
    return LoweredGraph(builder.model.graph).nodes, x


def _never(node: LoweredNode) -> bool:
    return False


@pytest.fixture(autouse=True)
def _hundred_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LONG", 100)


def test_a_short_program_is_left_whole() -> None:
    nodes, last = _branches(24)
    assert parts.of(nodes, [], [last], _never) == []


def test_parts_cover_the_program_and_end_where_least_is_alive() -> None:
    nodes, last = _branches(25)
    found = parts.of(nodes, [], [last], _never)
    assert [part.first for part in found] == [0, *(part.last for part in found[:-1])]
    assert found[-1].last == 100
    assert all(20 <= part.last - part.first <= 25 for part in found[:-1])
    assert all(part.called for part in found)
    # Behind the sum one result is alive, elsewhere two or three.
    assert all(nodes[part.last - 1].op_type == "Add" for part in found)
    assert [part.results for part in found] == [nodes[part.last - 1].outputs for part in found]


def test_what_is_read_behind_all_is_a_result_of_its_part() -> None:
    nodes, last = _branches(25)
    early = nodes[1].outputs[0]
    found = parts.of(nodes, [], [last, early], _never)
    assert early in found[0].results


def test_what_acts_on_the_host_is_not_called() -> None:
    nodes, last = _branches(25)
    found = parts.of(nodes, [], [last], lambda node: node is nodes[30])
    assert [part.called for part in found if part.first <= 30 < part.last] == [False]
    assert sum(part.called for part in found) == len(found) - 1


def test_large_segments_that_are_computed_again_are_called() -> None:
    nodes, last = _branches(25)
    segments = [
        Segment(0, 40, True, frozenset(), nodes[39].outputs),
        Segment(40, 44, True, frozenset(), nodes[43].outputs),
        Segment(44, 100, False, frozenset(), ()),
    ]
    large, small, *others = parts.of(nodes, segments, [last], _never)
    assert (large.first, large.last, large.recomputed, large.called) == (0, 40, True, True)
    assert (small.first, small.last, small.recomputed, small.called) == (40, 44, True, False)
    assert all(part.called and not part.recomputed for part in others)
    assert others[-1].last == 100

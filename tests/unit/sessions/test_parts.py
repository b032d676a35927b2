"""Programs that are cut into called parts: the same numbers, the same errors, less to order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import IndexRangeError, NumericalError
from paddle_ipu.xla.step import parts
from tests.unit.sessions.layered_net import FEED, TABLE, Net, Trained, check_same, train

PIPELINED: dict[str, Any] = {
    "virtualGraphMode": popart.VirtualGraphMode.Manual, "enablePipelining": True, "micro": 5,
}  # fmt: skip


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some eight operators are a long program already."""
    monkeypatch.setattr(parts, "LONG", 8)


@pytest.fixture(scope="module")
def whole() -> Trained:
    """The program in one piece."""
    return train(Net())


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    ("kind", "marks"),
    [
        ("NoRecompute", ""),
        ("Standard", ""),
        pytest.param("RecomputeAll", "checkpoint", marks=pytest.mark.long),
        pytest.param("NormOnly", "", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_parts_train_as_the_whole(whole: Trained, kind: str, marks: str) -> None:
    """Dropout draws the same masks; what recomputation asks for is done inside of parts."""
    found = train(Net(marks), kind)
    check_same(found, whole)
    assert found.called > 1
    assert whole.called == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"micro": 3},
        {"enableStochasticRounding": True},
        PIPELINED,
        {"replicas": 2, "micro": 2},
    ],
    ids=["accumulation", "stochastic rounding", "pipeline", "replicas"],
)
def test_parts_under_other_options(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    ipus = 3 if "enablePipelining" in settings else 1
    expected = train(Net(ipus=ipus), **settings)
    monkeypatch.setattr(parts, "LONG", 8)
    check_same(train(Net(ipus=ipus), **settings), expected)


@pytest.mark.long
def test_gradients_inside_a_part_can_be_anchored(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    anchors = [net.layers[2], f"Gradient___{net.layers[2]}", "Gradient___w1"]
    expected = train(net, anchors=anchors)
    monkeypatch.setattr(parts, "LONG", 8)
    check_same(train(Net(), anchors=anchors), expected)


@pytest.mark.usefixtures("cut")
def test_errors_name_the_operator_and_the_index() -> None:
    wrong = {**FEED, "rows": FEED["rows"].copy()}
    wrong["rows"][3] = TABLE
    negative = {**FEED, "scale": np.full(1, -1.0, np.float32)}
    with pytest.raises(
        IndexRangeError, match=r"operator Gather .*got index 10, expected -?\d+ to 9"
    ):
        train(Net(), feed=wrong)
    with pytest.raises(NumericalError, match="operator Log .* in micro-batch 0"):
        train(Net(logs=True), feed=negative, enableFloatingPointChecks=True)

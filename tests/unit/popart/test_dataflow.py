"""DataFlow and AnchorReturnType: what they hold and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow, InputShapeInfo
from paddle_ipu.popart.enums import AnchorReturnTypeId, ExchangeStrategy, TileSet
from paddle_ipu.popart.tensorinfo import TensorInfo


def test_anchor_return_types() -> None:
    for text in ("All", "all", "ALL"):
        assert AnchorReturnType(text).id() is AnchorReturnTypeId.All
    every = AnchorReturnType("EveryN", 2, TileSet.IO, ExchangeStrategy.OverlapLoops)
    assert (every.id(), every.rp()) == (AnchorReturnTypeId.EveryN, 2)
    assert (every.tileSet(), every.exchangeStrategy()) == (
        TileSet.IO,
        ExchangeStrategy.OverlapLoops,
    )
    assert AnchorReturnType("everyn", returnPeriod=3).rp() == 3
    assert AnchorReturnType("Sum") == AnchorReturnType("sum") != AnchorReturnType("Final")
    assert AnchorReturnType("Sum", TileSet.IO).tileSet() is TileSet.IO
    with pytest.raises(popart_exception, match="A return period should not be supplied"):
        AnchorReturnType("Sum").rp()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("EveryN",), "^Must specify return period with option 'EVERYN'$"),
        (("EveryN", 0), "^Anchor return period must be greater than zero$"),
        (("All", 2), "^A return period should not be supplied for this anchor return type$"),
        (("Some",), "^Invalid anchor return type ID supplied: Some$"),
    ],
)
def test_wrong_anchor_return_types(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        AnchorReturnType(*args)


def test_batches_are_any_whole_number() -> None:
    flow = DataFlow(np.int64(3), ["a"])
    assert flow.batchesPerStep() == 3
    assert type(flow.batchesPerStep()) is int


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match=r"AnchorReturnType takes \(str"):
        AnchorReturnType("All", "Compute")
    for args in ((1, 2), (1, "ab"), (1.0, ["a"]), (1, {"a": "All"}), (1, ["a"], "All")):
        with pytest.raises(TypeError, match=r"DataFlow takes \(int"):
            DataFlow(*args)


def test_a_map_of_anchors_is_ordered_by_id_and_a_list_as_given() -> None:
    every = AnchorReturnType("EveryN", 2)
    flow = DataFlow(4, {"b": every, "a": AnchorReturnType("Final")})
    assert flow.anchors() == ["a", "b"]
    assert flow.art("b") is every
    assert (flow.nAnchors(), flow.batchesPerStep()) == (2, 4)
    assert flow.isAnchored("a")
    assert not flow.isAnchored("c")
    listed = DataFlow(1, ["b", "a"])
    assert listed.anchors() == ["b", "a"]
    assert listed.art("a").id() is AnchorReturnTypeId.All
    final = DataFlow(1, ["a"], AnchorReturnType("Final"))
    assert final.art("a").id() is AnchorReturnTypeId.Final
    assert DataFlow(batchesPerStep=1, anchorTensors={}).nAnchors() == 0
    with pytest.raises(popart_exception, match="^Tensor c is not an anchor$"):
        flow.art("c")


@pytest.mark.parametrize(
    ("batches", "period", "message"),
    [
        (0, 1, "^'Batches per step' must be greater than zero$"),
        (2, 3, "^Return period must be <= to the number of batches per step$"),
        (3, 2, "^Return period must be a factor of the number of batches per step$"),
    ],
)
def test_periods_fit_the_step(batches: int, period: int, message: str) -> None:
    anchors = {"a": AnchorReturnType("EveryN", period)}
    with pytest.raises(popart_exception, match=message):
        DataFlow(batches, anchors)
    flow = DataFlow(6, anchors)
    with pytest.raises(popart_exception, match=message):
        flow.setBatchesPerStep(batches)
    assert flow.batchesPerStep() == 6
    flow.setBatchesPerStep(12)
    assert flow.batchesPerStep() == 12


def test_input_shape_info() -> None:
    infos = InputShapeInfo()
    infos.add("x", TensorInfo("FLOAT", [1]))
    assert infos.has("x")
    assert not infos.has("y")
    assert infos.get("x").shape() == [1]
    with pytest.raises(popart_exception, match="No input shape info for tensor 'y'"):
        infos.get("y")
    with pytest.raises(TypeError, match=r"InputShapeInfo.add takes a TensorInfo"):
        infos.add("x", [1])  # type: ignore[arg-type]

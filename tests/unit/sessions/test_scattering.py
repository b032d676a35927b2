"""What the Builder makes of scattering and of slices at computed places, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import IndexRangeError, popart_exception
from tests.unit.sessions.session_programs import builder, infer, run

Call = Callable[[popart.Builder, dict[str, str]], Any]


def _inputs(make: popart.Builder) -> dict[str, str]:
    shapes = {
        "x": ("FLOAT", [4, 3]),
        "cube": ("FLOAT", [2, 4, 3]),
        "data": ("FLOAT", [5, 3]),
        "half": ("FLOAT16", [4, 3]),
        "rows": ("INT32", [5]),
        "groups": ("INT32", [2, 3]),
        "index": ("INT32", [2, 3]),
        "part": ("FLOAT", [2, 3]),
        "offset": ("UINT32", [1]),
        "deep": ("INT32", [1, 1, 1]),
        "counts": ("INT32", [2]),
    }
    return {name: make.addInputTensor(*given, name) for name, given in shapes.items()}


SHAPES: list[tuple[str, Call, list[int]]] = [
    ("scatterreduce", lambda g, i: g.scatterreduce([i["data"], i["rows"]], 7, 0), [7, 3]),
    (
        "scatterreduce with initial values",
        lambda g, i: g.scatterreduce(
            [i["data"], i["rows"], i["x"]], 4, 0, popart.ScatterReduction.Max
        ),
        [4, 3],
    ),
    (
        "groupedscatterreduce",
        lambda g, i: g.groupedscatterreduce(
            [i["cube"], i["groups"]], 6, 1, popart.ScatterReduction.NoReduction, 2
        ),
        [2, 6, 3],
    ),
    (
        "groupedgather",
        lambda g, i: g.groupedgather([i["cube"], i["groups"]], 1, 2),
        [2, 3, 3],
    ),
    ("dynamicslice", lambda g, i: g.dynamicslice([i["x"], i["offset"]], [0], [2]), [2, 3]),
    (
        "dynamicupdate",
        lambda g, i: g.dynamicupdate([i["x"], i["offset"], i["part"]], [0], [2]),
        [4, 3],
    ),
    ("dynamiczero", lambda g, i: g.dynamiczero([i["x"], i["offset"]], [1], [2]), [4, 3]),
    (
        "dynamicadd",
        lambda g, i: g.dynamicadd([i["x"], i["offset"], i["part"]], [0], [2]),
        [4, 3],
    ),
    ("subsample", lambda g, i: g.subsample([i["data"]], [2, 3]), [3, 1]),
    (
        "sequenceslice",
        lambda g, i: g.sequenceslice([i["x"], i["data"], i["counts"], i["counts"], i["counts"]]),
        [5, 3],
    ),
]


@pytest.mark.parametrize(("call", "shape"), [row[1:] for row in SHAPES], ids=[r[0] for r in SHAPES])
def test_shapes(call: Call, shape: list[int]) -> None:
    make = builder()
    out = call(make.aiGraphcore, _inputs(make))
    assert make.getTensorShape(out) == shape


ERRORS: list[tuple[Call, str]] = [
    (
        lambda b, i: b.aiGraphcore.scatterreduce([i["data"], i["rows"]], 7, 2),
        r"ScatterReduceOp::setup axis = 2 is outside the acceptable range \[-2, 1\]",
    ),
    (
        lambda b, i: b.aiGraphcore.scatterreduce([i["data"], i["rows"]], 0, 0),
        "ScatterReduceOp axis_size = 0 is not valid: must be > 0.",
    ),
    (
        lambda b, i: b.aiGraphcore.groupedscatterreduce(
            [i["cube"], i["groups"]], 6, 1, group_size=0
        ),
        "ScatterReduceOp group_size = 0 is not valid: must be > 0.",
    ),
    (
        lambda b, i: b.aiGraphcore.scatterreduce(
            [i["data"], i["rows"]], 7, 0, enable_index_broadcast=2
        ),
        "enable_index_broadcast = 2 is not valid: must be either 0 or 1",
    ),
    (
        lambda b, i: b.aiGraphcore.scatterreduce([i["data"], i["deep"]], 7, 0),
        "Invalid rank for indices input. Indices rank 3 must be <= data input rank 2.",
    ),
    (
        lambda b, i: b.aiGraphcore.scatterreduce([i["data"], i["rows"]], 7, 1),
        r"Failed to expand 'indices' shape \[5\] to match 'src' shape \[5 3\] using reduction axis",
    ),
    (
        lambda b, i: b.aiGraphcore.scatterreduce([i["data"], i["index"]], 7, 0),
        "Partial broadcasting of indices is not currently supported.",
    ),
    (
        lambda b, i: b.aiGraphcore.groupedgather([i["cube"], i["groups"]], 3),
        r"GatherOp::setup axis = 3 is outside the acceptable range \[-3, 2\]",
    ),
    (
        lambda b, i: b.aiGraphcore.groupedgather([i["cube"], i["groups"]], 0, 2),
        "GatherOp::setup axis = 0 indicates the dimension of the group",
    ),
    (
        lambda b, i: b.aiGraphcore.dynamicslice([i["x"], i["offset"]], [0, 1], [2, 2]),
        r"axes \[0, 1\], sizes \[2, 2\] and offset 'offset' \[1\] differ in length",
    ),
    (
        lambda b, i: b.aiGraphcore.dynamiczero([i["x"], i["offset"]], [0], [5]),
        r"size 5 does not fit axis 0 of \[4 3\]",
    ),
    (
        lambda b, i: b.aiGraphcore.dynamicadd([i["x"], i["offset"], i["part"]], [0], [3]),
        r"slice 'part' has shape \[2 3\], expected \[3 3\]",
    ),
    (
        lambda b, i: b.aiGraphcore.subsample([i["x"]], [1, 0]),
        "Strides invalid. 0 stride at index 1",
    ),
    (
        lambda b, i: b.aiGraphcore.subsample([i["x"]], [1]),
        r"strides \[1\] must hold one for each axis of \[4 3\]",
    ),
    (
        lambda b, i: b.aiGraphcore.sequenceslice(
            [i["x"], i["cube"], i["counts"], i["counts"], i["counts"]]
        ),
        "differ in more than the first dimension",
    ),
    (
        lambda b, i: b.aiGraphcore.sequenceslice(
            [i["x"], i["data"], i["counts"], i["rows"], i["counts"]]
        ),
        "the counts and the two kinds of offsets differ in shape",
    ),
    (
        lambda b, i: b.aiOnnx.scatterelements([i["x"], i["index"], i["x"]]),
        r"indices \[2 3\] and updates \[4 3\] must have one shape, of the rank of data \[4 3\]",
    ),
    (
        lambda b, i: b.customOp(
            "PutAlongAxis", 1, "ai.paddle_ipu", [i["x"], i["index"], i["x"]], {"axis": 0}
        ),
        r"indices \[2 3\] and values \[4 3\] must have one shape",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[row[1][:40] for row in ERRORS])
def test_messages(call: Call, message: str) -> None:
    make = builder()
    with pytest.raises(popart_exception, match=message):
        call(make, _inputs(make))


def test_updates_may_not_be_larger_than_the_data_along_another_axis() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 3], "x")
    index = make.addInputTensor("INT32", [2, 4], "index")
    updates = make.addInputTensor("FLOAT", [2, 4], "updates")
    with pytest.raises(popart_exception, match="larger than data .* along another axis than 0"):
        make.aiOnnx.scatter([x, index, updates])
    assert make.getTensorShape(make.aiOnnx.scatter([x, index, updates], 1)) == [2, 3]


def test_an_index_out_of_range_is_an_error() -> None:
    make = builder()
    data = make.addInputTensor("FLOAT", [2], "data")
    index = make.addInputTensor("INT32", [2], "index")
    out = make.aiGraphcore.scatterreduce([data, index], 3)
    session = infer(make.model, {out: "All"})
    values = np.array([1.0, 2.0], np.float32)
    got = run(session, {"data": values, "index": np.array([2, 2], np.int32)})
    np.testing.assert_array_equal(got[out], [0, 0, 3])
    with pytest.raises(IndexRangeError, match="got index 3, expected 0 to 2"):
        run(session, {"data": values, "index": np.array([0, 3], np.int32)})

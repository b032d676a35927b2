"""Rows of one table that stand side by side are looked up at once, and are those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.popart import TensorInfo
from tests.unit.sessions.session_programs import infer

TABLE = np.random.default_rng(1).standard_normal((7, 3), np.float32)
OTHER = np.random.default_rng(2).standard_normal((7, 3), np.float32)


@pytest.mark.parametrize("tables", ["aaa", "aba", "ab"])
@pytest.mark.parametrize("shapes", [[(4, 1), (2, 2), (4,)], [(1, 4), (4, 1, 1), (4,)]])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_side_by_side(tables: str, shapes: list[tuple[int, ...]], axis: int) -> None:
    builder = popart.Builder()
    weights = {
        "a": (builder.addInitializedInputTensor(TABLE), TABLE),
        "b": (builder.addInitializedInputTensor(OTHER), OTHER),
    }
    rows, ids, expected = [], {}, []
    random = np.random.default_rng(3)
    for table, shape in zip(tables, shapes, strict=False):
        name = builder.addInputTensor(TensorInfo("INT32", shape))
        ids[name] = random.integers(-7, 7, shape).astype(np.int32)
        found = builder.aiOnnx.gather([weights[table][0], name], 0)
        rows.append(builder.reshape_const(builder.aiOnnx, [found], [4, 3]))
        expected.append(weights[table][1][ids[name]].reshape(4, 3))
    out = builder.aiOnnx.concat(rows, axis)
    kept = builder.aiOnnx.relu([rows[0]])
    for name in (out, kept):
        builder.addOutputTensor(name)
    session: Any = infer(builder.getModelProto(), {out: "All", kept: "All"})
    found = session.runArrays(ids)
    np.testing.assert_array_equal(found[out], np.concatenate(expected, axis))
    np.testing.assert_array_equal(found[kept], np.maximum(expected[0], 0))

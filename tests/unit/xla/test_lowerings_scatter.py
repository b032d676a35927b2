"""Scattering and slices at computed places against NumPy, their gradients by PopART's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 3)).astype(np.float32)
DATA = RNG.normal(size=(5, 3)).astype(np.float32)
ROWS = np.array([1, 3, 1, 0, 3], np.int32)
GRADIENT = RNG.normal(size=(4, 3)).astype(np.float32)

_UFUNCS: dict[str, Any] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
}


def _reduced(kind: str, begin: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out = begin.copy()
    if kind == "none":
        out[ROWS] = DATA
    else:
        _UFUNCS[kind].at(out, ROWS, DATA)
    return out


def _scatter_reduce(lowered: Any, kind: str, **attributes: Any) -> Any:
    given = {"axis_size": 4, "axis": 0, "reduction": kind, **attributes}
    return lowered("ScatterReduce", given, domain="ai.graphcore")


@pytest.mark.parametrize("kind", ["sum", "max", "min", "mul", "none"])
def test_scatter_reduce_into_initial_values(lowered: Any, kind: str) -> None:
    expected = _reduced(kind, X)
    lowering = _scatter_reduce(lowered, kind)
    np.testing.assert_allclose(lowering(DATA, ROWS, X), expected, rtol=1e-6)
    wide = np.repeat(ROWS[:, None], 3, 1)
    np.testing.assert_allclose(lowering(DATA, wide, X), expected, rtol=1e-6)
    across = _scatter_reduce(lowered, kind, axis=-1)
    np.testing.assert_allclose(across(DATA.T, ROWS, X.T), expected.T, rtol=1e-6)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "mul", "none"])
def test_scatter_reduce_without_initial_values(lowered: Any, kind: str) -> None:
    begin = {"max": -np.inf, "min": np.inf, "mul": 1.0}.get(kind, 0.0)
    expected = _reduced(kind, np.full((4, 3), begin, np.float32))
    expected[2] = 1.0 if kind == "mul" else 0.0
    np.testing.assert_allclose(_scatter_reduce(lowered, kind)(DATA, ROWS), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "mul", "none"])
def test_scatter_reduce_gradients(lowered: Any, kind: str) -> None:
    out = _reduced(kind, X)
    of_data, of_initial = {
        "sum": (GRADIENT[ROWS], GRADIENT),
        "none": (GRADIENT[ROWS], np.where(np.isin(np.arange(4), ROWS)[:, None], 0, GRADIENT)),
        "mul": ((GRADIENT * out)[ROWS] / DATA, GRADIENT * out / X),
    }.get(kind, (GRADIENT[ROWS] * (out[ROWS] == DATA), GRADIENT * (out == X)))
    got = _scatter_reduce(lowered, kind).gradients(DATA, ROWS, X, cotangent=GRADIENT)
    np.testing.assert_allclose(got[0], of_data, rtol=1e-5)
    np.testing.assert_allclose(got[-1], of_initial, rtol=1e-5)


def test_scatter_reduce_by_groups(lowered: Any) -> None:
    data = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    index = np.array([[0, 2, 0], [1, 1, 4]], np.int32)
    expected = np.zeros((2, 5, 4), np.float32)
    for group in range(2):
        np.add.at(expected[group], index[group], data[group])
    lowering = _scatter_reduce(lowered, "sum", axis=1, axis_size=5, group_size=2)
    np.testing.assert_allclose(lowering(data, index), expected, rtol=1e-6)


def test_scatter_reduce_of_part_of_the_data(lowered: Any) -> None:
    index = np.array([[3, 0], [1, 1]], np.int32)
    expected = np.zeros((4, 2), np.float32)
    np.add.at(expected, (index, np.array([[0, 1], [0, 1]])), DATA[:2, :2])
    lowering = _scatter_reduce(lowered, "sum", enable_index_broadcast=0)
    np.testing.assert_allclose(lowering(DATA, index), expected, rtol=1e-6)


@pytest.mark.parametrize("op_type", ["Scatter", "ScatterElements"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter(lowered: Any, op_type: str, axis: int) -> None:
    index = np.array([[0, 2], [1, -1]], np.int32)
    updates = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    expected = X.copy()
    np.put_along_axis(expected[:2] if axis else expected[:, :2], index, updates, axis)
    lowering = lowered(op_type, {"axis": axis})
    np.testing.assert_array_equal(lowering(X, index, updates), expected)
    got = lowering.gradients(X, index, updates, cotangent=GRADIENT)
    np.testing.assert_array_equal(got[0], np.where(expected == X, GRADIENT, 0))
    part = GRADIENT[:2] if axis else GRADIENT[:, :2]
    np.testing.assert_array_equal(got[-1], np.take_along_axis(part, index, axis))


CUBE = RNG.normal(size=(3, 4, 5)).astype(np.float32)
CUT = {"axes": [0, 2], "sizes": [2, 3]}


def _places(first: int, last: int) -> tuple[Any, ...]:
    rows, columns = (first + np.arange(2)) % 3, (last + np.arange(3)) % 5
    return np.ix_(rows, np.arange(4), columns)


@pytest.mark.parametrize("offset", [(0, 0), (1, 2), (2, 4)])
def test_dynamic_slices(lowered: Any, offset: tuple[int, int]) -> None:
    at, start = _places(*offset), np.array(offset, np.uint32)
    part = np.random.default_rng(2).normal(size=(2, 4, 3)).astype(np.float32)

    def dynamic(name: str) -> Any:
        return lowered(f"Dynamic{name}", CUT, domain="ai.graphcore")

    np.testing.assert_array_equal(dynamic("Slice")(CUBE, start), CUBE[at])
    cotangent = np.random.default_rng(3).normal(size=(2, 4, 3)).astype(np.float32)
    back = np.zeros_like(CUBE)
    back[at] = cotangent
    got = dynamic("Slice").gradients(CUBE, start, cotangent=cotangent)[0]
    np.testing.assert_array_equal(got, back)
    expected = CUBE.copy()
    expected[at] = part
    np.testing.assert_array_equal(dynamic("Update")(CUBE, start, part), expected)
    got = dynamic("Update").gradients(CUBE, start, part, cotangent=CUBE)
    np.testing.assert_array_equal(got[0], np.where(expected == CUBE, CUBE, 0))
    np.testing.assert_array_equal(got[-1], CUBE[at])
    np.testing.assert_array_equal(dynamic("Zero")(CUBE, start), np.where(expected == CUBE, CUBE, 0))
    expected[at] = CUBE[at] + part
    np.testing.assert_allclose(dynamic("Add")(CUBE, start, part), expected, rtol=1e-6)


def test_grouped_gather(lowered: Any) -> None:
    index = np.array([[2, 0], [1, 1], [3, 0]], np.int32)
    lowering = lowered("GroupedGather", {"axis": 1, "group_size": 3}, domain="ai.graphcore")
    expected = np.stack([CUBE[group][index[group]] for group in range(3)])
    np.testing.assert_array_equal(lowering(CUBE, index), expected)
    plain = lowered("GroupedGather", {"axis": 2}, domain="ai.graphcore")
    np.testing.assert_array_equal(plain(CUBE, index), np.take(CUBE, index, 2))


def test_subsample(lowered: Any) -> None:
    lowering = lowered("Subsample", {"strides": [2, 1, 3]}, domain="ai.graphcore")
    np.testing.assert_array_equal(lowering(CUBE), CUBE[::2, :, ::3])
    got = lowering.gradients(CUBE, cotangent=CUBE[::2, :, ::3])[0]
    kept = np.zeros_like(CUBE)
    kept[::2, :, ::3] = CUBE[::2, :, ::3]
    np.testing.assert_array_equal(got, kept)


@pytest.mark.parametrize("zero", [0, 1])
def test_sequence_slice(lowered: Any, zero: int) -> None:
    source = np.arange(12, dtype=np.float32).reshape(6, 2)
    target = np.full((8, 2), -1, np.float32)
    counts, starts, ends = np.array([2, 3]), np.array([4, 0]), np.array([1, 5])
    expected = np.zeros_like(target) if zero else target.copy()
    expected[1:3], expected[5:8] = source[4:6], source[0:3]
    lowering = lowered("SequenceSlice", {"zeroUnused": zero}, domain="ai.graphcore")
    got = lowering(source, target, *(item.astype(np.int32) for item in (counts, starts, ends)))
    np.testing.assert_array_equal(got, expected)

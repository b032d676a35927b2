"""Weights that no run changes lie on the device as they were given, each in memory of its own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from paddle_ipu.xla.step import constant_upload, memory


def test_arrays_side_by_side_have_their_shapes_and_do_not_overlap() -> None:
    kinds = {
        "scalar": ((), np.dtype(np.int32)),
        "empty": ((0, 3), np.dtype(np.float32)),
        "odd": ((5, 7), np.dtype(np.int8)),
        "half": ((3,), np.dtype(ml_dtypes.bfloat16)),
        "large": ((300, 1000), np.dtype(np.float32)),
    }
    room = memory.allocate(kinds)
    for number, array in enumerate(room.values()):
        array[...] = number
    for number, (name, (shape, dtype)) in enumerate(kinds.items()):
        assert (room[name].shape, room[name].dtype) == (shape, dtype)
        assert room[name].ctypes.data % 64 == 0
        np.testing.assert_array_equal(room[name], np.full(shape, number, dtype))


@pytest.mark.parametrize("rows", [3, 400])
def test_weights_are_as_given(rows: int) -> None:
    rng = np.random.default_rng(3)
    given = {
        "plain": rng.normal(size=(rows, 1000)).astype(np.float32),
        "turned": rng.normal(size=(rows, 8)).astype(np.float32).T,
        "whole": np.arange(5, dtype=np.int32),
        "one": np.float32(2.5).reshape(()),
        "none": np.zeros((0, 4), np.float32),
        "half": np.ones(9, ml_dtypes.bfloat16),
    }
    expected = {name: array.copy() for name, array in given.items()}
    found = constant_upload.put(given, {})
    for array in given.values():
        if array.flags.writeable:
            # What becomes of the caller's arrays is the caller's affair.
            array[...] = 0
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(np.asarray(found[name]), array)


def test_weights_are_in_memory_once() -> None:
    rows = np.ones((64, 1024), np.float32)
    found = constant_upload.put({"a": rows, "b": rows}, {})
    places = [array.unsafe_buffer_pointer() for array in found.values()]
    # JAX took the block in which they were written, one behind the other.
    assert abs(places[1] - places[0]) == rows.nbytes

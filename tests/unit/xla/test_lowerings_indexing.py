"""Reading by index and by order against NumPy, gradients against Paddle's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.errors import LoweringError

X = np.random.default_rng(3).normal(size=(5, 3, 4)).astype(np.float32)


@settings(max_examples=20)
@given(
    axis=st.integers(-3, 2),
    indices=st.lists(st.integers(-3, 2), min_size=1, max_size=4),
    folded=st.booleans(),
)
def test_gather(lowered: Any, axis: int, indices: list[int], folded: bool) -> None:
    index = np.array([indices], np.int32)
    expected = np.take(X, index, axis)
    constant = [1] if folded else []
    out = lowered("Gather", {"axis": axis}, constant=constant)(X, index)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(lowered("Gather", {"axis": axis}).constants(X, index), expected)


def test_gather_of_one_constant_position(lowered: Any) -> None:
    for position in (0, 2, -1):
        out = lowered("Gather", {"axis": 1}, constant=[1])(X, np.array(position))
        np.testing.assert_array_equal(out, X[:, position])


def test_gather_gradient_adds_up_repeated_indices(lowered: Any, same_as_paddle: Any) -> None:
    index = np.array([[4, 0, 4], [4, 1, 0]], np.int32)
    same_as_paddle(
        lowered("Gather"), lambda x, i: paddle.nn.functional.embedding(i, x), X[..., 0], index
    )
    same_as_paddle(
        lowered("Gather", {"axis": 1}),
        lambda x, i: paddle.gather(x, i, axis=1),
        X,
        np.array([2, 0, 2], np.int32),
    )


def test_gather_nd(lowered: Any, same_as_paddle: Any) -> None:
    rule = lowered("GatherNd", domain="ai.paddle_ipu")
    for index in ([[1], [0], [1]], [[1, 2], [0, 0]], [[[4, 2, 3]], [[4, 2, 3]]]):
        same_as_paddle(rule, paddle.gather_nd, X, np.array(index, np.int32))
    np.testing.assert_array_equal(rule(X, np.array([[-1, -2]], np.int32)), X[[-1], [-2]])
    out = rule(X, np.zeros((2, 0), np.int32))
    np.testing.assert_array_equal(out, np.stack([X, X]))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(lowered: Any, axis: int) -> None:
    index = np.array([[0, 2], [-1, 5]], np.int32)
    values = np.array([-1, 4], np.float32)
    out = lowered("OneHot", {"axis": axis}, constant=[1])(index, np.array([3]), values)
    hit = np.stack([(index % 3 == c) & (index < 3) for c in range(3)], axis=axis)
    np.testing.assert_array_equal(out, np.where(hit, values[1], values[0]))


def test_one_hot_depth_must_be_constant(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="input 1, the depth, must be a constant"):
        lowered("OneHot")(np.zeros(2, np.int32), np.array([3], np.int32), np.zeros(2, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_top_k(lowered: Any, dtype: Any, largest: int, axis: int) -> None:
    x = np.array([[3, 1, 3, -5, 0], [2, 2, 2, 2, 7], [-1, 9, -1, 9, -2]], dtype)
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    indices = np.take(order, [0, 1], axis)
    rule = lowered("TopK", {"axis": axis, "largest": largest}, constant=[1], num_outputs=2)
    got_values, got_indices = rule(x, np.array([2]))
    assert got_indices.dtype == np.int32
    np.testing.assert_array_equal(got_indices, indices)
    np.testing.assert_array_equal(got_values, np.take_along_axis(x, indices, axis))


def test_top_k_of_the_smallest_integer(lowered: Any) -> None:
    x = np.array([0, np.iinfo(np.int32).min, np.iinfo(np.int32).max], np.int32)
    values, _ = lowered("TopK", {"largest": 0, "k": 3})(x)
    assert values.tolist() == sorted(x.tolist())


def test_top_k_gradient(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(
        lowered("TopK", constant=[1], num_outputs=2),
        lambda t: paddle.topk(t, 2)[0],
        X,
        constants=[np.array([2])],
    )


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("axis", [1, -1])
def test_sort(lowered: Any, same_as_paddle: Any, descending: int, axis: int) -> None:
    rule = lowered(
        "Sort", {"axis": axis, "descending": descending}, domain="ai.graphcore", num_outputs=2
    )
    values, indices = rule(X)
    np.testing.assert_array_equal(values, np.take_along_axis(X, indices, axis))
    same_as_paddle(rule, lambda t: paddle.sort(t, axis, bool(descending)), X)


def test_sort_is_stable(lowered: Any) -> None:
    x = np.array([1, 0, 1, 0], np.float32)
    _, ascending = lowered("Sort", domain="ai.graphcore")(x)
    _, descending = lowered("Sort", {"descending": 1}, domain="ai.graphcore")(x)
    assert ascending.tolist() == [1, 3, 0, 2] and descending.tolist() == [0, 2, 1, 3]

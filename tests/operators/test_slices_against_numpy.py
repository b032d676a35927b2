"""Reading and writing any slice gives what NumPy gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.built_case import build_case
from tests.operators.operator_case import OperatorCase, normal
from tests.operators.run_case import run_on_ipu_model

X = normal(4, 5)


def _result(build: Any, **inputs: Any) -> Any:
    return run_on_ipu_model(build_case(OperatorCase("slice", build, inputs)))["output 0"]


def _bounds(size: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.integers(-size - 3, size + 2))


def _items(size: int) -> st.SearchStrategy[Any]:
    steps = st.sampled_from([None, 1, 2, 3, -1, -2])
    return st.one_of(
        st.builds(slice, _bounds(size), _bounds(size), steps), st.integers(-size, size - 1)
    )


PADDLE_2 = str(paddle.__version__).startswith("2.")


def _is_numpys(items: tuple[Any, ...]) -> bool:
    """Not backwards with a bound below zero, which Paddle 2 reads in another way."""
    return not PADDLE_2 or not any(
        isinstance(i, slice) and (i.step or 1) < 0 and min(i.start or 0, i.stop or 0) < 0
        for i in items
    )


ITEMS = st.tuples(_items(4), _items(5)).filter(_is_numpys)


@settings(max_examples=10, derandomize=True)
@given(item=ITEMS)
def test_reading(item: Any) -> None:
    expected = X[item]
    if expected.size or not PADDLE_2:
        np.testing.assert_array_equal(_result(lambda x: x[item], x=X), expected)


@settings(max_examples=10, derandomize=True)
@given(item=ITEMS)
def test_writing_a_number(item: Any) -> None:
    expected = X.copy()
    expected[item] = 7.0
    got = _result(lambda x: paddle.static.setitem(x * 1, item, 7.0), x=X)
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=10, derandomize=True)
@given(item=ITEMS)
def test_writing_a_tensor(item: Any) -> None:
    part = normal(*X[item].shape, seed=1)
    if not part.size:
        return
    expected = X.copy()
    expected[item] = part
    got = _result(lambda x, v: paddle.static.setitem(x * 1, item, v), x=X, v=np.asarray(part))
    np.testing.assert_array_equal(got, expected)


def _bounds_around(size: int) -> list[int | None]:
    inside = range(-size - 2, size + 2)
    return [None, *inside, -size - 7, size + 7]


@pytest.mark.skipif(PADDLE_2, reason="Paddle 2 reads bounds below zero in another way")
@pytest.mark.parametrize("size", [1, 3])
def test_all_bounds_of_a_short_axis(size: int) -> None:
    x, around = normal(size), _bounds_around(size)
    items = [slice(*three) for three in itertools.product(around, around, (-1, -2, 2))]

    def build(x: Any) -> list[Any]:
        read = [x[item] for item in items]
        return read + [paddle.static.setitem(x * 1, item, 7.0) for item in items]

    found = list(run_on_ipu_model(build_case(OperatorCase("slice", build, {"x": x}))).values())
    for item, read, written in zip(items, found, found[len(items) :], strict=False):
        expected = x.copy()
        expected[item] = 7.0
        np.testing.assert_array_equal(read, x[item], str(item))
        np.testing.assert_array_equal(written, expected, str(item))

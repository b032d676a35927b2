"""Reading and writing any slice gives what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.built_case import build_case
from tests.operators.operator_case import OperatorCase, normal
from tests.operators.run_case import run_on_ipu_model

X = normal(4, 5)


def _result(build: Any, **inputs: Any) -> Any:
    return run_on_ipu_model(build_case(OperatorCase("slice", build, inputs)))["output 0"]


def _bounds(size: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.integers(-size, size + 2))


def _items(size: int) -> st.SearchStrategy[Any]:
    steps = st.sampled_from([None, 1, 2, 3, -1, -2])
    return st.one_of(
        st.builds(slice, _bounds(size), _bounds(size), steps), st.integers(-size, size - 1)
    )


def _is_one_slice(items: tuple[Any, ...]) -> bool:
    """Not backwards to the last element, which Paddle 2 writes as past the first."""
    return not any(isinstance(i, slice) and i.stop == -1 and (i.step or 1) < 0 for i in items)


ITEMS = st.tuples(_items(4), _items(5)).filter(_is_one_slice)


@settings(max_examples=10, derandomize=True)
@given(item=ITEMS)
def test_reading(item: Any) -> None:
    expected = X[item]
    if expected.size:
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

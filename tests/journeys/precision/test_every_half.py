"""Half means half, for every half there is: NaN, infinities, subnormal numbers and both zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special

from paddle_ipu.xla.precision.half import MOVES, PICKS
from tests.journeys.precision.half_program import compiled

Array = np.ndarray[Any, Any]
Forward = Callable[[Any], dict[str, Array]]

HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
COUNT = 64

_ARITHMETIC: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "cos": np.cos,
    "cosh": np.cosh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "erf": special.erf,
    "exp": np.exp,
    "log": np.log,
    "reciprocal": np.reciprocal,
    "sigmoid": special.expit,
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": lambda x: np.logaddexp(0, x),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
}

_EXACT: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "neg": np.negative,
    "relu": lambda x: np.where(x > 0, x, np.float16(0)),
    "sqrt": np.sqrt,
}


def _ordered(values: Array) -> Array:
    """Halves as whole numbers in which neighbours differ by one; both zeros are 0."""
    bits = values.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def _assert_bits(got: Array, expected: Array, what: str) -> None:
    assert got.dtype == expected.dtype == np.float16
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~numbers, what)
    np.testing.assert_array_equal(
        got[numbers].view(np.uint16), expected[numbers].view(np.uint16), what
    )


@pytest.fixture(scope="module")
def functions_of_every_half() -> dict[str, Array]:
    def make(builder: Any, x: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        return {name: getattr(onnx, name)([x]) for name in (*_FUNCTIONS, *_EXACT)}

    return compiled({"x": HALVES}, make)({"x": HALVES})


@pytest.mark.parametrize("name", _EXACT)
def test_what_numpy_has_in_half_is_equal_to_the_bit(
    name: str, functions_of_every_half: dict[str, Array]
) -> None:
    with np.errstate(all="ignore"):
        _assert_bits(functions_of_every_half[name], _EXACT[name](HALVES), name)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_are_right_to_the_last_place(
    name: str, functions_of_every_half: dict[str, Array]
) -> None:
    with np.errstate(all="ignore"):
        expected = _FUNCTIONS[name](HALVES.astype(np.float64)).astype(np.float16)
    got = functions_of_every_half[name]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    numbers = ~np.isnan(expected)
    off = np.abs(_ordered(got[numbers]) - _ordered(expected[numbers]))
    assert off.max() <= 1
    # Nearly everywhere they are rounded correctly.
    assert (off == 0).mean() > 0.99


@pytest.fixture(scope="module")
def arithmetic() -> Forward:
    def make(builder: Any, x: str, y: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        return {name: getattr(onnx, name)([x, y]) for name in _ARITHMETIC}

    like = np.zeros(COUNT, np.float16)
    return compiled({"x": like, "y": like}, make)


_words = arrays(np.uint16, COUNT, elements=st.integers(0, 65535))


@given(x=_words, y=_words)
def test_arithmetic_is_that_of_numpy_to_the_bit(arithmetic: Forward, x: Array, y: Array) -> None:
    feeds = {"x": x.view(np.float16), "y": y.view(np.float16)}
    out = arithmetic(feeds)
    for name, function in _ARITHMETIC.items():
        with np.errstate(all="ignore"):
            _assert_bits(out[name], function(feeds["x"], feeds["y"]), name)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_arithmetic_of_millions_of_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 65536, (2, 1 << 22), dtype=np.uint16).view(np.float16)

    def make(builder: Any, x: str, y: str) -> dict[str, str]:
        return {name: getattr(builder.aiOnnxOpset11, name)([x, y]) for name in _ARITHMETIC}

    out = compiled({"x": x, "y": y}, make)({"x": x, "y": y})
    for name, function in _ARITHMETIC.items():
        with np.errstate(all="ignore"):
            _assert_bits(out[name], function(x, y), name)


@pytest.fixture(scope="module")
def sums() -> Forward:
    def make(builder: Any, x: str, y: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        return {
            "sum": onnx.reducesum([x], axes=[0], keepdims=1),
            "mean": onnx.reducemean([x], axes=[0], keepdims=1),
            "matmul": onnx.matmul([x, y]),
        }

    like = np.zeros(COUNT, np.float16)
    return compiled({"x": like, "y": like}, make)


_numbers = arrays(np.float16, COUNT, elements=st.floats(-200, 200, width=16, allow_subnormal=True))


@given(x=_numbers, y=_numbers)
def test_sums_and_products_are_right_to_the_last_place(sums: Forward, x: Array, y: Array) -> None:
    out = sums({"x": x, "y": y})
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    for name, terms in (("sum", wide_x), ("mean", wide_x / COUNT), ("matmul", wide_x * wide_y)):
        exact = terms.sum()
        with np.errstate(over="ignore"):
            place = float(np.spacing(np.abs(np.float16(exact)))) if abs(exact) < 65504 else np.inf
        # Where terms cancel, float32 itself is off by some of its places of the largest.
        allowed = place + np.abs(terms).sum() * COUNT * 2.0**-24
        got = float(out[name].reshape(()))
        assert abs(got - exact) <= allowed or (abs(exact) > 65500 and np.isinf(got)), name


def test_what_is_not_rounded_gives_halves_by_itself() -> None:
    """Operators that are taken not to round; each is tried on every half."""

    def make(builder: Any, x: str) -> dict[str, str]:
        onnx = builder.aiOnnxOpset11
        return {
            "Abs": onnx.abs([x]),
            "Concat": onnx.concat([x, x], 0),
            "Flatten": onnx.flatten([x], 0),
            "Max": onnx.max([x, onnx.neg([x])]),
            "Min": onnx.min([x, onnx.neg([x])]),
            "Neg": onnx.neg([x]),
            "Pad": onnx.pad([x, onnx.constant(np.asarray([0, 0, 1, 1]))]),
            "Relu": onnx.relu([x]),
            "Tile": onnx.tile([x, onnx.constant(np.asarray([1, 2]))]),
            "Transpose": onnx.transpose([x], [1, 0]),
        }

    x = HALVES[np.isfinite(HALVES)].reshape(-1, 4)
    out = compiled({"x": x}, make)({"x": x})
    assert out.keys() <= MOVES | PICKS
    known = set(x.view(np.uint16).ravel().tolist())
    for name, array in out.items():
        assert set(array.view(np.uint16).ravel().tolist()) <= known, name

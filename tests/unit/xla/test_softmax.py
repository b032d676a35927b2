"""Softmax of rows by its kernel gives what NumPy gives, and a session's search finds it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu import popart
from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.softmax import SoftmaxSpec, softmax_of
from paddle_ipu.xla.lowerings.registry import REWRITTEN
from tests.unit.xla.inference_sessions import XLAS_OWN, chosen, run, session_of

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    not library.has_avx512(), reason=f"no kernel here: {library.why_not() or 'no AVX-512'}"
)

LARGE = 600_000
"""Elements of an array that several threads share."""


def _numbers(*shape: int, seed: int = 0, spread: float = 3.0) -> Array:
    random = np.random.default_rng(seed)
    return (spread * random.standard_normal(shape)).astype(np.float32)


def _expected(x: Array) -> Array:
    """By NumPy: the distances in float32, all that follows in float64."""
    with np.errstate(invalid="ignore"):
        powers = np.exp((x - x.max(-1, keepdims=True)).astype(np.float64))
        return np.asarray(powers / powers.sum(-1, keepdims=True))


def _given(x: Array, threads: int = 2) -> Array:
    spec = SoftmaxSpec(math.prod(x.shape[:-1]), x.shape[-1], threads)
    return np.asarray(jax.jit(lambda x: softmax_of(spec, x))(x))


def _check(x: Array, threads: int = 2) -> None:
    found, expected = _given(x, threads), _expected(x)
    tiny = float(np.finfo(np.float32).tiny)
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=tiny, equal_nan=True)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 5), st.integers(1, 300), st.integers(0, 2**31), st.sampled_from([0.1, 3.0, 60.0])
)  # fmt: skip
def test_any_size(rows: int, columns: int, seed: int, spread: float) -> None:
    _check(_numbers(rows, columns, seed=seed, spread=spread))


@pytest.mark.parametrize("columns", [2073, 30522, 70001])
def test_long_rows(columns: int) -> None:
    _check(_numbers(3, columns))
    _check(np.full((1, columns), 7, np.float32))


@pytest.mark.parametrize("columns", [1, 2, 15, 16, 17, 48, 70, 128, 129, 193])
def test_a_row_knows_nothing_of_its_neighbours(columns: int) -> None:
    x = _numbers(5, columns)
    x[1::2] = np.nan
    found = _given(x)
    np.testing.assert_array_equal(np.isnan(found).all(1), np.arange(5) % 2 == 1)
    np.testing.assert_array_equal(found[::2], _given(x[::2]))


odd_numbers = st.sampled_from(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1e-40, 88.8, -104.0, 3.4e38, -3.4e38]
)


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from([1, 2, 16, 17, 70, 128, 130, 200]),
    st.lists(st.tuples(st.integers(0, 199), odd_numbers), max_size=6),
)
def test_numbers_that_are_odd(columns: int, odd: list[tuple[int, float]]) -> None:
    x = _numbers(3, columns)
    for place, number in odd:
        x[1, place % columns] = number
    with np.errstate(over="ignore"):
        _check(x)


@pytest.mark.parametrize("columns", [1, 16, 70, 200])
@pytest.mark.parametrize("number", [-np.inf, np.inf, np.nan, 5.0, -3.4e38])
def test_rows_of_one_number(columns: int, number: float) -> None:
    x = np.full((3, columns), number, np.float32)
    _check(x)
    x[:, -1] = 0
    _check(x)


@pytest.mark.parametrize("columns", [40, 500, 30522])
def test_every_number_of_threads_gives_the_same_bits(columns: int) -> None:
    x = _numbers(LARGE // columns, columns)
    alone = _given(x, threads=1)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(_given(x, threads), alone)
    _check(x)


@pytest.mark.parametrize("spec", [SoftmaxSpec(3, 9, 1), SoftmaxSpec(4, 8, 1)])
def test_arrays_of_another_size_are_refused(spec: SoftmaxSpec) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="softmax: arrays that do not fit"):
        np.asarray(jax.jit(lambda x: softmax_of(spec, x))(_numbers(3, 8)))


def test_a_library_with_another_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "SOFTMAX_NUMBERS", library.SOFTMAX_NUMBERS + 1)
    why = library._opened.__wrapped__()
    assert isinstance(why, str)
    assert "was built from other sources; install paddle_ipu again" in why


class Program:
    """A PopART program of one softmax of a fed array.

    Args:
        shape: of the array.
        axis: of the softmax.
        make: what is between the array and the result, instead of a softmax by `axis`.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        axis: int,
        make: Callable[[Any, str], str] | None = None,
        **options: Any,
    ) -> None:
        self.builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.name = self.builder.addInputTensor(popart.TensorInfo("FLOAT", list(shape)))
        self.array = _numbers(*shape)
        if make is None:
            self.result = self.builder.aiOnnx.softmax([self.name], axis=axis)
        else:
            self.result = make(self.builder, self.name)
        self.session = session_of(self.builder, [self.result], **options)

    @property
    def count(self) -> int:
        graph = self.session._executable.program.graph
        return sum((node.domain, node.op_type) == (REWRITTEN, "Softmax") for node in graph)

    def run(self) -> Array:
        self.session.prepareDevice()
        return run(self.session, {self.name: self.array})[self.result]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((4, 2073), 1), ((4, 2073), -1), ((2, 3, 5, 17), 3), ((16,), 0), ((2, 3, 16), 1)],
)
def test_a_session_uses_the_kernel_and_gives_what_numpy_gives(
    shape: tuple[int, ...], axis: int
) -> None:
    program = Program(shape, axis)
    assert program.count == 1
    found = program.run()
    rows = program.array.reshape(math.prod(shape[:axis]), -1) if axis >= 0 else program.array
    assert found.shape == shape
    np.testing.assert_allclose(found, _expected(rows).reshape(shape), rtol=6e-7)


def test_a_softmax_that_is_read_and_whose_input_is_read() -> None:
    def made(builder: Any, x: str) -> str:
        onnx = builder.aiOnnx
        scores = onnx.mul([x, x])
        powers = onnx.softmax([scores], axis=1)
        return str(onnx.add([powers, onnx.add([powers, scores])]))

    program = Program((4, 33), 1, made)
    assert program.count == 1
    squares = program.array * program.array
    np.testing.assert_allclose(program.run(), 2 * _expected(squares) + squares, rtol=6e-7)


def _in_half(builder: Any, x: str) -> str:
    onnx = builder.aiOnnx
    powers = onnx.softmax([onnx.cast([x], "FLOAT16")], axis=1)
    return str(onnx.cast([powers], "FLOAT"))


def _in_a_branch(builder: Any, x: str) -> str:
    return chosen(builder, True, lambda onnx: onnx.softmax([x], axis=1), lambda onnx: onnx.neg([x]))


@pytest.mark.parametrize(
    ("shape", "axis", "make"),
    [
        ((4, 15), 1, None),
        ((0, 40), 1, None),
        ((4, 40), 1, _in_half),
        ((4, 40), 1, _in_a_branch),
    ],
    ids=["short rows", "no rows", "half", "a branch"],
)
def test_what_is_left_to_xla(shape: tuple[int, ...], axis: int, make: Any) -> None:
    program = Program(shape, axis, make)
    assert program.count == 0
    tolerance = 1e-6 if make is not _in_half else 1e-2
    np.testing.assert_allclose(program.run(), _expected(program.array), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("options", XLAS_OWN, ids=str)
def test_options_that_leave_it_to_xla(options: dict[str, Any]) -> None:
    assert Program((4, 40), 1, **options).count == 0

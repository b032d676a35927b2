"""Stochastic rounding: a neighbour at random, right on average, the same again from a seed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.xla.precision import half, stochastic
from tests.journeys.precision.half_program import run, train

Array = np.ndarray[Any, Any]

DTYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ON = {"enableStochasticRounding": True}


def _rounded(values: Array, dtype: str, seed: int = 0) -> Array:
    def function(x: Any) -> Any:
        with stochastic.drawing_from(jax.random.key(seed)):
            return half.rounded(x, dtype)

    jitted: Any = jax.jit(function, compiler_options=dict(half.COMPILER_OPTIONS))
    return np.asarray(jitted(values.astype(np.float32)))


def _neighbours(values: Array, dtype: str) -> tuple[Array, Array]:
    """The numbers of a type at or below each value and at or above it."""
    kind = DTYPES[dtype]
    with np.errstate(over="ignore"):
        near = values.astype(kind)
    wide = near.astype(np.float32)
    below = np.where(wide > values, np.nextafter(near, kind(-np.inf)), near).astype(np.float32)
    above = np.where(wide < values, np.nextafter(near, kind(np.inf)), near).astype(np.float32)
    return below, above


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_becomes_one_of_its_neighbours(dtype: str) -> None:
    rng = np.random.default_rng(0)
    scale = 2.0 ** rng.uniform(-27, 15.9, 20000)
    values = (rng.choice([-1, 1], 20000) * scale).astype(np.float32)
    got = _rounded(values, dtype)
    below, above = _neighbours(values, dtype)
    assert ((got == below) | (got == above)).all()
    assert ((got == below) & (below < above)).any()
    assert ((got == above) & (below < above)).any()
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_the_type_stay(dtype: str) -> None:
    every = np.arange(65536, dtype=np.uint16).view(DTYPES[dtype]).astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    # XLA on the CPU takes float32's own subnormal numbers for zeros; bfloat16 has some.
    every = every[(np.abs(every) >= tiny) | (every == 0) | np.isnan(every)]
    got = _rounded(every, dtype)
    np.testing.assert_array_equal(got, every)
    numbers = ~np.isnan(every)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(every[numbers]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [1 / 3, -0.7, 2.0**-14 * 1.0003, 3.3e-6, 5e-8, 1e-8, 2048.2])
def test_the_chance_of_the_upper_neighbour_is_the_distance_from_the_lower(
    value: float, dtype: str
) -> None:
    count = 200_000
    exact = np.float32(value)
    got = _rounded(np.full(count, exact), dtype)
    (below,), (above,) = _neighbours(exact[None], dtype)
    chance = (float(exact) - float(below)) / (float(above) - float(below))
    upper = int((got == above).sum())
    # Five standard deviations of a binomial distribution.
    assert abs(upper - count * chance) <= 5 * np.sqrt(count * chance * (1 - chance)) + 1e-9


def test_above_the_largest_half_the_neighbour_is_infinite() -> None:
    got = _rounded(np.full(10_000, 65520.0), "float16")
    assert set(np.unique(got)) == {65504.0, np.inf}
    # 65520 is halfway from 65504 to 65536, which half does not have.
    assert abs((got == np.inf).mean() - 0.5) < 0.03
    special = np.asarray([np.inf, -np.inf, np.nan, 1e6, -1e6, 0.0])
    np.testing.assert_array_equal(
        _rounded(special, "float16"), [np.inf, -np.inf, np.nan, np.inf, -np.inf, 0.0]
    )


def test_places_are_independent() -> None:
    """The variance of a sum of roundings is the sum of their variances."""
    got = _rounded(np.full((400, 1000), 1.0 + 2.0**-11), "float16") - 1.0
    ups = (got > 0).astype(np.float64)
    for sums in (ups.sum(0) / 400, ups.sum(1) / 1000):
        expected = 0.25 / (400 if len(sums) == 1000 else 1000)
        assert abs(sums.var() / expected - 1) < 0.25
    assert abs(np.corrcoef(ups[0, :-1], ups[0, 1:])[0, 1]) < 0.15
    assert abs(np.corrcoef(ups[0], ups[1])[0, 1]) < 0.15


def test_forward_and_backward_draw_apart() -> None:
    values = np.full(4096, 1 / 3, np.float32)

    def function(x: Any) -> Any:
        with stochastic.drawing_from(jax.random.key(0)):
            out, backward = jax.vjp(lambda x: half.rounded(x, "float16"), x)
        return out, backward(x)[0]

    out, cotangent = jax.jit(function, compiler_options=dict(half.COMPILER_OPTIONS))(
        jnp.asarray(values)
    )
    same = (np.asarray(out) == np.asarray(cotangent)).mean()
    below, above = _neighbours(values[:1], "float16")
    assert set(np.unique(cotangent)) == {float(below[0]), float(above[0])}
    chance = float((values[0] - below[0]) / (above[0] - below[0]))
    assert abs(same - (chance**2 + (1 - chance) ** 2)) < 0.05


def _product(builder: Any, x: str) -> dict[str, str]:
    return {"out": builder.aiOnnxOpset11.mul([x, x])}


def test_operators_round_by_the_seed_and_each_run_otherwise() -> None:
    x = np.random.default_rng(1).normal(size=4000).astype(np.float16)
    first = run({"x": x}, _product, seed=7, runs=3, **ON)["out"]
    again = run({"x": x}, _product, seed=7, runs=3, **ON)["out"]
    other = run({"x": x}, _product, seed=8, **ON)["out"]
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()
    assert (first[1] != first[2]).any()
    assert (first[0] != other).any()
    exact = x.astype(np.float32) ** 2
    below, above = _neighbours(exact, "float16")
    assert ((first == below) | (first == above)).all()


def _dot(builder: Any, x: str, w: str) -> str:
    return str(
        builder.aiGraphcore.identityloss(
            [builder.aiOnnxOpset11.mul([x, w])], reduction=popart.ReductionType.Sum
        )
    )


def test_small_updates_are_kept_on_average() -> None:
    """To the nearest, 1 - 1e-5 is 1 for ever."""
    count = 20_000
    x, w = np.full(count, 1e-4, np.float16), np.ones(count, np.float16)
    _, (nearest,) = train(x, [w], _dot)
    np.testing.assert_array_equal(nearest, w)
    _, (after,) = train(x, [w], _dot, seed=3, **ON)
    assert set(np.unique(after)) == {np.float16(1 - 2.0**-11), np.float16(1)}
    step = 0.1 * float(np.float16(1e-4))
    deviation = np.sqrt(step * 2.0**-11 / count)
    assert abs((1 - after.astype(np.float64)).mean() - step) < 5 * deviation


def test_sums_of_micro_batches_are_right_on_average() -> None:
    """2048 + 1 + 1 + 1 is 2048 to the nearest."""
    count = 4000
    x = np.repeat(np.asarray([2048, 1, 1, 1], np.float16), count)
    w = np.zeros(count, np.float16)
    _, (after,) = train(x, [w], _dot, rate=1.0, accumulation=4, **ON)
    assert len(np.unique(after)) > 1
    assert abs(after.astype(np.float64).mean() + 2051) < 0.1


def test_it_changes_nothing_in_float32() -> None:
    x = np.random.default_rng(1).normal(size=100).astype(np.float32)
    plain = run({"x": x}, _product, dtype="FLOAT")["out"]
    np.testing.assert_array_equal(run({"x": x}, _product, dtype="FLOAT", **ON)["out"], plain)

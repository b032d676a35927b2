"""Lowerings of medians and histograms."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import (
    Constant,
    Inputs,
    Pair,
    Single,
    is_floating,
    optional_input,
)
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _middle(x: jax.Array, ignore_nan: bool) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The two middle elements of the last axis, and their indices; one element twice if odd.

    Returns:
        (lower, upper, index of the lower, index of the upper).
    """
    order = jnp.argsort(x, axis=-1, stable=True)
    ordered = jnp.take_along_axis(x, order, -1)
    counted = jnp.full((*x.shape[:-1], 1), x.shape[-1], jnp.int32)
    if ignore_nan:
        counted = counted - jnp.sum(jnp.isnan(x), -1, keepdims=True, dtype=jnp.int32)
    high = counted // 2
    low = jnp.maximum(jnp.where(counted % 2 == 1, high, high - 1), 0)
    high = jnp.minimum(high, x.shape[-1] - 1)
    left, right = (jnp.take_along_axis(ordered, at, -1)[..., 0] for at in (low, high))
    places = [jnp.take_along_axis(order, at, -1)[..., 0].astype(jnp.int32) for at in (low, high)]
    return left, right, places[0], places[1]


def _values(x: jax.Array, ignore_nan: bool, average: bool) -> Pair:
    left, right, first, second = _middle(x, ignore_nan)
    if not is_floating(x):
        median = lax.div(left + right, jnp.full_like(left, 2)) if average else left
        return median, jnp.stack([first, second], -1) if average else first
    median = (left + right) / 2 if average else left
    empty = jnp.all(jnp.isnan(x), -1) if ignore_nan else jnp.any(jnp.isnan(x), -1)
    median = jnp.where(empty, jnp.full_like(median, jnp.nan), median)
    nan_index = jnp.full_like(first, -1)
    if not average:
        # Paddle first looks whether there is a number at all, and no further if not.
        nan_index = jnp.where(jnp.all(jnp.isnan(x)), jnp.zeros_like(first), nan_index)
    if not ignore_nan and x.shape[-1]:
        nan_index = jnp.argmax(jnp.isnan(x), -1).astype(jnp.int32)
    first, second = (jnp.where(empty, nan_index, index) for index in (first, second))
    return median, jnp.stack([first, second], -1) if average else first


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _median(x: jax.Array, ignore_nan: bool, average: bool) -> Any:
    # Any: JAX's stubs know no tangents of integers, which are float0.
    return _values(x, ignore_nan, average)


@_median.defjvp
def _median_jvp(
    ignore_nan: bool, average: bool, primals: Single, tangents: Single
) -> tuple[Pair, tuple[jax.Array, Constant]]:
    (x,), (tangent,) = primals, tangents
    median, places = _median(x, ignore_nan, average)
    pair = places if average else jnp.stack([places, places], -1)
    # Half to each of the two in the middle.
    picked = jnp.take_along_axis(tangent, jnp.maximum(pair, 0), -1)
    slope = 0.5 * jnp.sum(jnp.where(pair >= 0, picked, jnp.zeros_like(picked)), -1)
    if not ignore_nan:
        # Shared by all that equal the median.
        same = (x == median[..., None]).astype(x.dtype)
        count = jnp.sum(same, -1)
        shared = jnp.sum(same * tangent, -1) / jnp.maximum(count, 1)
        slope = jnp.where(count > 0, shared, slope)
    no_slope = np.zeros(places.shape, jax.dtypes.float0)
    return (median, places), (slope, no_slope)


@lowering("ai.paddle_ipu", "Median")
def median(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(median of the last axis, or the mean of the two middle elements; their indices).

    NaN is left out with ``ignore_nan``, else it makes the median NaN.
    """
    x = jnp.asarray(inputs[0])
    ignore_nan, average = bool(attributes.get("ignore_nan", 0)), bool(attributes.get("average", 1))
    if not is_floating(x):
        return _values(x, False, average)
    result: Pair = _median(x, ignore_nan, average)
    return result


def _bins_of(offset: jax.Array, extent: jax.Array, bins: int) -> jax.Array:
    """``offset * bins // extent`` of unsigned integers whose product needs more bits.

    A long division over the bits of `bins`; the remainder stays below `extent`. The result is
    meaningless for an offset beyond `extent`.
    """
    quotient = jnp.zeros(offset.shape, jnp.int32)
    rest = jnp.zeros_like(offset)
    for bit in f"{bins:b}":
        for term in (rest, offset) if bit == "1" else (rest,):
            # rest + term, less extent where that is reached; the sum itself could overflow.
            gap = extent - rest
            carries = term >= gap
            rest = jnp.where(carries, term - gap, rest + term)
            quotient = (2 * quotient if term is not offset else quotient) + carries
    return quotient


@lowering("ai.paddle_ipu", "Histogram")
def histogram(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """How many elements fall into each of ``bins`` between ``min`` and ``max``.

    Equal bounds mean the smallest and the largest element. With ``density`` the histogram's area
    is 1.
    """
    x = lax.stop_gradient(jnp.asarray(inputs[0])).reshape(-1)
    weight = optional_input(inputs, 1)
    bins = int(attributes["bins"])
    bounds = [attributes["min"], attributes["max"]]
    if not is_floating(x):
        # A float of 32 bits may round past the largest number.
        numbers = np.iinfo(x.dtype)
        bounds = [min(max(int(bound), numbers.min), numbers.max) for bound in bounds]
    low, high = (jnp.asarray(bound, x.dtype) for bound in bounds)
    differ = low != high
    low, high = jnp.where(differ, low, jnp.min(x)), jnp.where(differ, high, jnp.max(x))
    flat = low == high
    low, high = jnp.where(flat, low - 1, low), jnp.where(flat, high + 1, high)
    if is_floating(x):
        scaled = lax.div((x - low) * bins, jnp.broadcast_to(high - low, x.shape)).astype(jnp.int32)
        inside = (x >= low) & (x <= high)
    else:
        # Modulo 2^32, or 2^64, the differences are right however far apart the numbers are.
        wide = jnp.uint64 if x.dtype.itemsize == 8 else jnp.uint32
        offset, extent = ((end - low).astype(wide) for end in (x, high))
        scaled, inside = _bins_of(offset, extent, bins), offset <= extent
    # One more bin takes what is outside of the bounds.
    index = jnp.where(inside, jnp.minimum(scaled, bins - 1), bins)
    amounts = jnp.ones(x.shape, jnp.int32) if weight is None else lax.stop_gradient(weight)
    counts = jnp.zeros(bins + 1, amounts.dtype).at[index].add(amounts.reshape(-1))[:bins]
    if not attributes.get("density", 0):
        return counts
    width = (high.astype(jnp.float32) - low.astype(jnp.float32)) / bins
    return counts / jnp.sum(counts) / width

"""Lowerings of what depends on the order of elements: running extremes, modes, searches."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, checked_axis, is_floating, shifted
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _is_nan(x: jax.Array) -> jax.Array:
    return jnp.isnan(x) if is_floating(x) else jnp.zeros(x.shape, bool)


def _running_extreme(op_type: str, sign: int) -> None:
    """Registers CumMax (`sign` 1) or CumMin (-1): (running extremes, their indices)."""

    @lowering("ai.paddle_ipu", op_type)
    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
        x = jnp.asarray(inputs[0])
        axis = checked_axis(context, int(attributes.get("axis", -1)), x.ndim)

        def later(first: Pair, second: Pair) -> Pair:
            # Of equal elements the later; NaN stays.
            reached = second[0] >= first[0] if sign > 0 else second[0] <= first[0]
            takes = _is_nan(second[0]) | (~_is_nan(first[0]) & reached)
            return jnp.where(takes, second[0], first[0]), jnp.where(takes, second[1], first[1])

        positions = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        _, index = lax.associative_scan(later, (lax.stop_gradient(x), positions), axis=axis)
        return jnp.take_along_axis(x, index, axis), index


_running_extreme("CumMax", 1)
_running_extreme("CumMin", -1)


def _log_cumsum_exp(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
    """The logarithm of 0 is the lowest finite number, as in Paddle."""
    sums = lax.cumlogsumexp(x, axis=axis, reverse=reverse)
    return jnp.where(sums == -jnp.inf, np.finfo(np.float32).min, sums)


def _scan(op_type: str, function: Callable[..., jax.Array], identity: float) -> None:
    """Registers a scan along ``axis``; `identity` fills the gap of an ``exclusive`` one."""

    @lowering("ai.paddle_ipu", op_type)
    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
        x = jnp.asarray(inputs[0])
        axis = checked_axis(context, int(attributes.get("axis", -1)), x.ndim)
        reverse = bool(attributes.get("reverse", 0))
        if attributes.get("exclusive", 0):
            x = shifted(x, axis, identity, reverse)
        return function(x, axis=axis, reverse=reverse)


_scan("CumProd", lax.cumprod, 1)
_scan("LogCumSumExp", _log_cumsum_exp, -float("inf"))


@lowering("ai.paddle_ipu", "Mode")
def mode(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(the most frequent element of the last axis, of several the smallest; its last index)."""
    x = jnp.asarray(inputs[0])
    fixed = lax.stop_gradient(x)
    order = jnp.argsort(fixed, axis=-1, stable=True)
    ordered = jnp.take_along_axis(fixed, order, -1)
    positions = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    begins = jnp.concatenate(
        [jnp.ones((*x.shape[:-1], 1), bool), ordered[..., 1:] != ordered[..., :-1]], -1
    )
    starts = lax.cummax(jnp.where(begins, positions, 0), axis=x.ndim - 1)
    # The distance from the start of a run of equal elements is largest at the end of the longest.
    best = jnp.argmax(positions - starts, axis=-1, keepdims=True)
    index = jnp.take_along_axis(order, best, -1)
    return jnp.take_along_axis(x, index, -1)[..., 0], index[..., 0].astype(jnp.int32)


@lowering("ai.paddle_ipu", "SearchSorted")
def search_sorted(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """How many of an ordered axis come before each value, equal ones too with ``right``."""
    ordered, values = (lax.stop_gradient(jnp.asarray(value)) for value in inputs)
    side = "right" if attributes.get("right", 0) else "left"

    def search(row: jax.Array, wanted: jax.Array) -> jax.Array:
        return jnp.searchsorted(row, wanted, side=side).astype(jnp.int32)

    if ordered.ndim == 1:
        return search(ordered, values)
    rows = jax.vmap(search)(
        ordered.reshape(-1, ordered.shape[-1]), values.reshape(-1, values.shape[-1])
    )
    return rows.reshape(values.shape)

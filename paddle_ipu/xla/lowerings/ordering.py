"""Lowerings of what depends on the order of elements: running extremes, modes, searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import checked_axis, is_floating
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _is_nan(x: Any) -> Any:
    return jnp.isnan(x) if is_floating(x) else jnp.zeros(x.shape, bool)


def _running_extreme(op_type: str, sign: int) -> None:
    @lowering("ai.paddle_ipu", op_type)
    def rule(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
        x = jnp.asarray(inputs[0])
        axis = checked_axis(context, int(attributes.get("axis", -1)), x.ndim)

        def later(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
            # Of equal ones the later; NaN stays.
            reached = second[0] >= first[0] if sign > 0 else second[0] <= first[0]
            takes = _is_nan(second[0]) | (~_is_nan(first[0]) & reached)
            return jnp.where(takes, second[0], first[0]), jnp.where(takes, second[1], first[1])

        places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
        _, found = lax.associative_scan(later, (lax.stop_gradient(x), places), axis=axis)
        return jnp.take_along_axis(x, found, axis), found


_running_extreme("CumMax", 1)
_running_extreme("CumMin", -1)


def _shifted(x: Any, axis: int, fill: float, reverse: bool) -> Any:
    """Each element's predecessor, or successor in reverse; `fill` where there is none."""
    size = x.shape[axis]
    kept = (
        lax.slice_in_dim(x, 1, None, axis=axis)
        if reverse
        else lax.slice_in_dim(x, 0, size - 1, axis=axis)
    )
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (0, 1, 0) if reverse else (1, 0, 0)
    return lax.pad(kept, jnp.full((), fill, x.dtype), widths)


def _logarithm_of_running_sum(x: Any, axis: int, reverse: bool) -> Any:
    """Paddle's logarithm of nothing is the lowest number."""
    found = lax.cumlogsumexp(x, axis=axis, reverse=reverse)
    return jnp.where(found == -jnp.inf, np.finfo(np.float32).min, found)


def _scan(op_type: str, function: Any, identity: float) -> None:
    @lowering("ai.paddle_ipu", op_type)
    def rule(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
        x = jnp.asarray(inputs[0])
        axis = checked_axis(context, int(attributes.get("axis", -1)), x.ndim)
        reverse = bool(attributes.get("reverse", 0))
        if attributes.get("exclusive", 0):
            x = _shifted(x, axis, identity, reverse)
        return function(x, axis=axis, reverse=reverse)


_scan("CumProd", lax.cumprod, 1)
_scan("LogCumSumExp", _logarithm_of_running_sum, -float("inf"))


@lowering("ai.paddle_ipu", "Mode")
def mode(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The most frequent element of the last axis, of several the smallest; its last place."""
    x = jnp.asarray(inputs[0])
    fixed = lax.stop_gradient(x)
    order = jnp.argsort(fixed, axis=-1, stable=True)
    ordered = jnp.take_along_axis(fixed, order, -1)
    places = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    begins = jnp.concatenate(
        [jnp.ones((*x.shape[:-1], 1), bool), ordered[..., 1:] != ordered[..., :-1]], -1
    )
    starts = lax.cummax(jnp.where(begins, places, 0), axis=x.ndim - 1)
    # A run is longest at its end.
    best = jnp.argmax(places - starts, axis=-1, keepdims=True)
    found = jnp.take_along_axis(order, best, -1)
    return jnp.take_along_axis(x, found, -1)[..., 0], found[..., 0].astype(jnp.int32)


@lowering("ai.paddle_ipu", "SearchSorted")
def search_sorted(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """How many of an ordered axis come before each value, equal ones too with ``right``."""
    ordered, values = (lax.stop_gradient(jnp.asarray(value)) for value in inputs)
    side = "right" if attributes.get("right", 0) else "left"

    def search(row: Any, wanted: Any) -> Any:
        return jnp.searchsorted(row, wanted, side=side).astype(jnp.int32)

    if ordered.ndim == 1:
        return search(ordered, values)
    rows = jax.vmap(search)(
        ordered.reshape(-1, ordered.shape[-1]), values.reshape(-1, values.shape[-1])
    )
    return rows.reshape(values.shape)

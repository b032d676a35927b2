"""Lowerings of reductions over axes and of scans along one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import (
    Inputs,
    Pair,
    Single,
    checked_axes,
    checked_axis,
    integers,
    is_floating,
    shifted,
)
from paddle_ipu.xla.lowerings.elementwise import absolute
from paddle_ipu.xla.lowerings.registry import Attributes, Lowering, LoweringContext, lowering

Reduce = Callable[[jax.Array, tuple[int, ...], bool], jax.Array]
"""(x, axes, whether they stay with size 1) -> the reduction."""


def _mean(x: jax.Array, axis: tuple[int, ...], keepdims: bool) -> jax.Array:
    if is_floating(x):
        return jnp.mean(x, axis=axis, keepdims=keepdims)
    count = math.prod(x.shape[one] for one in axis)
    total = jnp.sum(x, axis=axis, keepdims=keepdims)
    # 0 of no elements: an integer division by zero ends the process.
    return lax.div(total, jnp.full_like(total, max(count, 1)))


def _sum(x: jax.Array, axis: tuple[int, ...], keepdims: bool) -> jax.Array:
    return jnp.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _product(x: jax.Array, axis: tuple[int, ...], keepdims: bool) -> jax.Array:
    return jnp.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


@_product.defjvp
def _product_jvp(axis: tuple[int, ...], keepdims: bool, primals: Single, tangents: Single) -> Pair:
    # As Paddle: the product divided by each factor, which is NaN where the factor is 0.
    (x,), (tangent,) = primals, tangents
    kept = _product(x, axis, True)
    out = kept if keepdims else lax.squeeze(kept, axis)
    return out, jnp.sum(tangent * (kept / x), axis=axis, keepdims=keepdims)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _euclidean_norm(x: jax.Array, axis: tuple[int, ...], keepdims: bool) -> jax.Array:
    return lax.sqrt(jnp.sum(lax.square(x), axis=axis, keepdims=keepdims))


@_euclidean_norm.defjvp
def _euclidean_norm_jvp(
    axis: tuple[int, ...], keepdims: bool, primals: Single, tangents: Single
) -> Pair:
    # Zero at zero, where x / norm would be NaN.
    (x,), (tangent,) = primals, tangents
    kept = _euclidean_norm(x, axis, True)
    out = kept if keepdims else lax.squeeze(kept, axis)
    direction = x / jnp.where(kept == 0, jnp.ones_like(kept), kept)
    return out, jnp.sum(tangent * direction, axis=axis, keepdims=keepdims)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2, 3))
def _extreme(
    function: Callable[..., jax.Array], x: jax.Array, axis: tuple[int, ...], keepdims: bool
) -> jax.Array:
    return function(x, axis=axis, keepdims=keepdims)


@_extreme.defjvp
def _extreme_jvp(
    function: Callable[..., jax.Array],
    axis: tuple[int, ...],
    keepdims: bool,
    primals: Single,
    tangents: Single,
) -> Pair:
    # As Paddle: ties share the slope evenly, and as nothing equals NaN, all shares of it are 0 / 0.
    # XLA would choose 0 for that quotient.
    (x,), (tangent,) = primals, tangents
    kept = _extreme(function, x, axis, True)
    equal = (x == kept).astype(x.dtype)
    count = jnp.sum(equal, axis=axis, keepdims=True)
    share = jnp.where(count == 0, jnp.nan, equal / count)
    out = kept if keepdims else lax.squeeze(kept, axis)
    return out, jnp.sum(tangent * share, axis=axis, keepdims=keepdims)


def _largest(x: jax.Array, axis: tuple[int, ...], keepdims: bool) -> jax.Array:
    return _extreme(jnp.max, x, axis, keepdims)


def _smallest(x: jax.Array, axis: tuple[int, ...], keepdims: bool) -> jax.Array:
    return _extreme(jnp.min, x, axis, keepdims)


def _axes(context: LoweringContext, x: jax.Array, attributes: Attributes) -> tuple[int, ...]:
    axes = integers(attributes, "axes")
    return checked_axes(context, range(x.ndim) if axes is None else axes, x.ndim)


def _reduction(
    function: Reduce,
) -> Lowering:
    """A reduction over ``axes`` (absent: all), which ``keepdims`` (default 1) keeps."""

    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
        x = jnp.asarray(inputs[0])
        return function(x, _axes(context, x, attributes), bool(attributes.get("keepdims", 1)))

    return rule


_REDUCTIONS: dict[str, Reduce] = {
    "ReduceMean": _mean,
    "ReduceSum": _sum,
    "ReduceMax": _largest,
    "ReduceMin": _smallest,
    "ReduceProd": _product,
    "ReduceSumSquare": lambda x, axis, keepdims: _sum(lax.square(x), axis, keepdims),
    "ReduceL1": lambda x, axis, keepdims: _sum(absolute(x), axis, keepdims),
    "ReduceL2": _euclidean_norm,
    "ReduceLogSum": lambda x, axis, keepdims: lax.log(_sum(x, axis, keepdims)),
    "ReduceLogSumExp": lambda x, axis, keepdims: jax.nn.logsumexp(x, axis=axis, keepdims=keepdims),
}
for _op_type, _function in _REDUCTIONS.items():
    lowering("ai.onnx", _op_type)(_reduction(_function))


@lowering("ai.graphcore", "ReduceMedian")
def reduce_median(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(lower median, its int32 index) over ``axes``; of several axes the index is the flat one.

    The gradient goes to the element of that index.
    """
    x = jnp.asarray(inputs[0])
    axes = _axes(context, x, attributes)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    flat = x.transpose(*kept, *sorted(axes)).reshape(*(x.shape[axis] for axis in kept), -1)
    middle = (flat.shape[-1] - 1) // 2
    index = jnp.argsort(lax.stop_gradient(flat), axis=-1, stable=True)[..., middle : middle + 1]
    value = jnp.take_along_axis(flat, index, axis=-1, mode="promise_in_bounds")
    shape = tuple(
        1 if axis in axes else size
        for axis, size in enumerate(x.shape)
        if axis not in axes or attributes.get("keepdims", 1)
    )
    return value.reshape(shape), index.astype(jnp.int32).reshape(shape)


@lowering("ai.graphcore", "Bucketize")
def bucketize(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The bucket of each element between ascending boundaries b, int32.

    Bucket i is (b[i - 1], b[i]], with ``right`` it is [b[i - 1], b[i]).
    """
    x, boundaries = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    side = "right" if attributes.get("right", 0) else "left"
    return jnp.searchsorted(boundaries, x, side=side).astype(jnp.int32)


def _arg_reduction(function: Callable[..., jax.Array], worst: float) -> Lowering:
    """The lowering of an index of an extreme by ``axis`` (default 0) and ``keepdims`` (default 1).

    Int32, of ties the first. NaN counts as the `worst` number, as in Paddle.
    """

    def rule(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
        x = jnp.asarray(inputs[0])
        axis = checked_axis(context, int(attributes.get("axis", 0)), x.ndim)
        if is_floating(x):
            x = jnp.where(jnp.isnan(x), jnp.full_like(x, worst), x)
        return function(x, axis=axis, keepdims=bool(attributes.get("keepdims", 1)))

    return rule


lowering("ai.onnx", "ArgMax")(_arg_reduction(jnp.argmax, -math.inf))
lowering("ai.onnx", "ArgMin")(_arg_reduction(jnp.argmin, math.inf))


@lowering("ai.onnx", "CumSum")
def cumsum(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Running sum along a constant axis; ``exclusive`` leaves each element itself out."""
    x = jnp.asarray(inputs[0])
    axis = checked_axis(context, int(context.static(inputs, 1, "the axis").reshape(())), x.ndim)
    backwards = bool(attributes.get("reverse", 0))
    if attributes.get("exclusive", 0):
        # Subtracting x from the inclusive sum would turn infinities into NaN.
        x = shifted(x, axis, 0, backwards)
    return lax.cumsum(x, axis=axis, reverse=backwards)

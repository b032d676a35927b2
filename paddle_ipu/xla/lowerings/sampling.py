"""Lowerings of reading and writing images at computed places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def _into_the_image(place: Any, size: int, mode: str, corners: bool) -> Any:
    """`place` on an axis of `size` pixels, moved inside by the padding mode."""
    return _moved(place, size, mode, corners)[0]


@_into_the_image.defjvp
def _derivative(
    size: int, mode: str, corners: bool, primals: tuple[Any], tangents: tuple[Any]
) -> tuple[Any, Any]:
    moved, slope = _moved(primals[0], size, mode, corners)
    return moved, slope * tangents[0]


def _moved(place: Any, size: int, mode: str, corners: bool) -> tuple[Any, Any]:
    """The place inside and Paddle's derivative of it: none where it was clipped."""
    one = jnp.ones_like(place)
    if mode == "border":
        inside = jnp.clip(place, 0, size - 1)
        return inside, (inside == place).astype(place.dtype)
    if mode != "reflection":
        return place, one
    shift = 0.0 if corners else 0.5
    period = 2.0 * (size - 1 if corners else size)
    if period == 0:
        return jnp.zeros_like(place), one
    far = jnp.abs(place + shift)
    extra = far - jnp.floor(far / period) * period
    flipped = extra > period - extra
    sign = jnp.where((place + shift < 0) == flipped, one, -one)
    reflected = jnp.minimum(extra, period - extra) - shift
    if corners:
        return reflected, sign
    inside = jnp.clip(reflected, 0, size - 1)
    return inside, sign * (inside == reflected)


def _pixels(grid: Any, size: int, corners: bool) -> Any:
    """Places in [-1, 1] as pixels: -1 and 1 are centres of corner pixels, or their outer edges."""
    if corners:
        return (grid + 1) * ((size - 1) * 0.5)
    return (grid + 1) * (size * 0.5) - 0.5


@lowering("ai.paddle_ipu", "GridSample")
def grid_sample(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """x [N, C, *sizes] at the points of grid [N, *out, rank]; outside the image it is zero.

    The last axis of the grid begins with the last axis of the image.
    """
    x, grid = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    sizes, out = x.shape[2:], grid.shape[1:-1]
    corners, padding = bool(attributes["align_corners"]), str(attributes["padding_mode"])
    places = [
        _into_the_image(_pixels(grid[..., -1 - axis], size, corners), size, padding, corners)
        for axis, size in enumerate(sizes)
    ]
    places = [place.reshape(x.shape[0], -1) for place in places]
    image = x.reshape(*x.shape[:2], -1)
    if attributes["mode"] == "nearest":
        whole = [lax.round(place, lax.RoundingMethod.TO_NEAREST_EVEN) for place in places]
        total = _read(image, whole, sizes)
    else:
        total = jnp.zeros((), x.dtype)
        lows = [jnp.floor(lax.stop_gradient(place)) for place in places]
        for corner in itertools.product((0, 1), repeat=len(sizes)):
            weight = jnp.ones((), x.dtype)
            for place, low, side in zip(places, lows, corner, strict=True):
                weight = weight * (place - low if side else low + 1 - place)
            at = [low + side for low, side in zip(lows, corner, strict=True)]
            total = total + _read(image, at, sizes) * weight[:, None]
    return total.reshape(*x.shape[:2], *out)


def _read(image: Any, at: Sequence[Any], sizes: Sequence[int]) -> Any:
    """image [N, C, flat] at whole places [N, points] of each axis; zero outside."""
    inside = jnp.ones(at[0].shape, bool)
    flat = jnp.zeros(at[0].shape, jnp.int32)
    for axis, (place, size) in enumerate(zip(at, sizes, strict=True)):
        inside &= (place >= 0) & (place <= size - 1)
        step = math.prod(sizes[axis + 1 :])
        flat += jnp.clip(place, 0, size - 1).astype(jnp.int32) * step
    found = jnp.take_along_axis(image, flat[:, None], axis=2)
    return jnp.where(inside[:, None], found, jnp.zeros((), image.dtype))


@jax.custom_vjp
def _placed(empty: Any, x: Any, indices: Any) -> Any:
    """`x` [N, C, flat] written at `indices` into `empty`; of several writes the last counts."""
    rows = jnp.arange(x.shape[0])[:, None, None], jnp.arange(x.shape[1])[None, :, None]
    return empty.at[(*rows, indices)].set(x)


def _placed_forward(empty: Any, x: Any, indices: Any) -> tuple[Any, Any]:
    return _placed(empty, x, indices), indices


def _placed_backward(indices: Any, cotangent: Any) -> tuple[Any, Any, None]:
    # Paddle gives every element the gradient of its place, overwritten or not.
    return jnp.zeros_like(cotangent), jnp.take_along_axis(cotangent, indices, axis=2), None


_placed.defvjp(_placed_forward, _placed_backward)


@lowering("ai.paddle_ipu", "Unpool")
def unpool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """x [N, C, ...] written at indices of the same shape into zeros [N, C, *sizes]."""
    x, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    sizes = [int(size) for size in attributes["sizes"]]
    context.within("index", inputs[1], 0, math.prod(sizes) - 1)
    empty = jnp.zeros((*x.shape[:2], math.prod(sizes)), x.dtype)
    flat = x.reshape(*x.shape[:2], -1)
    written = _placed(empty, flat, indices.reshape(flat.shape))
    return written.reshape(*x.shape[:2], *sizes)

"""Lowerings of reads and writes of images at computed positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


@partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def _padded_position(position: jax.Array, size: int, mode: str, corners: bool) -> jax.Array:
    """A position on an axis of `size` pixels, moved inside by the padding mode."""
    return _position_and_slope(position, size, mode, corners)[0]


@_padded_position.defjvp
def _derivative(
    size: int, mode: str, corners: bool, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> Pair:
    inside, slope = _position_and_slope(primals[0], size, mode, corners)
    return inside, slope * tangents[0]


def _position_and_slope(position: jax.Array, size: int, mode: str, corners: bool) -> Pair:
    """(the position inside, Paddle's derivative of it: 0 where it was clipped)."""
    one = jnp.ones_like(position)
    if mode == "border":
        inside = jnp.clip(position, 0, size - 1)
        return inside, (inside == position).astype(position.dtype)
    if mode != "reflection":
        return position, one
    shift = 0.0 if corners else 0.5
    period = 2.0 * (size - 1 if corners else size)
    if period == 0:
        return jnp.zeros_like(position), one
    # Reflection at both edges repeats after a period: there and back.
    far = jnp.abs(position + shift)
    extra = far - jnp.floor(far / period) * period
    flipped = extra > period - extra
    sign = jnp.where((position + shift < 0) == flipped, one, -one)
    reflected = jnp.minimum(extra, period - extra) - shift
    if corners:
        return reflected, sign
    inside = jnp.clip(reflected, 0, size - 1)
    return inside, sign * (inside == reflected)


def _pixels(grid: jax.Array, size: int, corners: bool) -> jax.Array:
    """[-1, 1] as pixels: the ends are centres of corner pixels (`corners`) or their outer edges."""
    if corners:
        return (grid + 1) * ((size - 1) * 0.5)
    return (grid + 1) * (size * 0.5) - 0.5


@lowering("ai.paddle_ipu", "GridSample")
def grid_sample(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """x [N, C, *sizes] at the points of grid [N, *out, rank]; outside the image it is zero.

    The last axis of the grid begins with the last axis of the image.
    """
    x, grid = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    sizes, out = x.shape[2:], grid.shape[1:-1]
    corners, padding = bool(attributes["align_corners"]), str(attributes["padding_mode"])
    positions = [
        _padded_position(_pixels(grid[..., -1 - axis], size, corners), size, padding, corners)
        for axis, size in enumerate(sizes)
    ]
    positions = [position.reshape(x.shape[0], -1) for position in positions]
    image = x.reshape(*x.shape[:2], -1)
    if attributes["mode"] == "nearest":
        rounded = [
            lax.round(position, lax.RoundingMethod.TO_NEAREST_EVEN) for position in positions
        ]
        total = _read(image, rounded, sizes)
    else:
        total = jnp.zeros((), x.dtype)
        lows = [jnp.floor(lax.stop_gradient(position)) for position in positions]
        for corner in itertools.product((0, 1), repeat=len(sizes)):
            weight = jnp.ones((), x.dtype)
            for position, low, side in zip(positions, lows, corner, strict=True):
                weight = weight * (position - low if side else low + 1 - position)
            at = [low + side for low, side in zip(lows, corner, strict=True)]
            total = total + _read(image, at, sizes) * weight[:, None]
    return total.reshape(*x.shape[:2], *out)


def _read(image: jax.Array, at: Sequence[jax.Array], sizes: Sequence[int]) -> jax.Array:
    """image [N, C, flat] at integer positions [N, points] of each axis; zero outside."""
    inside = jnp.ones(at[0].shape, bool)
    flat = jnp.zeros(at[0].shape, jnp.int32)
    for axis, (position, size) in enumerate(zip(at, sizes, strict=True)):
        inside &= (position >= 0) & (position <= size - 1)
        step = math.prod(sizes[axis + 1 :])
        flat += jnp.clip(position, 0, size - 1).astype(jnp.int32) * step
    pixels = jnp.take_along_axis(image, flat[:, None], axis=2)
    return jnp.where(inside[:, None], pixels, jnp.zeros((), image.dtype))


@jax.custom_vjp
def _scattered(empty: jax.Array, x: jax.Array, indices: jax.Array) -> jax.Array:
    """`x` [N, C, flat] written at `indices` into `empty`; of several writes the last counts."""
    rows = jnp.arange(x.shape[0])[:, None, None], jnp.arange(x.shape[1])[None, :, None]
    return empty.at[(*rows, indices)].set(x)


def _scattered_forward(empty: jax.Array, x: jax.Array, indices: jax.Array) -> Pair:
    return _scattered(empty, x, indices), indices


def _scattered_backward(
    indices: jax.Array, cotangent: jax.Array
) -> tuple[jax.Array, jax.Array, None]:
    # Paddle gives every element the gradient of its position, overwritten or not.
    return jnp.zeros_like(cotangent), jnp.take_along_axis(cotangent, indices, axis=2), None


_scattered.defvjp(_scattered_forward, _scattered_backward)


@lowering("ai.paddle_ipu", "Unpool")
def unpool(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """x [N, C, ...] written at indices of the same shape into zeros [N, C, *sizes]."""
    x, indices = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    sizes = [int(size) for size in attributes["sizes"]]
    context.within("index", inputs[1], 0, math.prod(sizes) - 1)
    empty = jnp.zeros((*x.shape[:2], math.prod(sizes)), x.dtype)
    flat = x.reshape(*x.shape[:2], -1)
    written = _scattered(empty, flat, indices.reshape(flat.shape))
    return written.reshape(*x.shape[:2], *sizes)

"""Lowerings of pooling over windows whose sizes differ, of tensors [N, C, spatial axes]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Constant, Inputs, Pair, lowest_number
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


class _Axis(NamedTuple):
    """The windows of one axis.

    Attributes:
        positions: [windows, longest] positions inside the axis.
        inside: [windows, longest] which of them belong to the window.
    """

    positions: Constant
    inside: Constant


def _axes(attributes: Attributes, sizes: Sequence[int]) -> Iterator[_Axis]:
    """Each spatial axis: ``starts`` and ``ends`` list the windows of the first axis first."""
    begin = 0
    for count, size in zip(attributes["counts"], sizes, strict=True):
        starts = np.asarray(attributes["starts"][begin : begin + count])
        ends = np.asarray(attributes["ends"][begin : begin + count])
        begin += count
        longest = max(int((ends - starts).max(initial=1)), 1)
        positions = starts[:, None] + np.arange(longest)
        yield _Axis(np.clip(positions, 0, size - 1), positions < ends[:, None])


@lowering("ai.paddle_ipu", "SumOfWindows")
def sum_of_windows(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The sum of each window, axis after axis."""
    x = jnp.asarray(inputs[0])
    if not x.size:
        return jnp.zeros((*x.shape[:2], *attributes["counts"]), x.dtype)
    for number, axis in enumerate(_axes(attributes, x.shape[2:]), start=2):
        elements = jnp.take(x, axis.positions, axis=number, mode="clip")
        inside = axis.inside.reshape(axis.inside.shape + (1,) * (x.ndim - number - 1))
        x = jnp.sum(jnp.where(inside, elements, np.zeros((), x.dtype)), axis=number + 1)
    return x


@lowering("ai.paddle_ipu", "MaxOfWindows")
def max_of_windows(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """The maximum of each window, and its position in the flattened image.

    Of equal elements the first counts, for the position and for the gradient, as in Paddle. Of a
    window with no number above the lowest finite one (nothing but NaN, -inf, or no element) the
    maximum is that one, the position -1, and there is no gradient. Of images without pixels all
    maxima are NaN, at position 0.
    """
    x = jnp.asarray(inputs[0])
    if not x.size:
        out = (*x.shape[:2], *attributes["counts"])
        return jnp.full(out, jnp.nan, x.dtype), jnp.zeros(out, jnp.int32)
    sizes = x.shape[2:]
    axes = list(_axes(attributes, sizes))
    rank = len(axes)
    counts, lengths = zip(*(axis.positions.shape for axis in axes), strict=True)
    # [window of each axis, element of the window of each axis] -> position in the image.
    flat, inside = np.zeros(counts + lengths, np.int32), np.ones(counts + lengths, bool)
    for number, axis in enumerate(axes):
        shape = [1] * (2 * rank)
        shape[number], shape[rank + number] = axis.positions.shape
        flat += (axis.positions * math.prod(sizes[number + 1 :])).reshape(shape).astype(np.int32)
        inside &= axis.inside.reshape(shape)
    windows = math.prod(counts)
    longest = math.prod(lengths)
    flat, inside = flat.reshape(windows, longest), inside.reshape(windows, longest)
    image = x.reshape(*x.shape[:2], -1)
    elements = jnp.take(lax.stop_gradient(image), flat, axis=2, mode="clip")
    lowest = lowest_number(x)
    candidates = jnp.where(inside & (elements > lowest), elements, lowest)
    best = jnp.argmax(candidates, axis=-1)
    position = jnp.take_along_axis(jnp.asarray(flat)[None, None], best[..., None], axis=-1)[..., 0]
    exists = jnp.max(candidates, axis=-1) > lowest
    largest = jnp.where(exists, jnp.take_along_axis(image, position, axis=2), lowest)
    out = (*x.shape[:2], *counts)
    return largest.reshape(out), jnp.where(exists, position, -1).astype(jnp.int32).reshape(out)

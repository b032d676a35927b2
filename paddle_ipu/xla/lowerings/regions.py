"""Lowerings of pooling over regions of interest: boxes [R, 4] of images [N, C, H, W]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, Operand, lowering

Samples = tuple[jax.Array, jax.Array, jax.Array]
"""Of one axis: the first three fields of `_Bins`."""

Marks = tuple[jax.Array, jax.Array]
"""Arrays with as many elements as there are bins in an axis, rows first."""

Residuals = tuple[jax.Array, jax.Array, Samples, Samples, Marks]


def _image_of_each_box(context: LoweringContext, counts: jax.Array, boxes: int) -> jax.Array:
    """counts [N] of boxes -> the image of each box."""
    context.within("number of boxes", counts, 0, boxes)
    return jnp.sum(jnp.arange(boxes)[:, None] >= jnp.cumsum(counts)[None], axis=1)


def _nothing(x: jax.Array, boxes: jax.Array, *sizes: int) -> jax.Array:
    """What Paddle gives for boxes of images without elements."""
    return jnp.zeros((boxes.shape[0], *sizes), x.dtype)


class _Bins(NamedTuple):
    """The bins of one axis of each box: where it starts, how long a bin is, samples in each."""

    start: jax.Array
    length: jax.Array
    samples: jax.Array
    bins: int


def _taps(bins: _Bins, at: jax.Array, size: int) -> list[tuple[jax.Array, jax.Array]]:
    """Two positions and weights [R, bins] of sample `at`; no weight outside the image."""
    samples = bins.samples[:, None]
    within = (at + 0.5) / jnp.maximum(samples, 1).astype(bins.start.dtype)
    place = bins.start[:, None] + bins.length[:, None] * (jnp.arange(bins.bins) + within)
    valid = (at < samples) & (place >= -1.0) & (place <= size)
    place = jnp.maximum(place, 0.0)
    low = jnp.floor(place).astype(jnp.int32)
    place = jnp.where(low >= size - 1, size - 1, place)
    low = jnp.minimum(low, size - 1)
    high = jnp.minimum(low + 1, size - 1)
    right = jnp.where(high == low, 1.0, place - low)
    left = jnp.where(high == low, 0.0, 1.0 - right)
    return [(low, left * valid), (high, right * valid)]


def _sample(
    x: jax.Array, images: jax.Array, rows: _Bins, columns: _Bins, at: jax.Array
) -> jax.Array:
    """Sample number `at` of each bin: [R, rows, columns, C] of x [N, H, W, C]."""
    wide = jnp.maximum(jnp.max(columns.samples), 1)
    total: Any = 0.0
    image = images[:, None, None]
    for row, down in _taps(rows, at // wide, x.shape[1]):
        for column, across in _taps(columns, at % wide, x.shape[2]):
            weight = down[:, :, None] * across[:, None, :]
            total = total + x[image, row[:, :, None], column[:, None, :]] * weight[..., None]
    result: jax.Array = total
    return result


def _rounds(rows: _Bins, columns: _Bins) -> jax.Array:
    return jnp.max(rows.samples) * jnp.maximum(jnp.max(columns.samples), 1)


@jax.custom_vjp
def _sum_of_samples(
    x: jax.Array, images: jax.Array, rows: Samples, columns: Samples, shape: Marks
) -> jax.Array:
    """The sum of all samples of each bin; how many there are depends on the boxes."""
    down, across = _with_count(rows, shape[0]), _with_count(columns, shape[1])
    empty = jnp.zeros((images.shape[0], down.bins, across.bins, x.shape[-1]), x.dtype)
    total: jax.Array = lax.fori_loop(
        0,
        _rounds(down, across),
        lambda at, total: total + _sample(x, images, down, across, at),
        empty,
    )
    return total


def _with_count(bins: Samples, marks: jax.Array) -> _Bins:
    start, length, samples = bins
    return _Bins(start, length, samples, marks.shape[0])


def _divided(length: jax.Array, count: int) -> jax.Array:
    """The exact quotient: by a constant, XLA would multiply by its rounded reciprocal."""
    hidden: jax.Array = lax.optimization_barrier(jnp.asarray(count, length.dtype))  # type: ignore[no-untyped-call]
    return length / hidden


def _forward(
    x: jax.Array, images: jax.Array, rows: Samples, columns: Samples, shape: Marks
) -> tuple[jax.Array, Residuals]:
    total = _sum_of_samples(x, images, rows, columns, shape)
    return total, (jnp.zeros_like(x), images, rows, columns, shape)


def _backward(kept: Residuals, cotangent: jax.Array) -> tuple[jax.Array, None, None, None, None]:
    # The sum is linear in x: each sample sends its part back, in the same order.
    zeros, images, rows, columns, shape = kept
    down, across = _with_count(rows, shape[0]), _with_count(columns, shape[1])

    def add(at: jax.Array, gradient: jax.Array) -> jax.Array:
        _, pull = jax.vjp(lambda x: _sample(x, images, down, across, at), zeros)
        total: jax.Array = gradient + pull(cotangent)[0]
        return total

    gradient = lax.fori_loop(0, _rounds(down, across), add, zeros)
    return gradient, None, None, None, None


_sum_of_samples.defvjp(_forward, _backward)


@lowering("ai.paddle_ipu", "RoiAlign")
def roi_align(
    context: LoweringContext, inputs: Sequence[Operand], attributes: Attributes
) -> jax.Array:
    """The mean of bilinear samples in each bin (He et al., arXiv:1703.06870).

    With a sampling_ratio above 0 there are so many samples an axis, else as many as a bin has
    pixels, rounded up. No gradient flows to the boxes.
    """
    x, boxes, counts = (jnp.asarray(value) for value in inputs)
    return _mean_of_samples(
        x,
        boxes,
        _image_of_each_box(context, counts, boxes.shape[0]),
        (int(attributes["pooled_height"]), int(attributes["pooled_width"])),
        float(attributes["spatial_scale"]),
        int(attributes["sampling_ratio"]),
        aligned=bool(attributes["aligned"]),
    )


@lowering("ai.onnx", "RoiAlign")
def roi_align_by_image(
    context: LoweringContext, inputs: Sequence[Operand], attributes: Attributes
) -> jax.Array:
    """The same, given the image of each box; boxes lie on pixels' corners."""
    x, boxes, images = (jnp.asarray(value) for value in inputs)
    return _mean_of_samples(
        x,
        boxes,
        images,
        (int(attributes.get("output_height", 1)), int(attributes.get("output_width", 1))),
        float(attributes.get("spatial_scale", 1.0)),
        int(attributes.get("sampling_ratio", 0)),
        aligned=False,
    )


def _mean_of_samples(
    x: jax.Array,
    boxes: jax.Array,
    images: jax.Array,
    pooled: tuple[int, int],
    scale: float,
    ratio: int,
    *,
    aligned: bool,
) -> jax.Array:
    if not x.size:
        return _nothing(x, boxes, x.shape[1], *pooled)
    boxes = lax.stop_gradient(boxes)
    corners = boxes * np.float32(scale) - (0.5 if aligned else 0.0)
    bins = []
    for axis, count in ((1, pooled[0]), (0, pooled[1])):
        length = corners[:, axis + 2] - corners[:, axis]
        if not aligned:
            length = jnp.maximum(length, 1.0)
        samples = jnp.ceil(_divided(length, count)).astype(jnp.int32)
        samples = jnp.full_like(samples, ratio) if ratio > 0 else jnp.maximum(samples, 0)
        bins.append(_Bins(corners[:, axis], _divided(length, count), samples, count))
    rows, columns = bins
    total = _sum_of_samples(
        jnp.moveaxis(x, 1, -1),
        images,
        rows[:3],
        columns[:3],
        (jnp.zeros(rows.bins), jnp.zeros(columns.bins)),
    )
    number = (rows.samples * columns.samples).astype(x.dtype)
    return jnp.moveaxis(total, -1, 1) / jnp.maximum(number, 1)[:, None, None, None]


def _away_from_zero(x: jax.Array) -> jax.Array:
    return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


def _inside(starts: jax.Array, ends: jax.Array, size: int) -> jax.Array:
    """[bins, size]: which positions of an axis are in each bin."""
    at = jnp.arange(size)
    return (at >= starts[:, None]) & (at < ends[:, None])


@lowering("ai.paddle_ipu", "RoiPool")
def roi_pool(
    context: LoweringContext, inputs: Sequence[Operand], attributes: Attributes
) -> tuple[jax.Array, jax.Array]:
    """(the maximum of each bin, its position in the image); 0 and -1 for an empty bin.

    Boxes are rounded to whole pixels; of equal elements the first counts (Girshick,
    arXiv:1504.08083).
    """
    x, boxes, counts = (jnp.asarray(value) for value in inputs)
    bins = [int(attributes["pooled_height"]), int(attributes["pooled_width"])]
    if not x.size:
        nothing = _nothing(x, boxes, x.shape[1], *bins)
        return nothing, jnp.full(nothing.shape, -1, jnp.int32)
    corners = _away_from_zero(lax.stop_gradient(boxes) * np.float32(attributes["spatial_scale"]))
    sizes = x.shape[2:]

    def one(box: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        image, corner = box
        pixels = x[image]
        masks = []
        for axis, (count, size) in enumerate(zip(bins, sizes, strict=True)):
            start = corner[1 - axis]
            step = _divided(jnp.maximum(corner[3 - axis] - start + 1, 1), count)
            low = jnp.floor(jnp.arange(count) * step) + start
            high = jnp.ceil(jnp.arange(1, count + 1) * step) + start
            masks.append(_inside(low, high, size))
        inside = (masks[0][:, None, :, None] & masks[1][None, :, None, :]).reshape(*bins, -1)
        flat = pixels.reshape(pixels.shape[0], -1)
        lowest = np.asarray(-np.inf, x.dtype)
        seen = jnp.where(inside, lax.stop_gradient(flat)[:, None, None], lowest)
        where = jnp.argmax(seen, axis=-1).astype(jnp.int32)
        largest = jnp.take_along_axis(flat, where.reshape(flat.shape[0], -1), axis=1)
        empty = ~jnp.any(inside, axis=-1)
        return (
            jnp.where(empty, 0.0, largest.reshape(where.shape)),
            jnp.where(empty, -1, where),
        )

    images = _image_of_each_box(context, counts, boxes.shape[0])
    results: tuple[jax.Array, jax.Array] = lax.map(one, (images, corners))
    return results


@lowering("ai.paddle_ipu", "PsRoiPool")
def psroi_pool(
    context: LoweringContext, inputs: Sequence[Operand], attributes: Attributes
) -> jax.Array:
    """The mean of each bin; bin (i, j) of output c reads channel (c, i, j) (arXiv:1605.06409)."""
    x, boxes, counts = (jnp.asarray(value) for value in inputs)
    bins = [int(attributes["pooled_height"]), int(attributes["pooled_width"])]
    if not x.size:
        return _nothing(x, boxes, x.shape[1] // math.prod(bins), *bins)
    boxes, scale = lax.stop_gradient(boxes), np.float32(attributes["spatial_scale"])
    whole = _away_from_zero(boxes)
    starts, ends = whole[:, :2] * scale, (whole[:, 2:] + 1) * scale
    apart = x.reshape(x.shape[0], -1, *bins, *x.shape[2:])

    def one(box: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        image, start, end = box
        masks = []
        for axis, (count, size) in enumerate(zip(bins, x.shape[2:], strict=True)):
            low = start[1 - axis]
            step = _divided(jnp.maximum(end[1 - axis] - low, 0.1), count)
            edges = jnp.arange(count + 1) * step + low
            masks.append(_inside(jnp.floor(edges[:-1]), jnp.ceil(edges[1:]), size))
        inside = masks[0][:, None, :, None] & masks[1][None, :, None, :]
        total = jnp.sum(jnp.where(inside, apart[image], 0.0), axis=(-2, -1))
        return total / jnp.maximum(jnp.sum(inside, axis=(-2, -1)), 1)

    images = _image_of_each_box(context, counts, boxes.shape[0])
    means: jax.Array = lax.map(one, (images, starts, ends))
    return means

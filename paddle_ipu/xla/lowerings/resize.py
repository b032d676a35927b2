"""Lowerings of Resize and Upsample: axis by axis, each element from a few weighted neighbours.

Formulas are those of ONNX's Resize of opset 11, in single precision as PopART's. The length of the
output in them is that of the input times the scale, which no whole number need be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.popart.shape_inference.resize import scaled_length
from paddle_ipu.xla.lowerings.arrays import Constant, Inputs, is_floating, optional_input
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

Taps = list[tuple[Constant, Constant]]
"""(index in the input, weight) of each neighbour, by element of the output."""


class _Options(NamedTuple):
    """The operator's attributes, by the names of opset 11 without their prefixes."""

    mode: str
    coordinates: str
    nearest: str
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    extrapolation_value: float = 0.0


def _positions(
    mode: str, scale: float, size: int, length: float, region: tuple[float, float]
) -> Constant:
    """Where each element of the output lies in the input, as a fractional index.

    Args:
        mode: of the coordinates.
        scale: of the axis.
        size: length of the input.
        length: of the output, before it is rounded down.
        region: begin and end of what tf_crop_and_resize takes, as shares of the input.
    """
    out = int(length)
    at, one = np.arange(out, dtype=np.float32), np.float32(1)
    by = np.float32(scale)
    if mode == "asymmetric":
        return at / by
    if mode == "align_corners":
        if length == 1:
            return np.zeros_like(at)
        return at * np.float32(size - 1) / (np.float32(length) - one)
    if mode == "tf_half_pixel_for_nn":
        return (at + one / 2) / by
    if mode == "tf_crop_and_resize":
        start, end = (bound * (size - 1) for bound in region)
        return start + at * (end - start) / (out - 1) if out > 1 else (start + end) / 2 + at
    if mode == "pytorch_half_pixel" and length <= 1:
        return np.zeros_like(at)
    return (at + one / 2) / by - one / 2


def _nearest(position: Constant, mode: str) -> Taps:
    position = position.astype(np.float64)
    if mode in ("floor", "pytorch"):
        index = np.floor(position)
    elif mode == "ceil":
        index = np.ceil(position)
    elif mode == "round_prefer_ceil":
        index = np.floor(position + 0.5)
    else:
        index = np.ceil(position - 0.5)
    return [(index.astype(np.int64), np.ones_like(position))]


def _linear(position: Constant) -> Taps:
    low = np.floor(position)
    part = position - low
    index = low.astype(np.int64)
    return [(index, 1 - part), (index + 1, part)]


def _cubic(position: Constant, a: float) -> Taps:
    """Keys' cubic convolution with the coefficient `a`."""
    low = np.floor(position)
    part = position - low
    taps: Taps = []
    for offset in (-1, 0, 1, 2):
        d = np.abs(part - offset)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        taps.append((low.astype(np.int64) + offset, np.where(d <= 1, near, far)))
    return taps


def _interpolated(x: jax.Array, axis: int, taps: Taps, size: int, exclude: bool) -> jax.Array:
    """The weighted sums of neighbours; those outside are the edge's, or left out (`exclude`)."""
    if exclude:
        inside = [np.where((at >= 0) & (at < size), weight, 0.0) for at, weight in taps]
        total = sum(inside)
        taps = [(at, weight / total) for (at, _), weight in zip(taps, inside, strict=True)]
    shape = [1] * x.ndim
    shape[axis] = -1
    out: jax.Array | None = None
    for at, weight in taps:
        part = jnp.take(x, np.clip(at, 0, size - 1), axis=axis, mode="clip")
        if not (weight == 1).all():
            part = part * jnp.asarray(weight.reshape(shape), x.dtype)
        out = part if out is None else out + part
    assert out is not None
    return out


def _resized(
    x: jax.Array,
    lengths: Sequence[float],
    scales: Sequence[float],
    region: Sequence[float],
    options: _Options,
) -> jax.Array:
    """x with other lengths, which are rounded down.

    `region` is all begins, then all ends, for tf_crop_and_resize.
    """
    is_crop = options.coordinates == "tf_crop_and_resize"
    ranges = [(0.0, 1.0)] * x.ndim
    if is_crop:
        ranges = list(zip(region[: x.ndim], region[x.ndim :], strict=True))
    dtype, outside = x.dtype, []
    for axis, (size, length) in enumerate(zip(tuple(x.shape), lengths, strict=True)):
        mode = options.coordinates
        if options.mode == "nearest" and options.nearest == "pytorch":
            mode = "asymmetric"
            if size == int(length):
                continue
        position = _positions(mode, scales[axis], size, length, ranges[axis])
        if is_crop:
            outside.append((axis, (position < 0) | (position > size - 1)))
        if np.array_equal(position, np.arange(size)):
            continue
        if options.mode == "nearest":
            taps = _nearest(position, options.nearest)
        else:
            is_linear = options.mode == "linear"
            taps = _linear(position) if is_linear else _cubic(position, options.cubic_coefficient)
            x = x if is_floating(x) else x.astype(jnp.float32)
        x = _interpolated(x, axis, taps, size, options.mode == "cubic" and options.exclude_outside)
    for axis, beyond in outside:
        if beyond.any():
            shape = [1] * x.ndim
            shape[axis] = -1
            x = jnp.where(
                beyond.reshape(shape), jnp.asarray(options.extrapolation_value, x.dtype), x
            )
    return x.astype(dtype)


@lowering("ai.onnx", "Resize", "Upsample")
def resize(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor with each axis resized in ``mode`` nearest, linear or cubic.

    The scales are input 1 up to opset 10, whose nearest element is the one below unless
    ``nearest_mode`` names another. In opset 11 they are input 2, or the sizes are input 3.
    ``coordinate_transformation_mode`` says how positions of the output map to the input.
    """
    x = jnp.asarray(inputs[0])
    mode = str(attributes.get("mode", "nearest"))
    if len(inputs) == 2:
        scales = _scales(context, inputs, 1)
        nearest = str(attributes.get("nearest_mode", "pytorch"))
        place = "half_pixel" if mode == "nearest" and nearest != "pytorch" else "asymmetric"
        place = str(attributes.get("coordinate_transformation_mode", place))
        lengths = list(map(scaled_length, x.shape, scales))
        return _resized(x, lengths, scales, (), _Options(mode, place, nearest))
    scales_input = optional_input(inputs, 2)
    if scales_input is not None and scales_input.size:
        scales = _scales(context, inputs, 2)
        lengths = list(map(scaled_length, x.shape, scales))
    else:
        lengths = [float(size) for size in context.static(inputs, 3, "the sizes").reshape(-1)]
        scales = [new / max(old, 1) for new, old in zip(lengths, x.shape, strict=True)]
    options = _Options(
        mode,
        str(attributes.get("coordinate_transformation_mode", "half_pixel")),
        str(attributes.get("nearest_mode", "round_prefer_floor")),
        float(attributes.get("cubic_coeff_a", -0.75)),
        bool(attributes.get("exclude_outside", 0)),
        float(attributes.get("extrapolation_value", 0.0)),
    )
    region: Sequence[float] = ()
    if options.coordinates == "tf_crop_and_resize":
        region = context.static(inputs, 1, "the region").reshape(-1).tolist()
    return _resized(x, lengths, scales, region, options)


def _scales(context: LoweringContext, inputs: Inputs, index: int) -> list[float]:
    return [float(scale) for scale in context.static(inputs, index, "the scales").reshape(-1)]

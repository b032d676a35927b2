"""Lowerings of Resize and Upsample: each axis by itself, a few weighted neighbours an element.

Formulas are those of ONNX's Resize of opset 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.lowerings.arrays import input_or_none, is_floating
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

Array = np.ndarray[Any, Any]
Taps = list[tuple[Array, Array]]


def _places(mode: str, scale: float, size: int, out: int, region: tuple[float, float]) -> Array:
    """Where each element of the output lies in the input, as a fractional index."""
    at = np.arange(out, dtype=np.float64)
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * (size - 1) / (out - 1) if out > 1 else np.zeros(out)
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = (bound * (size - 1) for bound in region)
        return start + at * (end - start) / (out - 1) if out > 1 else (start + end) / 2 + at
    if mode == "pytorch_half_pixel" and out == 1:
        return np.zeros(out)
    return (at + 0.5) / scale - 0.5


def _nearest(place: Array, mode: str) -> Taps:
    if mode == "floor":
        index = np.floor(place)
    elif mode == "ceil":
        index = np.ceil(place)
    elif mode == "round_prefer_ceil":
        index = np.floor(place + 0.5)
    else:
        index = np.ceil(place - 0.5)
    return [(index.astype(np.int64), np.ones_like(place))]


def _linear(place: Array) -> Taps:
    low = np.floor(place)
    part = place - low
    index = low.astype(np.int64)
    return [(index, 1 - part), (index + 1, part)]


def _cubic(place: Array, a: float) -> Taps:
    """Keys' cubic convolution with the coefficient `a`."""
    low = np.floor(place)
    part = place - low
    taps: Taps = []
    for offset in (-1, 0, 1, 2):
        d = np.abs(part - offset)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        taps.append((low.astype(np.int64) + offset, np.where(d <= 1, near, far)))
    return taps


def _along(x: Any, axis: int, taps: Taps, size: int, exclude: bool) -> Any:
    """The sum of weighted neighbours; those outside are the edge's, or left out."""
    if exclude:
        inside = [np.where((at >= 0) & (at < size), weight, 0.0) for at, weight in taps]
        total = sum(inside)
        taps = [(at, weight / total) for (at, _), weight in zip(taps, inside, strict=True)]
    shape = [1] * x.ndim
    shape[axis] = -1
    out: Any = None
    for at, weight in taps:
        part = jnp.take(x, np.clip(at, 0, size - 1), axis=axis, mode="clip")
        if not (weight == 1).all():
            part = part * jnp.asarray(weight.reshape(shape), x.dtype)
        out = part if out is None else out + part
    return out


def _resized(x: Any, out: Sequence[int], scales: Sequence[float], region: Any, options: Any) -> Any:
    kind, coordinates = options["mode"], options["coordinates"]
    ranges = [(0.0, 1.0)] * x.ndim
    if coordinates == "tf_crop_and_resize":
        ranges = list(zip(region[: x.ndim], region[x.ndim :], strict=True))
    dtype, outside = x.dtype, []
    for axis, (size, wanted) in enumerate(zip(tuple(x.shape), out, strict=True)):
        place = _places(coordinates, scales[axis], size, wanted, ranges[axis])
        if coordinates == "tf_crop_and_resize":
            outside.append((axis, (place < 0) | (place > size - 1)))
        if np.array_equal(place, np.arange(size)):
            continue
        if kind == "nearest":
            taps = _nearest(place, options["nearest"])
        else:
            taps = _linear(place) if kind == "linear" else _cubic(place, options["a"])
            x = x if is_floating(x) else x.astype(jnp.float32)
        x = _along(x, axis, taps, size, kind == "cubic" and options["exclude"])
    for axis, beyond in outside:
        if beyond.any():
            shape = [1] * x.ndim
            shape[axis] = -1
            x = jnp.where(beyond.reshape(shape), jnp.asarray(options["fill"], x.dtype), x)
    return x.astype(dtype)


@lowering("ai.onnx", "Resize", "Upsample")
def resize(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The tensor with each axis made longer or shorter, in ``mode`` nearest, linear or cubic.

    The scales are input 1 up to opset 10, which takes the element below. In opset 11 they are
    input 2, or the sizes input 3; ``coordinate_transformation_mode`` says where elements lie.
    """
    x = jnp.asarray(inputs[0])
    mode = str(attributes.get("mode", "nearest"))
    if len(inputs) == 2:
        scales = [float(scale) for scale in context.static(inputs, 1, "the scales").reshape(-1)]
        out = [int(np.floor(size * scale)) for size, scale in zip(x.shape, scales, strict=True)]
        options: dict[str, Any] = {"mode": mode, "coordinates": "asymmetric", "nearest": "floor"}
        return _resized(x, out, scales, None, options)
    given = input_or_none(inputs, 2)
    if given is not None and given.size:
        scales = [float(scale) for scale in context.static(inputs, 2, "the scales").reshape(-1)]
        out = [int(np.floor(size * scale)) for size, scale in zip(x.shape, scales, strict=True)]
    else:
        out = [int(size) for size in context.static(inputs, 3, "the sizes").reshape(-1)]
        scales = [new / max(old, 1) for new, old in zip(out, x.shape, strict=True)]
    options = {
        "mode": mode,
        "coordinates": attributes.get("coordinate_transformation_mode", "half_pixel"),
        "nearest": attributes.get("nearest_mode", "round_prefer_floor"),
        "a": float(attributes.get("cubic_coeff_a", -0.75)),
        "exclude": bool(attributes.get("exclude_outside", 0)),
        "fill": float(attributes.get("extrapolation_value", 0.0)),
    }
    region = None
    if options["coordinates"] == "tf_crop_and_resize":
        region = context.static(inputs, 1, "the region").reshape(-1).tolist()
    return _resized(x, out, scales, region, options)

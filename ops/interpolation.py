"""Translators of interpolation of images [N, C, spatial axes] or [N, spatial axes, C].

What each result reads is known at compile time, and axes are interpolated one after another: along
each, a result is a weighted sum of one, two or four Gathers with constant indices. Coordinates are
rounded as in Paddle's kernels. PopART has a gradient for this, but none for a linear Resize.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import Array, TranslationContext
from paddle_ipu.ops.image_layout import is_channels_last
from paddle_ipu.ops.registry import translator

_Taps = list[tuple[Array, Array | None]]
"""Positions along an axis, one for each result, and their weights (None for ones)."""


@translator("nearest_interp", emits=("Gather",), limits="sizes and scales must be constant")
def nearest_interp(context: TranslationContext) -> str:
    """The element at ``floor(i * ratio)``, with ``align_corners`` at ``round(i * ratio)``."""

    def taps(size: int, length: int, ratio: np.float32) -> _Taps:
        half = 0.5 if context.attr("align_corners", 1) else 0.0
        positions = (ratio * np.arange(length, dtype=np.float32)).astype(np.float64) + half
        return [(np.minimum(positions.astype(np.int64), size - 1), None)]

    return _interpolated(context, taps)


@translator(
    "linear_interp",
    "bilinear_interp",
    "trilinear_interp",
    emits=("Gather", "Mul", "Add"),
    limits="sizes and scales must be constant",
)
def linear_interp(context: TranslationContext) -> str:
    """The mean of the two nearest elements along each axis, weighted by distance.

    Result i is at ``i * ratio``; with ``align_mode`` 0 and without ``align_corners`` at ``(i + 0.5)
    * ratio - 0.5``.
    """
    centred = not context.attr("align_corners", 1) and int(context.attr("align_mode", 1)) == 0

    def taps(size: int, length: int, ratio: np.float32) -> _Taps:
        at = np.arange(length)
        wide = np.float64(ratio) * (at + 0.5) - 0.5 if centred else ratio * at.astype(np.float32)
        low = np.maximum(wide.astype(np.int64), 0)
        right = (np.maximum(wide, 0).astype(np.float32) - low.astype(np.float32)).clip(0)
        low = np.minimum(low, size - 1)
        return [
            (low, np.float32(1) - right),
            (np.minimum(low + 1, size - 1), right),
        ]

    return _interpolated(context, taps)


@translator(
    "bicubic_interp", emits=("Gather", "Mul", "Add"), limits="sizes and scales must be constant"
)
def bicubic_interp(context: TranslationContext) -> str:
    """Cubic convolution (Keys, 1981) of four elements with a = -0.75; borders are replicated."""

    def taps(size: int, length: int, ratio: np.float32) -> _Taps:
        at = np.arange(length)
        if context.attr("align_corners", 1):
            wide = (ratio * at.astype(np.float32)).astype(np.float32)
        else:
            wide = (np.float64(ratio) * (at + 0.5) - 0.5).astype(np.float32)
        low = np.floor(wide)
        right = (wide - low).astype(np.float64)
        a = -0.75
        weights = [_cubic_outer(right + 1, a), _cubic_inner(right, a)]
        weights += [_cubic_inner(1 - right, a), _cubic_outer(2 - right, a)]
        return [
            (np.clip(low + offset, 0, size - 1).astype(np.int64), weight)
            for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)
        ]

    return _interpolated(context, taps)


def _cubic_inner(x: Array, a: float) -> Array:
    """Keys' kernel for distances up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _cubic_outer(x: Array, a: float) -> Array:
    """Keys' kernel for distances from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _interpolated(
    context: TranslationContext, taps: Callable[[int, int, np.float32], _Taps]
) -> str:
    x = context.input("x")
    shape, last = context.shape(x), is_channels_last(context)
    spatial = list(range(1, len(shape) - 1)) if last else list(range(2, len(shape)))
    sizes = [shape[axis] for axis in spatial]
    lengths, scales = _lengths(context, sizes)
    if lengths == sizes:
        return x
    for axis, size, length, scale in zip(spatial, sizes, lengths, scales, strict=True):
        dialect.check_constant(context.node, [length])
        x = _along(context, x, axis, taps(size, length, _ratio(context, size, length, scale)))
    return x


def _along(context: TranslationContext, x: str, axis: int, taps: _Taps) -> str:
    """The weighted sum of gathered elements along one axis."""
    terms = []
    for positions, weights in taps:
        term = context.onnx.gather([x, context.const(positions, "int32")], axis)
        if weights is not None:
            shape = [1] * context.rank(x)
            shape[axis] = len(weights)
            weight = context.const(np.asarray(weights).reshape(shape), context.dtype(x))
            term = context.onnx.mul([term, weight])
        terms.append(term)
    total = terms[0]
    for term in terms[1:]:
        total = context.onnx.add([total, term])
    return total


def _ratio(context: TranslationContext, size: int, length: int, scale: float) -> np.float32:
    """The distance between the coordinates of two results, in float32 as in Paddle's kernel."""
    if length <= 1:
        return np.float32(0)
    if context.attr("align_corners", 1):
        return np.float32(size - 1) / np.float32(length - 1)
    if scale > 0:
        return np.float32(1.0 / float(np.float32(scale)))
    return np.float32(size) / np.float32(length)


def _lengths(context: TranslationContext, sizes: Sequence[int]) -> tuple[list[int], list[float]]:
    """The length of each spatial axis of the result, and its scale or 0.0 if sizes are given.

    Sizes in tensors have priority over scales, scales over sizes in attributes.
    """
    rank = len(sizes)
    names = ("out_d", "out_h", "out_w")[-rank:]
    if context.has("size_tensor"):
        return context.ints("size_tensor"), [0.0] * rank
    if context.has("scale_tensor"):
        scales = [float(scale) for scale in context.static("scale_tensor").reshape(-1)]
    else:
        scales = [float(scale) for scale in context.attr("scale") or ()]
    scales = scales * rank if len(scales) == 1 else scales
    if scales and len(scales) != rank:
        raise context.refuse(f"scales {scales} of {rank} axes: one for each, or one for all.")
    lengths = [int(context.attr(name, 0)) for name in names]
    if scales:
        lengths = [
            int(np.float32(size) * np.float32(scale))
            for size, scale in zip(sizes, scales, strict=True)
        ]
    if context.has("out_size"):
        lengths = context.ints("out_size")
    return lengths, scales or [0.0] * rank

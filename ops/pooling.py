"""Translators of pooling of images [N, C, spatial axes] or [N, spatial axes, C]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.image_layout import (
    channels_back,
    channels_first,
    explicit_pads,
    is_channels_last,
    pads_to_the_end,
)
from paddle_ipu.ops.registry import translator


class Windows(NamedTuple):
    """The windows of one axis.

    Attributes:
        starts: the first index of each window.
        ends: the index after its last.
        divisors: what a mean divides by.
    """

    starts: list[int]
    ends: list[int]
    divisors: list[int]


class _Geometry(NamedTuple):
    """Windows of equal size: kernel, stride, and padding before and after, for each axis."""

    kernel: list[int]
    strides: list[int]
    before: list[int]
    after: list[int]


@translator(
    "pool2d",
    "pool3d",
    emits=("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Pad", "Transpose",
           "Mul", "Add", "paddle_ipu.SumOfWindows"),
    limits="no adaptive maximum, which Paddle writes as max_pool2d_with_index",
)  # fmt: skip
def pool2d(context: TranslationContext) -> str:
    """The maximum or the mean of each window.

    Divisors follow Paddle's kernel: with ``exclusive`` the elements of the image, otherwise those
    of the padded image up to ``size + padding before``.
    """
    _check_windows(context)
    last = is_channels_last(context)
    x = channels_first(context, context.input("x"), last)
    kind = str(context.attr("pooling_type", "max"))
    if kind == "max" and context.attr("adaptive", 0):
        raise context.refuse(
            "Paddle's own kernel ignores adaptive where the maximum is taken; write "
            "adaptive_max_pool, which is another operator."
        )
    if 0 in context.shape(x)[2:]:
        pooled = _of_no_pixels(context, x, 0.0 if kind == "max" else math.nan)
    else:
        pooled = _max_pool(context, x) if kind == "max" else _average_pool(context, x)
    return channels_back(context, pooled, last)


@translator(
    "max_pool2d_with_index",
    "max_pool3d_with_index",
    emits=("MaxPool", "GlobalMaxPool", "IsNaN", "Where", "paddle_ipu.MaxOfWindows"),
)
def max_pool_with_index(context: TranslationContext) -> Sequence[str | None]:
    """The maximum of each window of an image [N, C, spatial axes], and its flat index."""
    _check_windows(context)
    x = context.input("x")
    if not context.is_used(1) and 0 not in context.shape(x)[2:]:
        # Paddle's kernel with indices skips NaN; that of pool2d does not.
        lowest = context.const_like(float(np.finfo(np.float32).min), x)
        without = context.onnx.where([context.onnx.isnan([x]), lowest, x])
        return [_max_pool(context, without), None]
    return max_of_windows(context, x, _windows(context, context.shape(x)[2:]))


@translator(
    "lp_pool2d",
    emits=("Pow", "MaxPool", "GlobalMaxPool", "Transpose", "paddle_ipu.SumOfWindows"),
)
def lp_pool2d(context: TranslationContext) -> str:
    """``sum(x ** p) ** (1 / p)`` of each window; of infinite order the maximum, not of ``|x|``."""
    _check_windows(context)
    last = is_channels_last(context)
    x = channels_first(context, context.input("x"), last)
    p = float(context.attr("norm_type"))
    if p == math.inf and context.attr("adaptive", 0):
        raise context.refuse(
            "adaptive windows of infinite order: Paddle's kernel takes kernel_size both for the "
            "number of windows and for their size. Use adaptive_max_pool2d."
        )
    if p == math.inf and 0 not in context.shape(x)[2:]:
        return channels_back(context, _max_pool(context, x), last)
    power = context.onnx.pow([x, context.const_like(p, x)])
    total = _sum_of_windows(context, power, _windows(context, context.shape(x)[2:]))
    root = context.onnx.pow([total, context.const_like(1.0 / p, x)])
    return channels_back(context, root, last)


@translator("fractional_max_pool2d", "fractional_max_pool3d", emits=("paddle_ipu.MaxOfWindows",))
def fractional_max_pool(context: TranslationContext) -> list[str]:
    """The maximum of pseudo-random windows (arXiv:1412.6071), and its flat index."""
    x = context.input("x")
    u = float(context.attr("random_u", 0.0))
    if u == 0.0:
        raise context.refuse(
            "random_u 0 draws the windows anew in each run, which a compiled program cannot do; "
            "give random_u a number between 0 and 1."
        )
    if not math.isfinite(u):
        raise context.refuse(f"random_u is {u}; give it a number between 0 and 1.")
    sizes, wanted = context.shape(x)[2:], context.ints("output_size")
    kernel = context.ints("kernel_size") or [0] * len(sizes)
    if not len(sizes) == len(wanted) == len(kernel):
        raise context.refuse(
            f"output_size {wanted} and kernel_size {kernel} of {len(sizes)} axes: one for each."
        )
    windows = [_fractional(*axis, u) for axis in zip(sizes, wanted, kernel, strict=True)]
    return max_of_windows(context, x, windows)


def _windows(context: TranslationContext, sizes: Sequence[int]) -> list[Windows]:
    """The windows of each axis: one for all, a given number (adaptive), or of a given size."""
    if context.attr("global_pooling", 0):
        return [_even(size, size, 1, 0, 0, False) for size in sizes]
    if context.attr("adaptive", 0):
        wanted = context.ints("kernel_size")
        dialect.check_constant(context.node, wanted)
        return [_adaptive(*axis) for axis in zip(sizes, wanted, strict=True)]
    return _all_even(_geometry(context, sizes), sizes, bool(context.attr("ceil_mode", 0)))


def _check_windows(context: TranslationContext) -> None:
    is_global, adaptive = context.attr("global_pooling", 0), context.attr("adaptive", 0)
    kernel, strides = context.ints("kernel_size"), context.ints("strides")
    if not (is_global or adaptive) and min(kernel, default=1) < 1:
        raise context.refuse(
            f"kernel_size {kernel}: windows have 1 element or more along each axis. Set such sizes."
        )
    if not adaptive and min(strides, default=1) < 1:
        raise context.refuse(f"strides {strides}: windows move by 1 or more. Set such strides.")
    if is_global and adaptive:
        raise context.refuse(
            "global_pooling and adaptive are both set, of which Paddle's kernel makes windows of "
            "one element each. Set one of them."
        )


def _geometry(context: TranslationContext, sizes: Sequence[int]) -> _Geometry:
    kernel, strides = context.ints("kernel_size"), context.ints("strides")
    before, after = explicit_pads(context, sizes, kernel, strides)
    ceil = bool(context.attr("ceil_mode", 0))
    after = pads_to_the_end(sizes, kernel, strides, before, after, ceil)
    for padded in zip(sizes, before, after, strict=True):
        dialect.check_constant(context.node, [sum(padded)])
    return _Geometry(kernel, strides, before, after)


def _even(size: int, kernel: int, stride: int, before: int, after: int, ceil: bool) -> Windows:
    """Windows of equal size along one axis.

    For divisors Paddle's kernel ends a window at ``size + before``, whatever the padding after is.
    """
    extra = size - kernel + before + after + (stride - 1 if ceil else 0)
    starts = [at * stride - before for at in range(extra // stride + 1)]
    ends = [min(start + kernel, size + before) for start in starts]
    divisors = [end - start for start, end in zip(starts, ends, strict=True)]
    starts = [min(max(start, 0), size) for start in starts]
    return Windows(starts, [min(end, size) for end in ends], divisors)


def _all_even(geometry: _Geometry, sizes: Sequence[int], ceil: bool) -> list[Windows]:
    return [_even(*given, ceil) for given in zip(sizes, *geometry, strict=True)]


def _adaptive(size: int, wanted: int) -> Windows:
    """`wanted` windows that cover an axis; they overlap if their number does not divide it."""
    starts = [at * size // wanted for at in range(wanted)]
    ends = [-(-(at + 1) * size // wanted) for at in range(wanted)]
    return Windows(starts, ends, [end - start for start, end in zip(starts, ends, strict=True)])


def _fractional(size: int, wanted: int, kernel: int, u: float) -> Windows:
    """Windows of fractional max pooling (arXiv:1412.6071), rounded as in Paddle's kernel.

    Without a kernel they are disjoint, and u is scaled so that they stay inside the axis. All
    numbers are float32.
    """
    if size == 0:
        return Windows([0] * wanted, [0] * wanted, [0] * wanted)
    alpha = np.float32(size - kernel) / np.float32(wanted - (1 if kernel else 0))
    shift = np.float32(u)
    if not kernel:
        base = size // wanted
        highest = np.float32(base + 2) / alpha - np.float32(1)
        at_the_end = np.float32(size + 1 - base) / alpha - np.float32(wanted - 1)
        shift *= min(highest, at_the_end)
    places = [
        int((np.float32(at) + shift) * alpha) - int(shift * alpha) for at in range(wanted + 1)
    ]
    starts = places[:-1]
    ends = [start + kernel for start in starts] if kernel else places[1:]
    ends = [min(end, size) for end in ends]
    return Windows(starts, ends, [end - start for start, end in zip(starts, ends, strict=True)])


def _window_attributes(windows: Sequence[Windows]) -> dict[str, list[int]]:
    return {
        "counts": [len(axis.starts) for axis in windows],
        "starts": [start for axis in windows for start in axis.starts],
        "ends": [end for axis in windows for end in axis.ends],
    }


def max_of_windows(context: TranslationContext, x: str, windows: Sequence[Windows]) -> list[str]:
    """The maximum of each window and its flat index in the image.

    Args:
        context: of the node.
        x: the image [N, C, spatial axes].
        windows: the windows of each spatial axis.

    Returns:
        Two tensors [N, C, number of windows of each axis].
    """
    return context.extension("MaxOfWindows", [x], _window_attributes(windows), 2)


def _sum_of_windows(context: TranslationContext, x: str, windows: Sequence[Windows]) -> str:
    return context.extension("SumOfWindows", [x], _window_attributes(windows))[0]


def _is_regular(sizes: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(size % count == 0 for size, count in zip(sizes, wanted, strict=True))


def _max_pool(context: TranslationContext, x: str) -> str:
    sizes = context.shape(x)[2:]
    adaptive, kernel = bool(context.attr("adaptive", 0)), context.ints("kernel_size")
    if context.attr("global_pooling", 0) or (adaptive and set(kernel) == {1}):
        return context.onnx.globalmaxpool([x])
    if adaptive and not _is_regular(sizes, kernel):
        return max_of_windows(context, x, _windows(context, sizes))[0]
    kernel, strides, before, after = (
        _divided(sizes, kernel) if adaptive else _geometry(context, sizes)
    )
    ceil = int(context.attr("ceil_mode", 0) and not adaptive)
    return context.onnx.maxpool([x], 1, kernel, ceil, [], before + after, 0, strides)[0]


def _divided(sizes: Sequence[int], wanted: Sequence[int]) -> _Geometry:
    """Adjacent windows of equal size, `wanted` for each axis."""
    kernel = [size // count for size, count in zip(sizes, wanted, strict=True)]
    return _Geometry(kernel, kernel, [0] * len(kernel), [0] * len(kernel))


def _average_pool(context: TranslationContext, x: str) -> str:
    sizes = context.shape(x)[2:]
    adaptive, kernel = bool(context.attr("adaptive", 0)), context.ints("kernel_size")
    if context.attr("global_pooling", 0) or (adaptive and set(kernel) == {1}):
        return context.onnx.globalaveragepool([x])
    if adaptive and not _is_regular(sizes, kernel):
        return _mean_of_windows(context, x, _windows(context, sizes))
    geometry = _divided(sizes, kernel) if adaptive else _geometry(context, sizes)
    kernel, strides, before, after = geometry
    ceil = bool(context.attr("ceil_mode", 0)) and not adaptive
    if adaptive or context.attr("exclusive", 1):
        return context.onnx.averagepool([x], kernel, int(ceil), 0, before + after, strides)
    windows = _all_even(geometry, sizes, ceil)
    if any(set(axis.divisors) != {size} for axis, size in zip(windows, kernel, strict=True)):
        return _mean_of_windows(context, x, windows)
    # PopART excludes padding from the mean: padding that counts is made part of the image.
    pads = context.shape_const([0, 0, *before, 0, 0, *after])
    padded = context.onnx.pad([x, pads, context.const_like(0.0, x)])
    return context.onnx.averagepool([padded], kernel, 0, 0, [0] * 2 * len(kernel), strides)


def _of_no_pixels(context: TranslationContext, x: str, value: float) -> str:
    """What Paddle's kernels give for windows of an image without pixels: `value`."""
    nothing = _sum_of_windows(context, x, _windows(context, context.shape(x)[2:]))
    return context.onnx.add([nothing, context.const_like(value, x)])


def _mean_of_windows(context: TranslationContext, x: str, windows: Sequence[Windows]) -> str:
    total = _sum_of_windows(context, x, windows)
    sizes = np.ones([1] * len(windows))
    for at, axis in enumerate(windows):
        shape = [1] * len(windows)
        shape[at] = len(axis.divisors)
        sizes = sizes * np.asarray(axis.divisors).reshape(shape)
    return context.onnx.mul([total, context.const(1.0 / sizes, context.dtype(x))])

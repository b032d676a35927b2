"""Translators that move elements to positions known at compile time: diagonals, windows, frames.

Which element goes where follows from shapes and attributes alone, so most of these operators are
a Gather with a constant index. Its gradient sums over the results that read the same element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import Array, TranslationContext, product
from paddle_ipu.ops.image_layout import (
    channels_back,
    channels_first,
    is_channels_last,
    pads_to_the_end,
)
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


def _padded(
    context: TranslationContext, x: str, pairs: Sequence[tuple[int, int]], fill: float = 0.0
) -> str:
    """`x` with `fill` before and after each axis; `pairs` has (before, after) for each."""
    if not any(before or after for before, after in pairs):
        return x
    widths = [before for before, _ in pairs] + [after for _, after in pairs]
    return context.onnx.pad([x, context.shape_const(widths), context.const_like(fill, x)])


def _picked(context: TranslationContext, x: str, places: Array, axis: int) -> str:
    """The elements at indices `places` along `axis`, which is replaced by the axes of `places`."""
    shape = context.shape(x)
    axis %= len(shape)
    index = context.const(places.reshape(-1), "int32")
    picked = context.onnx.gather([x, index], axis)
    return context.reshape(picked, [*shape[:axis], *places.shape, *shape[axis + 1 :]])


def _picked_from_all(context: TranslationContext, x: str, places: Array) -> str:
    """The elements at flat (row-major) indices `places`."""
    return _picked(context, context.reshape(x, [product(context.shape(x))]), places, 0)


# Diagonals.


def places_of_diagonal(rows: int, columns: int, offset: int) -> Array:
    """Flat indices of a diagonal's elements in a row-major matrix.

    Args:
        rows: number of rows.
        columns: number of columns.
        offset: 0 for the main diagonal, positive above it, negative below.

    Returns:
        The indices, int64 [length of the diagonal].
    """
    return np.arange(rows * columns).reshape(rows, columns).diagonal(offset).copy()


def diagonal_of(
    context: TranslationContext, x: str, axis1: int, axis2: int, offset: int = 0
) -> str:
    """The diagonal of the matrices that two axes span, as the last axis.

    Args:
        context: of the node.
        x: the tensor.
        axis1: axis of the rows, not negative.
        axis2: axis of the columns, not negative.
        offset: 0 for the main diagonal, positive above it, negative below.
    """
    rest = [axis for axis in range(context.rank(x)) if axis not in (axis1, axis2)]
    x = context.transpose(x, [*rest, axis1, axis2])
    *lead, rows, columns = context.shape(x)
    flat = context.reshape(x, [*lead, rows * columns])
    return _picked(context, flat, places_of_diagonal(rows, columns, offset), -1)


@translator("diagonal", emits=("Transpose", "Reshape", "Gather"))
def diagonal(context: TranslationContext) -> str:
    """The diagonal of the matrices that ``axis1`` and ``axis2`` span, as a new last axis."""
    x = context.input("x")
    rank = context.rank(x)
    axis1, axis2 = int(context.attr("axis1", 0)) % rank, int(context.attr("axis2", 1)) % rank
    return diagonal_of(context, x, axis1, axis2, int(context.attr("offset", 0)))


@translator("trace", emits=("Transpose", "Reshape", "Gather", "ReduceSum"))
def trace(context: TranslationContext) -> str:
    """The sum of the diagonal of the matrices that ``axis1`` and ``axis2`` span."""
    diagonals = diagonal(context)
    return context.onnx.reducesum([diagonals], [context.rank(diagonals) - 1], 0)


def _places_on_diagonal(size: int, offset: int) -> Array:
    """For each element of a square matrix its index on the diagonal, `size` where it is off it."""
    full = size + abs(offset)
    places = np.full((full, full), size)
    places[np.diag_indices(size)[0] + max(-offset, 0), np.arange(size) + max(offset, 0)] = (
        np.arange(size)
    )
    return places


@translator("diag", emits=("Pad", "Gather", "Reshape"))
def diag(context: TranslationContext) -> str:
    """A vector [n] as the diagonal of a matrix, or the diagonal of a matrix as a vector.

    Elements off the diagonal are ``padding_value``. The matrix is gathered from the vector with
    that value appended.
    """
    x, offset = context.input("x"), int(context.attr("offset", 0))
    shape = context.shape(x)
    if len(shape) == 2:
        return _picked_from_all(context, x, places_of_diagonal(shape[0], shape[1], offset))
    x = context.reshape(x, [product(shape)])
    size = product(shape)
    longer = _padded(context, x, [(0, 1)], float(context.attr("padding_value", 0.0)))
    return _picked(context, longer, _places_on_diagonal(size, offset), 0)


@translator("diag_embed", emits=("graphcore.Detach", "Pad", "Gather", "Reshape", "Transpose"))
def diag_embed(context: TranslationContext) -> str:
    """The last axis as the diagonal of matrices in axes ``dim1`` and ``dim2``, zeros elsewhere.

    Paddle's operator has no gradient, so none passes here.
    """
    x = context.graphcore.detach([context.input("input")])
    offset = int(context.attr("offset", 0))
    *lead, size = context.shape(x)
    rank = len(lead) + 2
    axis1, axis2 = (int(context.attr(name)) % rank for name in ("dim1", "dim2"))
    longer = _padded(context, x, [*[(0, 0)] * len(lead), (0, 1)])
    matrices = _picked(context, longer, _places_on_diagonal(size, offset), -1)
    rest = iter(range(rank - 2))
    perm = [
        rank - 2 if axis == axis1 else rank - 1 if axis == axis2 else next(rest)
        for axis in range(rank)
    ]
    return context.transpose(matrices, perm)


# Images.


def _windows(context: TranslationContext, height: int, width: int) -> tuple[Array, list[int]]:
    """Flat indices of the elements of each window in the padded image.

    Returns:
        Indices [kernel height * kernel width, number of windows], and the padded [height, width].

    Raises:
        NotSupported: the padded image is smaller than a window.
    """
    kernel, strides = context.ints("kernel_sizes"), context.ints("strides")
    dilations = context.ints("dilations")
    top, left, bottom, right = context.ints("paddings")
    reach = [(count - 1) * dilation + 1 for count, dilation in zip(kernel, dilations, strict=True)]
    bottom, right = pads_to_the_end([height, width], reach, strides, [top, left], [bottom, right])
    padded = [height + top + bottom, width + left + right]
    lines = []
    for size, count, step, dilation in zip(padded, kernel, strides, dilations, strict=True):
        windows = (size - (dilation * (count - 1) + 1)) // step + 1
        if windows <= 0:
            raise context.refuse(
                f"no window fits: the kernel {kernel} with dilations {dilations} is larger than "
                f"the padded image, {padded}. Give a smaller kernel or more padding."
            )
        dialect.check_constant(context.node, [count, windows])
        lines.append(np.arange(count)[:, None] * dilation + np.arange(windows) * step)
    down, across = lines
    dialect.check_constant(context.node, [*down.shape, *across.shape])
    places = down[:, None, :, None] * padded[1] + across[None, :, None, :]
    return places.reshape(kernel[0] * kernel[1], -1), padded


@translator("unfold", emits=("Pad", "Reshape", "Gather"))
def unfold(context: TranslationContext) -> str:
    """im2col: the windows of an image [N, C, H, W] as columns [N, C * kernel size, windows]."""
    x = context.input("x")
    count, channels, height, width = context.shape(x)
    places, padded = _windows(context, height, width)
    top, left, *_ = context.ints("paddings")
    below, behind = padded[0] - height - top, padded[1] - width - left
    x = _padded(context, x, [(0, 0), (0, 0), (top, below), (left, behind)])
    x = context.reshape(x, [count, channels, product(padded)])
    picked = _picked(context, x, places, 2)
    return context.reshape(picked, [count, channels * places.shape[0], places.shape[1]])


def _added_up(context: TranslationContext, x: str, places: Array, axis: int, size: int) -> str:
    """Sums of the elements with equal indices `places` along `axis`, which gets length `size`."""
    index = context.const(places.reshape(-1), "int32")
    return context.graphcore.groupedscatterreduce([x, index], size, axis)


@translator("fold", emits=("Reshape", "graphcore.ScatterReduce", "Slice"))
def fold(context: TranslationContext) -> str:
    """col2im: columns [N, C * kernel size, windows] summed into an image [N, C, H, W]."""
    x = context.input("x")
    height, width = context.ints("output_sizes")
    places, padded = _windows(context, height, width)
    *lead, rows, _ = context.shape(x)
    channels = rows // places.shape[0]
    flat = context.reshape(x, [*lead, channels, places.size])
    axis = len(lead) + 1
    image = _added_up(context, flat, places, axis, product(padded))
    image = context.reshape(image, [*lead, channels, *padded])
    top, left, *_ = context.ints("paddings")
    if padded == [height, width]:
        return image
    starts, ends = [top, left], [top + height, left + width]
    operands = [context.shape_const(item) for item in (starts, ends, [axis, axis + 1])]
    return context.onnx.slice([image, *operands])


@translator("pixel_unshuffle", emits=("Reshape", "Transpose"))
def pixel_unshuffle(context: TranslationContext) -> str:
    """Each r x r block of pixels to channels: [N, C, H * r, W * r] to [N, C * r * r, H, W]."""
    last = is_channels_last(context)
    x = channels_first(context, context.input("x"), last)
    factor = int(context.attr("downscale_factor", 1))
    count, channels, height, width = context.shape(x)
    height, width = height // factor, width // factor
    blocks = context.reshape(x, [count, channels, height, factor, width, factor])
    transposed = context.transpose(blocks, [0, 1, 3, 5, 2, 4])
    small = context.reshape(transposed, [count, channels * factor * factor, height, width])
    return channels_back(context, small, last)


@translator("channel_shuffle", emits=("Reshape", "Transpose"))
def channel_shuffle(context: TranslationContext) -> str:
    """Channels interleaved between ``groups`` (ShuffleNet, arXiv:1707.01083)."""
    last = is_channels_last(context)
    x = channels_first(context, context.input("x"), last)
    shuffled = _interleaved(context, x, int(context.attr("groups", 1)))
    return channels_back(context, shuffled, last)


@translator("shuffle_channel", emits=("Reshape", "Transpose"))
def shuffle_channel(context: TranslationContext) -> str:
    """Channels of [N, C, H, W] interleaved between ``group`` groups: the older form of it."""
    return _interleaved(context, context.input("x"), int(context.attr("group", 1)))


def _interleaved(context: TranslationContext, x: str, groups: int) -> str:
    """Channels [groups, C / groups] transposed to [C / groups, groups]."""
    count, channels, height, width = context.shape(x)
    split = context.reshape(x, [count, groups, channels // groups, height, width])
    return context.reshape(context.transpose(split, [0, 2, 1, 3, 4]), context.shape(x))


@translator("temporal_shift", emits=("Reshape", "Slice", "Pad", "Concat", "Transpose"))
def temporal_shift(context: TranslationContext) -> str:
    """Channels shifted along time (TSM, arXiv:1811.08383).

    x is [N * seg_num, C, H, W]. The first ``shift_ratio * C`` channels come from the step before,
    as many from the step after, the others stay; zeros enter at the ends. As in Paddle's kernel the
    products with the ratio are taken in float32 and truncated.
    """
    last = is_channels_last(context)
    x = channels_first(context, context.input("x"), last)
    shape = context.shape(x)
    steps, channels = int(context.attr("seg_num")), shape[1]
    ratio = np.float32(context.attr("shift_ratio", 0.25))
    first, second = (int(np.float32(channels) * part) for part in (ratio, ratio * np.float32(2)))
    video = context.reshape(x, [shape[0] // steps, steps, *shape[1:]])
    parts = []
    for start, end, shift in ((0, first, 1), (first, second, -1), (second, channels, 0)):
        if start == end:
            continue
        part = context.slice(video, 2, start, end)
        parts.append(_padded(context, part, [(0, 0), (shift, -shift), *[(0, 0)] * 3]))
    shifted = context.reshape(context.onnx.concat(parts, 2), shape)
    return channels_back(context, shifted, last)


# Signals.


@translator("frame", emits=("Gather", "Reshape"))
def frame(context: TranslationContext) -> str:
    """Overlapping frames of a signal: [..., length, frames], with axis 0 [frames, length, ...]."""
    x = context.input("x")
    axis, step = int(context.attr("axis", -1)), int(context.attr("hop_length"))
    length = int(context.attr("frame_length"))
    frames = (context.shape(x)[axis] - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    return _picked(context, x, places if axis == 0 else places.T, axis)


@translator("overlap_add", emits=("Reshape", "graphcore.ScatterReduce"))
def overlap_add(context: TranslationContext) -> str:
    """Frames in the layout of `frame`, summed into a signal ``hop_length`` apart."""
    # A PIR program declares float32.
    written_as(context, 0, dialect.dtype_name(context.values("x")[0]))
    x, step = context.input("x"), int(context.attr("hop_length"))
    shape = context.shape(x)
    if int(context.attr("axis", -1)) == 0:
        frames, length, *rest = shape
        places = np.arange(frames)[:, None] * step + np.arange(length)
        x, axis = context.reshape(x, [frames * length, *rest]), 0
    else:
        *rest, length, frames = shape
        places = np.arange(length)[:, None] + np.arange(frames) * step
        x, axis = context.reshape(x, [*rest, length * frames]), len(rest)
    return _added_up(context, x, places, axis, (frames - 1) * step + length)


# Lists of tensors.


@translator("broadcast_tensors", emits=("Expand",))
def broadcast_tensors(context: TranslationContext) -> list[str]:
    """Each tensor expanded to the common broadcast shape."""
    tensors = context.inputs("input")
    dims = list(np.broadcast_shapes(*(tuple(context.shape(tensor)) for tensor in tensors)))
    return [context.onnx.expand([t, context.shape_const(dims)]) for t in tensors]


@translator("multiplex", emits=("Concat", "Reshape", "Mul", "Add", "Gather"))
def multiplex(context: TranslationContext) -> str:
    """Row i of the result is row i of the tensor number ``index[i]``.

    The tensors are concatenated, and ``index[i] * rows + i`` is gathered.
    """
    tensors, index = context.inputs("inputs"), context.input("index")
    rows = context.shape(tensors[0])[0]
    table = context.onnx.concat(tensors, 0)
    index = context.reshape(context.index(index), [context.shape(index)[0]])
    first = context.onnx.mul([index, context.const(rows, "int32")])
    context.check_range(first, 0, "index", 0, len(tensors) - 1)
    used = context.shape(index)[0]
    places = context.onnx.add([first, context.const(np.arange(used), "int32")])
    return context.onnx.gather([table, places], 0)


@translator(
    "repeat_interleave_with_tensor_index", emits=("Gather",), limits="the repeats must be constant"
)
def repeat_interleave_with_tensor_index(context: TranslationContext) -> str:
    """Each slice along an axis repeated as often as its element of ``repeats``."""
    x = context.input("x")
    axis = int(context.attr("axis", 0)) % context.rank(x)
    places = np.repeat(np.arange(context.shape(x)[axis]), context.ints("repeats"))
    return _picked(context, x, places, axis)


@translator("trans_layout", emits=("Transpose",))
def trans_layout(context: TranslationContext) -> str:
    """A transposition that Paddle's layout pass inserts."""
    return context.onnx.transpose([context.input("x")], context.ints("perm"))


@translator("crop", emits=("Slice",), limits="shape and offsets must be constant")
def crop(context: TranslationContext) -> str:
    """The part of ``shape`` that begins at ``offsets``; -1 keeps an axis to its end."""
    x = context.input("x")
    starts, sizes = context.ints("offsets"), context.ints("shape")
    ends = [
        dim if size == -1 else start + size
        for dim, start, size in zip(context.shape(x), starts, sizes, strict=True)
    ]
    operands = [context.shape_const(item) for item in (starts, ends, range(len(starts)))]
    return context.onnx.slice([x, *operands])


@translator("reverse", emits=("graphcore.Reverse",))
def reverse(context: TranslationContext) -> str:
    """The order of elements reversed along axes; the older form of `flip`."""
    x = context.input("x")
    axes = [axis % context.rank(x) for axis in context.ints("axis")]
    return context.graphcore.reverse([x], axes)


@translator("npu_identity", emits=("Identity",))
def npu_identity(context: TranslationContext) -> str:
    """The tensor itself: it changes an NPU's storage format, which an IPU does not have."""
    return context.onnx.identity([context.input("x")])

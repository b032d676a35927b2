"""Layouts of images, [N, C, spatial axes] or [N, spatial axes, C], and paddings."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.ops.context import TranslationContext

_CHANNELS_LAST = frozenset({"NHWC", "NDHWC", "NLC", "NWC"})


def is_channels_last(context: TranslationContext, attribute: str = "data_format") -> bool:
    """True if the node's layout attribute puts the channels behind the spatial axes."""
    return str(context.attr(attribute, "NCHW")) in _CHANNELS_LAST


def channels_first(context: TranslationContext, x: str, last: bool) -> str:
    """An image in the layout [N, C, spatial axes].

    Args:
        context: of the node.
        x: the image.
        last: its channels are the last axis; otherwise it stays as it is.
    """
    rank = context.rank(x)
    if not last or rank < 3:
        return x
    return context.onnx.transpose([x], [0, rank - 1, *range(1, rank - 1)])


def channels_back(context: TranslationContext, x: str, last: bool) -> str:
    """The inverse of `channels_first`, by the same arguments."""
    rank = context.rank(x)
    if not last or rank < 3:
        return x
    return context.onnx.transpose([x], [0, *range(2, rank), 1])


def per_channel(context: TranslationContext, vector: str, rank: int, last: bool = False) -> str:
    """A vector [C] reshaped to broadcast against an image.

    Args:
        context: of the node.
        vector: one number for each channel.
        rank: the rank of the image.
        last: its channels are the last axis.
    """
    count = context.shape(vector)[0]
    if last or rank < 2:
        return context.reshape(vector, [1] * (rank - 1) + [count])
    return context.reshape(vector, [1, count] + [1] * (rank - 2))


def explicit_pads(
    context: TranslationContext,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> tuple[list[int], list[int]]:
    """The padding before and after each spatial axis, from Paddle's three ways to write it.

    ``VALID`` is none. ``SAME`` makes an output ``ceil(size / stride)`` long, an odd remainder goes
    to the end, and dilations are ignored. ``EXPLICIT`` has one number or a pair for each axis.

    Args:
        context: of the node.
        sizes: of the spatial axes.
        kernel: sizes of the window.
        strides: of the window.

    Returns:
        (padding before each axis, padding after each axis).
    """
    algorithm = str(context.attr("padding_algorithm", "EXPLICIT"))
    if algorithm == "VALID":
        return [0] * len(sizes), [0] * len(sizes)
    if algorithm == "SAME":
        totals = [
            max((-(-size // stride) - 1) * stride + window - size, 0)
            for size, window, stride in zip(sizes, kernel, strides, strict=True)
        ]
        return [total // 2 for total in totals], [total - total // 2 for total in totals]
    widths = context.ints("paddings")
    if len(widths) == len(sizes):
        return widths, list(widths)
    return widths[::2], widths[1::2]


def pads_to_the_end(
    sizes: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    ceil: bool = False,
) -> list[int]:
    """The padding after each axis, extended for a window larger than the padded axis.

    Paddle computes ``(size + pads - window) / stride + 1`` windows, rounded towards zero: if less
    than one stride is missing, that is one window, which reaches beyond the padding.

    Args:
        sizes: of the spatial axes.
        windows: sizes of the window, dilation included.
        strides: of the window.
        before: padding before each axis.
        after: padding after each axis.
        ceil: the number of windows is rounded up instead.
    """
    wide = []
    for size, window, stride, low, high in zip(sizes, windows, strides, before, after, strict=True):
        extra = size + low + high - window
        reaches = extra < 0 < extra + stride + (stride - 1 if ceil else 0)
        wide.append(high - extra if reaches else high)
    return wide

"""Images in Paddle's layouts, [N, C, spatial axes] or [N, spatial axes, C], and their padding."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.ops.context import TranslationContext

_CHANNELS_LAST = frozenset({"NHWC", "NDHWC", "NLC", "NWC"})


def is_channels_last(context: TranslationContext, attribute: str = "data_format") -> bool:
    """True when the node's layout attribute puts the channels behind the spatial axes."""
    return str(context.attr(attribute, "NCHW")) in _CHANNELS_LAST


def channels_first(context: TranslationContext, x: str, last: bool) -> str:
    """`x` as [N, C, spatial axes]; `last` tells that its channels are the last axis."""
    rank = context.rank(x)
    if not last or rank < 3:
        return x
    return context.onnx.transpose([x], [0, rank - 1, *range(1, rank - 1)])


def channels_back(context: TranslationContext, x: str, last: bool) -> str:
    """The inverse of `channels_first`."""
    rank = context.rank(x)
    if not last or rank < 3:
        return x
    return context.onnx.transpose([x], [0, *range(2, rank), 1])


def per_channel(context: TranslationContext, vector: str, rank: int, last: bool = False) -> str:
    """A vector [C] shaped to broadcast against an image of that rank."""
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
    """Padding before and after each spatial axis, by Paddle's three ways to say it.

    SAME makes the output ``ceil(size / stride)`` long, an odd rest at the end; dilations count 1
    there. EXPLICIT gives one number an axis, or a pair an axis.
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
    """Padding after each axis, wide enough for a window larger than the padded axis.

    Paddle rounds how many windows there are towards zero: with one stride less than a window
    needs there is still one, which reaches behind the padding.
    """
    wide = []
    for size, window, stride, low, high in zip(sizes, windows, strides, before, after, strict=True):
        extra = size + low + high - window
        reaches = extra < 0 < extra + stride + (stride - 1 if ceil else 0)
        wide.append(high - extra if reaches else high)
    return wide

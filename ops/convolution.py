"""Translators of convolutions of images [N, C, spatial axes] or [N, spatial axes, C]."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.image_layout import (
    channels_back,
    channels_first,
    explicit_pads,
    is_channels_last,
    pads_to_the_end,
)
from paddle_ipu.ops.registry import translator


@translator("conv2d", "depthwise_conv2d", "conv3d", emits=("Conv", "Transpose"))
def conv2d(context: TranslationContext) -> str:
    """Cross-correlation of images with a filter [M, C / groups, kernel], as ONNX's Conv.

    With padding ``SAME`` Paddle's kernel ignores the dilations.
    """
    last = is_channels_last(context)
    x = channels_first(context, context.input("input"), last)
    weights = context.input("filter")
    kernel = context.shape(weights)[2:]
    strides, dilations = _steps(context, len(kernel))
    sizes = context.shape(x)[2:]
    before, after = explicit_pads(context, sizes, kernel, strides)
    reach = [(size - 1) * gap + 1 for size, gap in zip(kernel, dilations, strict=True)]
    after = pads_to_the_end(sizes, reach, strides, before, after)
    groups = int(context.attr("groups", 1))
    y = context.onnx.conv([x, weights], dilations, groups, kernel, before + after, strides)
    return channels_back(context, y, last)


@translator(
    "conv2d_transpose",
    "depthwise_conv2d_transpose",
    "conv3d_transpose",
    emits=("ConvTranspose", "Transpose", "Reshape", "Pad", "Slice"),
    limits="output_size must be constant",
)
def conv2d_transpose(context: TranslationContext) -> str:
    """The transpose of a convolution with a filter [C, M / groups, kernel].

    The length of an axis is ``(size - 1) * stride - pads + dilation * (kernel - 1) + 1`` plus
    ``output_padding``; or ``output_size``, which may exceed the former by less than a stride.
    """
    last = is_channels_last(context)
    x = channels_first(context, context.input("x"), last)
    weights = context.input("filter")
    kernel, sizes = context.shape(weights)[2:], context.shape(x)[2:]
    strides, dilations = _steps(context, len(kernel))
    before, after = explicit_pads(context, sizes, kernel, strides)
    wanted = context.ints("output_size")
    extra = context.ints("output_padding") or [0] * len(kernel)
    if wanted:
        extra = [
            wanted[axis]
            - (sizes[axis] - 1) * strides[axis]
            + before[axis]
            + after[axis]
            - dilations[axis] * (kernel[axis] - 1)
            - 1
            for axis in range(len(kernel))
        ]
    weights = _dilated(context, weights, dilations)
    y = context.onnx.convtranspose(
        [x, weights],
        group=int(context.attr("groups", 1)),
        output_padding=extra,
        pads=before + after,
        strides=strides,
    )
    return channels_back(context, y, last)


@translator(
    "conv2d_transpose_bias",
    emits=("ConvTranspose", "Transpose", "Add", "Reshape", "Pad", "Slice"),
    limits="output_size must be constant",
)
def conv2d_transpose_bias(context: TranslationContext) -> str:
    """`conv2d_transpose` plus a bias for each channel."""
    y = conv2d_transpose(context)
    behind = 0 if is_channels_last(context) else 2
    bias = context.input("bias")
    dims = [*context.shape(bias), *[1] * behind]
    return context.onnx.add([y, context.reshape(bias, dims)])


def _steps(context: TranslationContext, axes: int) -> tuple[list[int], list[int]]:
    """(strides, dilations) of each spatial axis."""
    strides, dilations = context.ints("strides"), context.ints("dilations")
    if not len(strides) == len(dilations) == axes:
        raise context.refuse(
            f"strides {strides} and dilations {dilations} of {axes} axes: give one for each."
        )
    if context.attr("padding_algorithm", "EXPLICIT") == "SAME":
        dilations = [1] * axes
    return strides, dilations


def _dilated(context: TranslationContext, weights: str, dilations: Sequence[int]) -> str:
    """The filter with zeros between its elements: PopART's ConvTranspose has no dilations."""
    if set(dilations) == {1}:
        return weights
    shape = context.shape(weights)
    kernel, rank = shape[2:], len(shape)
    apart = context.reshape(weights, [*shape[:2], *(size for k in kernel for size in (k, 1))])
    after = [0, 0, *(width for dilation in dilations for width in (0, dilation - 1))]
    pads = context.shape_const([0] * len(after) + after)
    padded = context.onnx.pad([apart, pads, context.const_like(0.0, weights)])
    wide = [size * dilation for size, dilation in zip(kernel, dilations, strict=True)]
    merged = context.reshape(padded, [*shape[:2], *wide])
    ends = [size - dilation + 1 for size, dilation in zip(wide, dilations, strict=True)]
    spatial = context.shape_const(range(2, rank))
    starts = context.shape_const([0] * len(kernel))
    return context.onnx.slice([merged, starts, context.shape_const(ends), spatial])

"""Convolution, pooling and the normalisations of images [N, C, spatial axes]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator

_NHWC = "data_format must be NCHW; transpose before and after."


def _pads(
    context: TranslationContext,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    given: Sequence[int],
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
    if len(given) == len(sizes):
        return list(given), list(given)
    return list(given[::2]), list(given[1::2])


@translator("conv2d", "depthwise_conv2d", emits="Conv", limits="data_format must be NCHW")
def conv2d(context: TranslationContext) -> str:
    """Cross-correlation of [N, C, H, W] with a filter [M, C / groups, h, w]."""
    if context.attr("data_format", "NCHW") not in ("NCHW", "AnyLayout"):
        raise context.refuse(_NHWC)
    x, weights = context.input("input"), context.input("filter")
    kernel = context.shape(weights)[2:]
    strides, dilations = list(context.attr("strides")), list(context.attr("dilations"))
    if context.attr("padding_algorithm", "EXPLICIT") == "SAME":
        dilations = [1] * len(kernel)
    before, after = _pads(
        context, context.shape(x)[2:], kernel, strides, list(context.attr("paddings"))
    )
    groups = int(context.attr("groups", 1))
    return str(context.onnx.conv([x, weights], dilations, groups, kernel, before + after, strides))


@translator(
    "pool2d",
    emits="MaxPool AveragePool GlobalMaxPool GlobalAveragePool",
    limits="data_format must be NCHW; an adaptive size must divide the input's; average pooling "
    "with ceil_mode must be exclusive",
)
def pool2d(context: TranslationContext) -> str:
    """Maximum or mean of windows of [N, C, H, W]."""
    if context.attr("data_format", "NCHW") not in ("NCHW", "AnyLayout"):
        raise context.refuse(_NHWC)
    kind = str(context.attr("pooling_type", "max"))
    return _pool(context, context.ints("kernel_size"), kind)


@translator(
    "max_pool2d_with_index",
    emits="MaxPool GlobalMaxPool",
    limits="the indices cannot be read; an adaptive size must divide the input's",
)
def max_pool2d_with_index(context: TranslationContext) -> list[str | None]:
    """Maximum of windows of [N, C, H, W]."""
    if context.is_used(1):
        raise context.refuse("its indices cannot be read; leave return_mask at False.")
    return [_pool(context, [int(size) for size in context.attr("kernel_size")], "max"), None]


def _pool(context: TranslationContext, kernel: list[int], kind: str) -> str:
    x = context.input("x")
    sizes = context.shape(x)[2:]
    adaptive = bool(context.attr("adaptive", 0))
    if context.attr("global_pooling", 0) or (adaptive and set(kernel) == {1}):
        method = context.onnx.globalmaxpool if kind == "max" else context.onnx.globalaveragepool
        return str(method([x]))
    if adaptive:
        if any(size % wanted for size, wanted in zip(sizes, kernel, strict=True)):
            raise context.refuse(
                f"an adaptive output size of {kernel} does not divide the input's {sizes}; "
                "windows of different sizes are not supported."
            )
        kernel = [size // wanted for size, wanted in zip(sizes, kernel, strict=True)]
        strides, before, after = kernel, [0] * len(kernel), [0] * len(kernel)
    else:
        strides = [int(stride) for stride in context.attr("strides")]
        before, after = _pads(context, sizes, kernel, strides, list(context.attr("paddings")))
    ceil = int(context.attr("ceil_mode", 0))
    if kind == "max":
        pooled = context.onnx.maxpool([x], 1, kernel, ceil, [], before + after, 0, strides)
        return str(pooled[0])
    include = int(not context.attr("exclusive", 1) and not adaptive)
    if ceil and include:
        raise context.refuse("exclusive=False with ceil_mode=True is not supported.")
    return str(context.onnx.averagepool([x], kernel, ceil, include, before + after, strides))


@translator(
    "batch_norm",
    emits="BatchNormalization Reshape",
    limits="inference only (running statistics); data_format must be NCHW, NCL or NC",
)
def batch_norm(context: TranslationContext) -> list[str | None]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` by channel."""
    if context.attr("data_format", "NCHW") not in ("NCHW", "NCDHW", "NCL", "NC", "AnyLayout"):
        raise context.refuse(_NHWC)
    if not context.attr("is_test", 0) and not context.attr("use_global_stats", 0):
        raise context.refuse(
            "batch statistics are not supported yet. Use eval(), or use_global_stats=True."
        )
    x, mean, variance = (context.input(name) for name in ("x", "mean", "variance"))
    channels = context.shape(mean)[0]
    scale = context.optional("scale") or context.const(np.ones(channels), context.dtype(x))
    bias = context.optional("bias") or context.const(np.zeros(channels), context.dtype(x))
    shape = context.shape(x)
    wide = context.reshape(x, [*shape, 1]) if len(shape) == 2 else x
    result = context.onnx.batchnormalization(
        [wide, scale, bias, mean, variance], 1, float(context.attr("epsilon", 1e-5))
    )[0]
    return [context.reshape(str(result), shape), None, None, None, None, None]


def _grouped(context: TranslationContext, groups: int) -> list[str | None]:
    x = context.input("x")
    channels = context.shape(x)[1]
    if context.is_used(1) or context.is_used(2):
        raise context.refuse("its mean and variance results cannot be read; compute them apart.")
    scale = context.optional("scale") or context.const(np.ones(channels), context.dtype(x))
    bias = context.optional("bias") or context.const(np.zeros(channels), context.dtype(x))
    epsilon = float(context.attr("epsilon", 1e-5))
    result = context.graphcore.groupnormalization([x, scale, bias], groups, epsilon)[0]
    return [str(result), None, None]


_UNREAD = "the mean and variance results cannot be read"


@translator(
    "group_norm",
    emits="graphcore.GroupNormalization",
    limits=f"{_UNREAD}; data_format must be NCHW",
)
def group_norm(context: TranslationContext) -> list[str | None]:
    """Normalises each group of channels of a sample."""
    if context.attr("data_format", "NCHW") not in ("NCHW", "NCDHW", "NCL", "NC", "AnyLayout"):
        raise context.refuse(_NHWC)
    return _grouped(context, int(context.attr("groups", 1)))


@translator("instance_norm", emits="graphcore.GroupNormalization", limits=_UNREAD)
def instance_norm(context: TranslationContext) -> list[str | None]:
    """Normalises each channel of a sample."""
    return _grouped(context, context.shape(context.input("x"))[1])

"""Lowerings of convolution and its transpose over tensors [N, C, spatial axes]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings import channels_last
from paddle_ipu.xla.lowerings.arrays import input_or_none, integers, where_in_program
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering
from paddle_ipu.xla.precision import partials

Padding = list[tuple[int, int]]


def explicit_padding(
    context: LoweringContext,
    attributes: Attributes,
    sizes: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
) -> Padding:
    """(before, after) of each spatial axis from ``auto_pad`` or ``pads``.

    `windows` are the extents of the kernel, dilation included. The SAME modes make the output
    ceil(size / stride) long; an odd rest goes to the end (SAME_UPPER) or the start (SAME_LOWER).
    """
    mode = attributes.get("auto_pad", "NOTSET")
    rank = len(sizes)
    if mode == "NOTSET":
        pads = integers(attributes, "pads") or [0] * (2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "VALID":
        return [(0, 0)] * rank
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise LoweringError(
            f"{where_in_program(context)}: unknown auto_pad {mode!r}; expected 'NOTSET', "
            "'VALID', 'SAME_UPPER' or 'SAME_LOWER'."
        )
    padding: Padding = []
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        smaller = total // 2
        at_end = mode == "SAME_UPPER"
        padding.append((smaller, total - smaller) if at_end else (total - smaller, smaller))
    return padding


def convolved(
    x: Any,
    weights: Any,
    strides: Sequence[int],
    padding: Padding,
    spread: Sequence[int],
    dilations: Sequence[int],
    group: int,
    in_half: bool,
    training: bool,
) -> Any:
    """Cross-correlation; `spread` dilates the data, `in_half` keeps partial sums in float16.

    Without `training` it has no gradient of its own.
    """
    if in_half:
        return partials.convolution(
            x, weights, tuple(strides), tuple(padding), tuple(spread), tuple(dilations), group
        )
    if group == 1:
        convolution = channels_last.convolution if training else channels_last.inferred
        return convolution(
            x, weights, tuple(strides), tuple(padding), tuple(spread), tuple(dilations)
        )
    axes = tuple(range(x.ndim))
    return lax.conv_general_dilated(
        x,
        weights,
        window_strides=strides,
        padding=padding,
        lhs_dilation=spread,
        rhs_dilation=dilations,
        feature_group_count=group,
        dimension_numbers=lax.ConvDimensionNumbers(axes, axes, axes),
    )


@lowering("ai.onnx", "Conv")
def conv(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Cross-correlation of x [N, C, ...] with weights [M, C / group, ...], plus a bias [M]."""
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    bias, rank = input_or_none(inputs, 2), x.ndim - 2
    strides = integers(attributes, "strides") or [1] * rank
    dilations = integers(attributes, "dilations") or [1] * rank
    windows = [
        (size - 1) * dilation + 1
        for size, dilation in zip(weights.shape[2:], dilations, strict=True)
    ]
    group = int(attributes.get("group", 1))
    if x.shape[1] != weights.shape[1] * group or weights.shape[0] % group:
        raise LoweringError(
            f"{where_in_program(context)}: {x.shape[1]} input channels do not fit weights of "
            f"shape {list(weights.shape)} in {group} groups; expected [M, channels / groups, "
            "...] with M a multiple of the groups."
        )
    out = convolved(
        x,
        weights,
        strides,
        explicit_padding(context, attributes, x.shape[2:], windows, strides),
        [1] * rank,
        dilations,
        group,
        context.sums_in_half(context.precision.half_convolutions),
        context.training,
    )
    return out if bias is None else out + jnp.reshape(bias, (1, -1) + (1,) * rank)


@lowering("ai.onnx", "ConvTranspose")
def conv_transpose(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The transpose of a convolution with weights [C, M / group, ...], plus a bias [M].

    With ``output_shape`` the pads are what makes the output that long, an odd rest at the end;
    where the output is longer than all of the input reaches, the end is filled with zeros.
    """
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    bias, rank = input_or_none(inputs, 2), x.ndim - 2
    strides = integers(attributes, "strides") or [1] * rank
    extra = integers(attributes, "output_padding") or [0] * rank
    pads = integers(attributes, "pads") or [0] * (2 * rank)
    wanted, kernel = integers(attributes, "output_shape"), weights.shape[2:]
    padding: Padding = []
    for axis in range(rank):
        before, after = pads[axis], pads[axis + rank]
        if wanted:
            full = strides[axis] * (x.shape[axis + 2] - 1) + extra[axis] + kernel[axis]
            before = int((full - wanted[axis]) / 2)
            after = full - wanted[axis] - before
        padding.append((kernel[axis] - 1 - before, kernel[axis] - 1 + extra[axis] - after))
    group = int(attributes.get("group", 1))
    channels, each = weights.shape[0] // group, weights.shape[1]
    turned = weights.reshape(group, channels, each, *kernel).swapaxes(1, 2)
    turned = turned.reshape(group * each, channels, *kernel)
    out = convolved(
        x,
        jnp.flip(turned, axis=tuple(range(2, x.ndim))),
        [1] * rank,
        padding,
        strides,
        [1] * rank,
        group,
        context.sums_in_half(context.precision.half_convolutions),
        context.training,
    )
    return out if bias is None else out + jnp.reshape(bias, (1, -1) + (1,) * rank)

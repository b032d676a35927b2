"""Lowerings of convolution and its transpose over tensors [N, C, spatial axes]."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from paddle_ipu.errors import LoweringError
from paddle_ipu.popart.shape_inference.nn import check_auto_pad
from paddle_ipu.xla.lowerings import (
    channels_last,
    half_convolution,
    image_layouts,
    trained_convolution,
)
from paddle_ipu.xla.lowerings.arrays import Inputs, integers, optional_input, where_in_program
from paddle_ipu.xla.lowerings.channels_last import Geometry, Padding
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


def explicit_padding(
    context: LoweringContext,
    attributes: Attributes,
    sizes: Sequence[int],
    windows: Sequence[int],
    strides: Sequence[int],
) -> Padding:
    """The padding by ``auto_pad`` or ``pads`` (all begins, then all ends).

    The SAME modes make the output ceil(size / stride) long; an odd rest goes to the end
    (SAME_UPPER) or the start (SAME_LOWER).

    Args:
        context: for messages.
        attributes: of the operator.
        sizes: of the data, by spatial axis.
        windows: extents of the kernel, dilation included.
        strides: of the window.
    """
    mode = attributes.get("auto_pad", "NOTSET")
    rank = len(sizes)
    if mode == "NOTSET":
        pads = integers(attributes, "pads") or [0] * (2 * rank)
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "VALID":
        return ((0, 0),) * rank
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise LoweringError(
            f"{where_in_program(context)}: unknown auto_pad {mode!r}; expected 'NOTSET', "
            "'VALID', 'SAME_UPPER' or 'SAME_LOWER'."
        )
    padding = []
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        smaller = total // 2
        at_end = mode == "SAME_UPPER"
        padding.append((smaller, total - smaller) if at_end else (total - smaller, smaller))
    return tuple(padding)


def convolved(
    context: LoweringContext,
    x: jax.Array,
    weights: jax.Array,
    geometry: Geometry,
    *,
    in_half: bool,
) -> jax.Array:
    """Cross-correlation of x [N, C, ...] with weights [M, C / groups, ...]: [N, M, ...].

    Args:
        context: of the operator.
        x: the data.
        weights: the kernels.
        geometry: strides, padding, dilations and groups.
        in_half: partial sums are float16.
    """
    sizes = channels_last.output_sizes(x.shape[2:], weights.shape[2:], geometry)
    if 0 in sizes:
        # The rules of gradients take the last window from the number of windows.
        return jnp.zeros((x.shape[0], weights.shape[0], *sizes), x.dtype)
    if in_half:
        return half_convolution.convolution(x, weights, geometry)
    if not context.training and geometry.groups == 1:
        return channels_last.inference_convolution(x, weights, geometry)
    if not context.training:
        return channels_last.grouped(x, weights, geometry)
    turned = context.images.last(x)
    spec = trained_convolution.spec_of(turned, weights, geometry)
    if spec is None:
        out = image_layouts.last(channels_last.grouped(x, weights, geometry))
    else:
        out = trained_convolution.convolution(turned, weights, spec)
    return context.images.first(out)


def with_bias(context: LoweringContext, out: jax.Array, bias: Array | None) -> jax.Array:
    """A result [N, M, ...] plus a bias [M], where there is one."""
    if bias is not None and context.training:
        images = context.images
        return images.first(images.last(out) + jnp.reshape(bias, -1))
    return out if bias is None else out + jnp.reshape(bias, (1, -1) + (1,) * (out.ndim - 2))


@lowering("ai.onnx", "Conv")
def conv(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Cross-correlation of x [N, C, ...] with weights [M, C / group, ...], plus a bias [M]."""
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    rank = x.ndim - 2
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
    padding = explicit_padding(context, attributes, x.shape[2:], windows, strides)
    geometry = Geometry(tuple(strides), padding, (1,) * rank, tuple(dilations), group)
    in_half = context.sums_in_half(context.precision.half_convolutions)
    out = convolved(context, x, weights, geometry, in_half=in_half)
    return with_bias(context, out, optional_input(inputs, 2))


@lowering("ai.onnx", "ConvTranspose")
def conv_transpose(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The transpose of a convolution with weights [C, M / group, ...], plus a bias [M].

    It is a convolution of the data, dilated by the strides, with the flipped kernels.

    With ``output_shape`` the pads are what makes the output that long. An odd rest is at the end,
    by ``auto_pad`` SAME_UPPER at the start; where the output is longer than all of the input
    reaches, the end is filled with zeros.
    """
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    rank = x.ndim - 2
    strides = integers(attributes, "strides") or [1] * rank
    extra = integers(attributes, "output_padding") or [0] * rank
    pads = integers(attributes, "pads") or [0] * (2 * rank)
    wanted, kernel = integers(attributes, "output_shape") or [], weights.shape[2:]
    auto_pad = str(attributes.get("auto_pad", "NOTSET"))
    check_auto_pad(auto_pad, wanted, rank)
    padding = []
    for axis in range(rank):
        before, after = pads[axis], pads[axis + rank]
        # All sizes of the output are what the pads give.
        if len(wanted) == rank:
            full = strides[axis] * (x.shape[axis + 2] - 1) + extra[axis] + kernel[axis]
            before = int((full - wanted[axis]) / 2)
            after = full - wanted[axis] - before
            if auto_pad == "SAME_UPPER" and after > before >= 0:
                before, after = after, before
        padding.append((kernel[axis] - 1 - before, kernel[axis] - 1 + extra[axis] - after))
    group = int(attributes.get("group", 1))
    channels, each = weights.shape[0] // group, weights.shape[1]
    flipped = weights.reshape(group, channels, each, *kernel).swapaxes(1, 2)
    flipped = flipped.reshape(group * each, channels, *kernel)
    flipped = jnp.flip(flipped, axis=tuple(range(2, x.ndim)))
    geometry = Geometry((1,) * rank, tuple(padding), tuple(strides), (1,) * rank, group)
    in_half = context.sums_in_half(context.precision.half_convolutions)
    out = convolved(context, x, flipped, geometry, in_half=in_half)
    return with_bias(context, out, optional_input(inputs, 2))

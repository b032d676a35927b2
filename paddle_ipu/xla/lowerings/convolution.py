"""Lowerings of convolution and pooling over tensors [N, C, spatial axes]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import (
    input_or_none,
    integers,
    is_floating,
    where_in_program,
)
from paddle_ipu.xla.registry import Attributes, LoweringContext, lowering

Padding = list[tuple[int, int]]


def _padding(
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


def _channels_first(rank: int) -> lax.ConvDimensionNumbers:
    axes = tuple(range(rank))
    return lax.ConvDimensionNumbers(axes, axes, axes)


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
    out = lax.conv_general_dilated(
        x,
        weights,
        window_strides=strides,
        padding=_padding(context, attributes, x.shape[2:], windows, strides),
        rhs_dilation=dilations,
        feature_group_count=group,
        dimension_numbers=_channels_first(x.ndim),
    )
    return out if bias is None else out + jnp.reshape(bias, (1, -1) + (1,) * rank)


def _pool_geometry(
    context: LoweringContext, x: Any, attributes: Attributes
) -> tuple[list[int], list[int], Padding]:
    """(kernel, strides, padding) of the spatial axes; with ``ceil_mode`` the padding grows."""
    rank = x.ndim - 2
    kernel = [int(size) for size in attributes["kernel_shape"]]
    strides = integers(attributes, "strides") or [1] * rank
    padding = _padding(context, attributes, x.shape[2:], kernel, strides)
    if attributes.get("ceil_mode", 0) and attributes.get("auto_pad", "NOTSET") == "NOTSET":
        padding = [
            (before, after + -(size + before + after - window) % stride)
            for size, window, stride, (before, after) in zip(
                x.shape[2:], kernel, strides, padding, strict=True
            )
        ]
    return kernel, strides, padding


def _window_max(x: Any, kernel: list[int], strides: list[int], padding: Padding) -> Any:
    """Maximum of each window; the gradient goes to its first maximum, as in Paddle."""
    lowest = -np.inf if is_floating(x) else np.iinfo(x.dtype).min
    return lax.reduce_window(
        x,
        np.asarray(lowest, x.dtype),
        lax.max,
        (1, 1, *kernel),
        (1, 1, *strides),
        [(0, 0), (0, 0), *padding],
    )


@lowering("ai.onnx", "MaxPool")
def max_pool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Maximum of each window; padding never wins."""
    x = jnp.asarray(inputs[0])
    dilations = integers(attributes, "dilations") or [1]
    if attributes.get("storage_order", 0) or set(dilations) != {1} or context.num_outputs > 1:
        raise LoweringError(
            f"{where_in_program(context)}: max pooling has no indices output, no dilations and "
            f"storage_order 0 only; got {context.num_outputs} outputs, dilations {dilations} "
            f"and storage_order {attributes.get('storage_order', 0)}."
        )
    return _window_max(x, *_pool_geometry(context, x, attributes))


@lowering("ai.onnx", "AveragePool")
def average_pool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Mean of each window over the elements inside the tensor.

    With ``count_include_pad`` the elements of ``pads`` count as zeros; those that ``ceil_mode``
    adds never count.
    """
    x = jnp.asarray(inputs[0])
    kernel, strides, padding = _pool_geometry(context, x, attributes)
    total = lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        lax.add,
        (1, 1, *kernel),
        (1, 1, *strides),
        [(0, 0), (0, 0), *padding],
    )
    include = bool(attributes.get("count_include_pad", 0))
    declared = _padding(context, attributes, x.shape[2:], kernel, strides)
    count: Any = np.ones((), x.dtype)
    for axis, out_size in enumerate(total.shape[2:]):
        size, (before, after) = x.shape[2 + axis], declared[axis]
        starts = np.arange(out_size) * strides[axis] - before
        low, high = (-before, size + after) if include else (0, size)
        inside = np.minimum(starts + kernel[axis], high) - np.maximum(starts, low)
        count = count[..., None] * inside.astype(x.dtype)
    return total / count


@lowering("ai.onnx", "GlobalAveragePool")
def global_average_pool(
    context: LoweringContext, inputs: Sequence[Any], attributes: Attributes
) -> Any:
    """Mean over the spatial axes, which stay with size 1."""
    x = jnp.asarray(inputs[0])
    return jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@lowering("ai.onnx", "GlobalMaxPool")
def global_max_pool(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Maximum over the spatial axes, which stay with size 1."""
    x = jnp.asarray(inputs[0])
    spatial = x.ndim - 2
    return _window_max(x, list(x.shape[2:]), [1] * spatial, [(0, 0)] * spatial)

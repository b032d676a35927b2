"""Reading images at computed places, writing them back, and the largest of groups of channels."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator


@translator("grid_sample", emits="paddle_ipu.GridSample")
def grid_sample(context: TranslationContext) -> str:
    """The image [N, C, spatial axes] at the points of a grid [N, ..., x y (z)] in [-1, 1]."""
    attributes = {
        "mode": str(context.attr("mode", "bilinear")),
        "padding_mode": str(context.attr("padding_mode", "zeros")),
        "align_corners": int(context.attr("align_corners", 1)),
    }
    inputs = [context.input("x"), context.input("grid")]
    return context.extension("GridSample", inputs, attributes)[0]


@translator(
    "affine_grid", emits="MatMul Transpose Reshape", limits="the output shape must be constant"
)
def affine_grid(context: TranslationContext) -> str:
    """``[x, y, (z), 1] @ theta.T`` for each point of an image whose corners are at -1 and 1."""
    theta = context.input("input")
    if context.has("output_shape"):
        shape = context.ints("output_shape")
    else:
        shape = [int(size) for size in context.attr("output_shape")]
    corners = bool(context.attr("align_corners", 1))
    axes = []
    for size in shape[2:]:
        places = np.linspace(-1.0, 1.0, size)
        axes.append(places if corners else places * (size - 1) / size)
    points = np.meshgrid(*axes, indexing="ij")
    flat = np.stack([*points[::-1], np.ones_like(points[0])], axis=-1)
    base = context.const(flat.reshape(-1, len(axes) + 1), context.dtype(theta))
    grid = context.onnx.matmul([base, context.onnx.transpose([theta], [0, 2, 1])])
    return context.reshape(str(grid), [context.shape(theta)[0], *shape[2:], len(axes)])


@translator("maxout", emits="MaxPool Reshape")
def maxout(context: TranslationContext) -> str:
    """The largest of each `groups` neighbouring channels; of equal ones the first."""
    x, groups = context.input("x"), int(context.attr("groups"))
    shape = context.shape(x)
    axis = int(context.attr("axis", 1)) % len(shape)
    channels = shape[axis] // groups
    before, behind = product(shape[:axis]), product(shape[axis + 1 :])
    apart = context.reshape(x, [before, channels, groups, behind])
    largest = context.onnx.maxpool([apart], 1, [groups, 1], 0, [], [0] * 4, 0, [1, 1])[0]
    return context.reshape(str(largest), [*shape[:axis], channels, *shape[axis + 1 :]])


@translator(
    "unpool", "unpool3d", emits="paddle_ipu.Unpool", limits="the output size must be constant"
)
def unpool(context: TranslationContext) -> str:
    """Zeros but for the elements of x, each at its index of the flattened image."""
    x = context.input("x")
    if context.has("output_size"):
        wanted = context.ints("output_size")
    else:
        wanted = [int(size) for size in context.attr("output_size") or ()]
    inputs = [x, context.input("indices")]
    return context.extension("Unpool", inputs, {"sizes": [int(size) for size in wanted]})[0]

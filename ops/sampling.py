"""Translators of sampling of images at computed points, unpooling, maxout and correlation."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator


@translator("grid_sample", emits=("paddle_ipu.GridSample",))
def grid_sample(context: TranslationContext) -> str:
    """An image [N, C, spatial axes] sampled at points [N, ..., (x, y) or (x, y, z)] in [-1, 1]."""
    attributes = {
        "mode": str(context.attr("mode", "bilinear")),
        "padding_mode": str(context.attr("padding_mode", "zeros")),
        "align_corners": int(context.attr("align_corners", 1)),
    }
    inputs = [context.input("x"), context.input("grid")]
    return context.extension("GridSample", inputs, attributes)[0]


@translator(
    "affine_grid",
    emits=("MatMul", "Transpose", "Reshape"),
    limits="the output shape must be constant",
)
def affine_grid(context: TranslationContext) -> str:
    """Sampling points ``[x, y, (z), 1] @ theta^T``, [N, spatial axes, 2 or 3].

    -1 and 1 are the centres of the outermost pixels, without ``align_corners`` their outer edges.
    """
    theta = context.input("input")
    shape = context.ints("output_shape")
    corners = bool(context.attr("align_corners", 1))
    axes = []
    for size in shape[2:]:
        places = np.linspace(-1.0, 1.0, size)
        axes.append(places if corners else places * (size - 1) / size)
    points = np.meshgrid(*axes, indexing="ij")
    flat = np.stack([*points[::-1], np.ones_like(points[0])], axis=-1)
    base = context.const(flat.reshape(-1, len(axes) + 1), context.dtype(theta))
    grid = context.onnx.matmul([base, context.swap_last_axes(theta)])
    return context.reshape(grid, [context.shape(theta)[0], *shape[2:], len(axes)])


@translator("maxout", emits=("MaxPool", "Reshape"))
def maxout(context: TranslationContext) -> str:
    """The maximum of each ``groups`` adjacent channels (arXiv:1302.4389).

    Expressed as a MaxPool, which gives the gradient to the first of equal ones, as Paddle does.
    """
    x, groups = context.input("x"), int(context.attr("groups"))
    shape = context.shape(x)
    axis = int(context.attr("axis", 1)) % len(shape)
    channels = shape[axis] // groups
    before, behind = product(shape[:axis]), product(shape[axis + 1 :])
    apart = context.reshape(x, [before, channels, groups, behind])
    largest = context.onnx.maxpool([apart], 1, [groups, 1], 0, [], [0] * 4, 0, [1, 1])[0]
    return context.reshape(largest, [*shape[:axis], channels, *shape[axis + 1 :]])


@translator(
    "unpool", "unpool3d", emits=("paddle_ipu.Unpool",), limits="the output size must be constant"
)
def unpool(context: TranslationContext) -> str:
    """An image of zeros with the elements of x at their flat indices; it undoes max pooling."""
    inputs = [context.input("x"), context.input("indices")]
    return context.extension("Unpool", inputs, {"sizes": context.ints("output_size")})[0]


@translator(
    "correlation",
    emits=("Pad", "Slice", "Mul", "ReduceMean", "Concat"),
    limits="kernel_size 1",
)
def correlation(context: TranslationContext) -> str:
    """Correlation of two images [N, C, H, W] at displacements (FlowNet, arXiv:1504.06852).

    The mean over channels of one image's pixel times the other's, displaced by up to
    ``max_displacement`` rows and columns in steps of ``stride2``, for every ``stride1``-th pixel.
    The result is [N, displacements, OH, OW].
    """
    if int(context.attr("kernel_size")) != 1:
        raise context.refuse(
            f"kernel_size is {context.attr('kernel_size')}, and Paddle's kernel reads beyond the "
            "image with any but 1; use 1, and average the result with avg_pool2d."
        )
    pad, furthest, stride, step = (
        int(context.attr(name)) for name in ("pad_size", "max_displacement", "stride1", "stride2")
    )
    pads = context.shape_const([0, 0, pad, pad] * 2)
    first, second = (context.input(name) for name in ("input1", "input2"))
    if pad:
        zero = context.const_like(0.0, first)
        first, second = (context.onnx.pad([x, pads, zero]) for x in (first, second))
    height, width = (size - 2 * furthest for size in context.shape(first)[2:])
    if min(height, width) < 1:
        raise context.refuse(
            f"an image of {context.shape(first)[2:]} with its padding has no pixel that is "
            f"{furthest} from its borders; raise pad_size."
        )

    def window(x: str, down: int, right: int) -> str:
        top, left = furthest + down, furthest + right
        bounds = [[top, left], [top + height, left + width], [2, 3], [stride, stride]]
        return context.onnx.slice([x, *map(context.shape_const, bounds)])

    fixed = window(first, 0, 0)
    steps = [at * step for at in range(-(furthest // step), furthest // step + 1)]
    alike = [
        context.onnx.reducemean([context.onnx.mul([fixed, window(second, down, right)])], [1], 1)
        for down in steps
        for right in steps
    ]
    return context.onnx.concat(alike, 1)

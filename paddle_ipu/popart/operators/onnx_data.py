"""Rows of ai.onnx: moving, cutting and indexing data."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import ANY, INTS, NUMBERS, Attribute, int_, ints, onnx_row
from paddle_ipu.popart.shape_inference import images, indexing, shaping

onnx_row("Reshape", 2, shaping.reshape, (ANY, INTS), constants=(1,), version=5)
onnx_row("Transpose", 1, shaping.transpose, ANY, [ints("perm")])
onnx_row("Squeeze", 1, shaping.squeeze, ANY, [ints("axes")], version=11)
onnx_row("Unsqueeze", 1, shaping.unsqueeze, ANY, [ints("axes", required=True)], version=11)
onnx_row("Concat", (1, None), shaping.concat, ANY, [int_("axis", required=True)], version=11)
onnx_row(
    "Split",
    1,
    shaping.split,
    ANY,
    [int_("axis", 0), ints("split")],
    outputs=(1, None),
    version=11,
)
onnx_row("Slice", (3, 5), shaping.slice_, (ANY, INTS), constants=(1, 2, 3, 4), version=11)
onnx_row("Gather", 2, shaping.gather, (ANY, INTS), [int_("axis", 0)], version=11)
onnx_row("Expand", 2, shaping.expand, (ANY, INTS), constants=(1,), version=8)
onnx_row("Tile", 2, shaping.tile, (ANY, INTS), constants=(1,), version=6)
onnx_row("Flatten", 1, shaping.flatten, ANY, [int_("axis", 1)], version=11)
onnx_row(
    "Pad",
    (2, 3),
    shaping.pad,
    (ANY, INTS, ANY),
    [("mode", Attribute("string", "constant"))],
    constants=(1, 2),
    version=11,
)
onnx_row(
    "DepthToSpace",
    1,
    images.depth_to_space,
    ANY,
    [int_("blocksize", required=True), ("mode", Attribute("string", "DCR"))],
    version=11,
)
onnx_row("SpaceToDepth", 1, images.space_to_depth, ANY, [int_("blocksize", required=True)])
onnx_row(
    "OneHot",
    3,
    shaping.one_hot,
    (NUMBERS, NUMBERS, ANY),
    [int_("axis", -1)],
    constants=(1,),
    version=11,
    differentiable=False,
)
onnx_row("Shape", 1, shaping.shape, ANY, differentiable=False)
onnx_row(
    "Constant",
    0,
    shaping.constant,
    ANY,
    [("value", Attribute("tensor", required=True))],
    version=11,
    differentiable=False,
)
onnx_row(
    "ConstantOfShape",
    1,
    shaping.constant_of_shape,
    INTS,
    [("value", Attribute("tensor", required=True))],
    constants=(0,),
    version=9,
    differentiable=False,
)
onnx_row(
    "Scatter",
    3,
    indexing.scatter,
    (ANY, INTS, ANY),
    [int_("axis", 0)],
    version=(9, 11),
)
onnx_row("ScatterElements", 3, indexing.scatter, (ANY, INTS, ANY), [int_("axis", 0)], version=11)

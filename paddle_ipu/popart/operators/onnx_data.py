"""Rows of ai.onnx: moving, cutting and indexing data."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    FREE,
    INTS,
    MOVE,
    NO_GRADIENT,
    NUMBERS,
    READS_INDICES,
    READS_INPUT,
    READS_NOTHING,
    VIEW,
    Attribute,
    OpCost,
    int_,
    ints,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import images, indexing, shaping

onnx_row("Reshape", 2, shaping.reshape, (ANY, INTS), VIEW, READS_NOTHING, version=5, constants=(1,))
onnx_row("Transpose", 1, shaping.transpose, ANY, VIEW, READS_NOTHING, [ints("perm")])
onnx_row("Squeeze", 1, shaping.squeeze, ANY, VIEW, READS_NOTHING, [ints("axes")], version=11)
onnx_row(
    "Unsqueeze", 1, shaping.unsqueeze, ANY, VIEW, READS_NOTHING,
    [ints("axes", required=True)], version=11,
)  # fmt: skip
onnx_row(
    "Concat", (1, None), shaping.concat, ANY, VIEW, READS_NOTHING,
    [int_("axis", required=True)], version=11,
)  # fmt: skip
onnx_row(
    "Split", 1, shaping.split, ANY, VIEW, READS_NOTHING,
    [int_("axis", 0), ints("split")], version=11, outputs=(1, None),
)  # fmt: skip
onnx_row(
    "Slice", (3, 5), shaping.slice_, (ANY, INTS), VIEW, READS_NOTHING, version=11,
    constants=(1, 2, 3, 4),
)  # fmt: skip
onnx_row(
    "Gather", 2, shaping.gather, (ANY, INTS), OpCost("gather"), READS_INDICES,
    [int_("axis", 0)], version=11,
)  # fmt: skip
onnx_row("Expand", 2, shaping.expand, (ANY, INTS), VIEW, READS_NOTHING, version=8, constants=(1,))
onnx_row("Tile", 2, shaping.tile, (ANY, INTS), VIEW, READS_NOTHING, version=6, constants=(1,))
onnx_row("Flatten", 1, shaping.flatten, ANY, VIEW, READS_NOTHING, [int_("axis", 1)], version=11)
onnx_row(
    "Pad", (2, 3), shaping.pad, (ANY, INTS, ANY), MOVE, READS_NOTHING,
    [("mode", Attribute("string", "constant"))], version=11, constants=(1, 2),
)  # fmt: skip
onnx_row(
    "DepthToSpace", 1, images.depth_to_space, ANY, MOVE, READS_NOTHING,
    [int_("blocksize", required=True), ("mode", Attribute("string", "DCR"))], version=11,
)  # fmt: skip
onnx_row(
    "SpaceToDepth", 1, images.space_to_depth, ANY, MOVE, READS_NOTHING,
    [int_("blocksize", required=True)],
)  # fmt: skip
onnx_row(
    "OneHot", 3, shaping.one_hot, (NUMBERS, NUMBERS, ANY), MOVE, READS_INPUT,
    [int_("axis", -1)], version=11, constants=(1,),
)  # fmt: skip
onnx_row("Shape", 1, shaping.shape, ANY, FREE, NO_GRADIENT)
onnx_row(
    "Constant", 0, shaping.constant, ANY, FREE, NO_GRADIENT,
    [("value", Attribute("tensor", required=True))], version=11,
)  # fmt: skip
onnx_row(
    "ConstantOfShape", 1, shaping.constant_of_shape, INTS, MOVE, NO_GRADIENT,
    [("value", Attribute("tensor", required=True))], version=9, constants=(0,),
)  # fmt: skip
onnx_row(
    "Scatter", 3, indexing.scatter, (ANY, INTS, ANY), OpCost("scatter"), READS_INDICES,
    [int_("axis", 0)], version=(9, 11),
)  # fmt: skip
onnx_row(
    "ScatterElements", 3, indexing.scatter, (ANY, INTS, ANY), OpCost("scatter"), READS_INDICES,
    [int_("axis", 0)], version=11,
)  # fmt: skip

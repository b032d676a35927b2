"""Rows of ai.onnx: images made larger or smaller, regions, normalisation across channels."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    MOVE,
    NUMBERS,
    READS_EVERYTHING,
    READS_INPUT_AND_OUTPUT,
    READS_NOTHING,
    UNPRICED,
    Attribute,
    OpCost,
    float_,
    int_,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import resize
from paddle_ipu.popart.shape_inference.nn import local_response_normalization, roi_align

_MODE = ("mode", Attribute("string", "nearest"))

onnx_row(
    "Resize", (3, 4), resize.resize, (NUMBERS, FLOATS, FLOATS, INTS), MOVE, READS_NOTHING,
    [
        ("coordinate_transformation_mode", Attribute("string", "half_pixel")),
        float_("cubic_coeff_a", -0.75), int_("exclude_outside", 0),
        float_("extrapolation_value", 0.0), _MODE,
        ("nearest_mode", Attribute("string", "round_prefer_floor")),
    ], version=11, constants=(1, 2, 3), unnamed=(1, 2),
)  # fmt: skip
onnx_row(
    "Resize", 2, resize.scaled, (NUMBERS, FLOATS), MOVE, READS_NOTHING,
    [_MODE], version=10, constants=(1,),
)  # fmt: skip
onnx_row(
    "Upsample", 2, resize.scaled, (NUMBERS, FLOATS), MOVE, READS_NOTHING,
    [_MODE], version=9, constants=(1,),
)  # fmt: skip
onnx_row(
    "Upsample", 2, resize.scaled, (NUMBERS, FLOATS), MOVE, READS_NOTHING,
    [_MODE], version=10, constants=(1,), implemented=False,
)  # fmt: skip
onnx_row(
    "Upsample", 1, resize.scaled_by_two_attributes, NUMBERS, MOVE, READS_NOTHING,
    [float_("height_scale"), float_("width_scale"), _MODE],
    version=1, implemented=False,
)  # fmt: skip
onnx_row(
    "Upsample", 1, resize.scaled_by_attribute, NUMBERS, MOVE, READS_NOTHING,
    [("scales", Attribute("floats", required=True)), _MODE], version=7, implemented=False,
)  # fmt: skip
onnx_row(
    "LRN", 1, local_response_normalization, FLOATS, OpCost("norm", 10, 20), READS_INPUT_AND_OUTPUT,
    [int_("size", required=True), float_("alpha", 1e-4), float_("beta", 0.75), float_("bias", 1.0)],
)  # fmt: skip
onnx_row(
    "RoiAlign", 3, roi_align, (FLOATS, FLOATS, INTS), UNPRICED, READS_EVERYTHING,
    [
        ("mode", Attribute("string", "avg")), int_("output_height", 1), int_("output_width", 1),
        int_("sampling_ratio", 0), float_("spatial_scale", 1.0),
    ], version=10,
)  # fmt: skip

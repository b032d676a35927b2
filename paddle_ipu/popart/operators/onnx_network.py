"""Rows of ai.onnx: linear algebra, normalisation, pooling."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    BOOLS,
    FLOATS,
    INTS,
    NUMBERS,
    Attribute,
    family,
    float_,
    int_,
    ints,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import linear, nn, reduce
from paddle_ipu.popart.shape_inference.context import same_as_first

onnx_row("MatMul", 2, linear.matmul, NUMBERS, version=9)
onnx_row(
    "Gemm",
    (2, 3),
    linear.gemm,
    NUMBERS,
    [float_("alpha", 1.0), float_("beta", 1.0), int_("transA", 0), int_("transB", 0)],
    version=11,
)
family(onnx_row, "Softmax:11 LogSoftmax:11", 1, reduce.softmax, FLOATS, [int_("axis", 1)])
onnx_row(
    "Conv",
    (2, 3),
    nn.conv,
    FLOATS,
    [ints("dilations"), int_("group", 1), *map(ints, ("kernel_shape", "pads", "strides"))],
    version=11,
)
onnx_row(
    "ConvTranspose",
    (2, 3),
    nn.conv_transpose,
    FLOATS,
    [
        ints("dilations"),
        int_("group", 1),
        *map(ints, ("kernel_shape", "output_padding", "output_shape", "pads", "strides")),
    ],
    version=(1, 11),
)
onnx_row(
    "MaxPool",
    1,
    nn.pool,
    FLOATS,
    [
        ints("kernel_shape", required=True),
        int_("ceil_mode", 0),
        ints("dilations"),
        ints("pads"),
        int_("storage_order", 0),
        ints("strides"),
    ],
    counted=True,
    version=11,
)
onnx_row(
    "AveragePool",
    1,
    nn.pool,
    FLOATS,
    [
        ints("kernel_shape", required=True),
        int_("ceil_mode", 0),
        int_("count_include_pad", 0),
        ints("pads"),
        ints("strides"),
    ],
    version=11,
)
family(onnx_row, "GlobalAveragePool:1 GlobalMaxPool:1", 1, nn.global_pool, FLOATS)
onnx_row(
    "BatchNormalization",
    5,
    nn.batch_normalization,
    FLOATS,
    [float_("epsilon", 1e-5), float_("momentum", 0.9)],
    outputs=(1, 5),
    version=9,
)
onnx_row(
    "InstanceNormalization",
    3,
    nn.instance_normalization,
    FLOATS,
    [float_("epsilon", 1e-5)],
    version=6,
)
onnx_row(
    "LRN",
    1,
    same_as_first,
    FLOATS,
    [
        int_("size", required=True),
        float_("alpha", 1e-4),
        float_("beta", 0.75),
        float_("bias", 1.0),
    ],
    version=1,
)
_RESIZED = NUMBERS | BOOLS
_MODE = ("mode", Attribute("string", "nearest"))
onnx_row("Resize", 2, nn.resize, (_RESIZED, FLOATS), [_MODE], constants=(1,), version=10)
onnx_row(
    "Resize",
    (3, 4),
    nn.resize,
    (_RESIZED, FLOATS, FLOATS, INTS),
    [
        ("coordinate_transformation_mode", Attribute("string", "half_pixel")),
        float_("cubic_coeff_a", -0.75),
        int_("exclude_outside", 0),
        float_("extrapolation_value", 0.0),
        _MODE,
        ("nearest_mode", Attribute("string", "round_prefer_floor")),
    ],
    constants=(2, 3),
    version=11,
)
onnx_row("Upsample", 2, nn.resize, (_RESIZED, FLOATS), [_MODE], constants=(1,), version=9)
onnx_row(
    "RoiAlign",
    3,
    nn.roi_align,
    (FLOATS, FLOATS, INTS),
    [
        ("mode", Attribute("string", "avg")),
        int_("output_height", 1),
        int_("output_width", 1),
        int_("sampling_ratio", 0),
        float_("spatial_scale", 1.0),
    ],
    version=10,
)

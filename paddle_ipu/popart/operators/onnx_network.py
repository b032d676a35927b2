"""Rows of ai.onnx: linear algebra, normalisation, pooling."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, NUMBERS, family, float_, int_, ints, onnx_row
from paddle_ipu.popart.shape_inference import linear, nn, reduce

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

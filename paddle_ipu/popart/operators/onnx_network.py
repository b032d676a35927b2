"""Rows of ai.onnx: linear algebra, normalisation, pooling."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    NUMBERS,
    READS_INPUT_AND_OUTPUT,
    READS_NOTHING,
    READS_OPERANDS,
    READS_OUTPUT,
    GradientReads,
    OpCost,
    float_,
    int_,
    ints,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import linear, nn, reduce

onnx_row("MatMul", 2, linear.matmul, NUMBERS, OpCost("matmul"), READS_OPERANDS, version=9)
onnx_row(
    "Gemm", (2, 3), linear.gemm, NUMBERS, OpCost("matmul"), READS_OPERANDS,
    [float_("alpha", 1.0), float_("beta", 1.0), int_("transA", 0), int_("transB", 0)], version=11,
)  # fmt: skip
onnx_row(
    ("Softmax", "LogSoftmax"), 1, reduce.softmax, FLOATS, OpCost("softmax", 4, 6), READS_OUTPUT,
    [int_("axis", 1)], version=11,
)  # fmt: skip
onnx_row(
    "Conv", (2, 3), nn.conv, FLOATS, OpCost("conv"), READS_OPERANDS,
    [ints("dilations"), int_("group", 1), *map(ints, ("kernel_shape", "pads", "strides"))],
    version=11,
)  # fmt: skip
onnx_row(
    "ConvTranspose", (2, 3), nn.conv_transpose, FLOATS, OpCost("conv"), READS_OPERANDS,
    [
        ints("dilations"), int_("group", 1),
        *map(ints, ("kernel_shape", "output_padding", "output_shape", "pads", "strides")),
    ], version=(1, 11),
)  # fmt: skip
onnx_row(
    "MaxPool", 1, nn.pool, FLOATS, OpCost("pool", 4, 4), READS_INPUT_AND_OUTPUT,
    [
        ints("kernel_shape", required=True), int_("ceil_mode", 0), ints("dilations"), ints("pads"),
        int_("storage_order", 0), ints("strides"),
    ], version=11, counted=True,
)  # fmt: skip
onnx_row(
    "AveragePool", 1, nn.pool, FLOATS, OpCost("pool", 2, 2), READS_NOTHING,
    [
        ints("kernel_shape", required=True), int_("ceil_mode", 0), int_("count_include_pad", 0),
        ints("pads"), ints("strides"),
    ], version=11,
)  # fmt: skip
onnx_row("GlobalAveragePool", 1, nn.global_pool, FLOATS, OpCost("reduce"), READS_NOTHING)
onnx_row("GlobalMaxPool", 1, nn.global_pool, FLOATS, OpCost("reduce", 2, 2), READS_INPUT_AND_OUTPUT)
onnx_row(
    "BatchNormalization", 5, nn.batch_normalization, FLOATS, OpCost("norm"),
    GradientReads(inputs=(0, 1), outputs=(3, 4)),
    [float_("epsilon", 1e-5), float_("momentum", 0.9)], version=9, outputs=(1, 5),
)  # fmt: skip
onnx_row(
    "InstanceNormalization", 3, nn.instance_normalization, FLOATS, OpCost("norm"), READS_OPERANDS,
    [float_("epsilon", 1e-5)], version=6,
)  # fmt: skip

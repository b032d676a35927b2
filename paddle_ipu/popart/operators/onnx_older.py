"""Rows of ai.onnx: the forms of operators that the operator sets 6 to 10 have and 11 has not.

Each row says what differs from the operator's newest form.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TypedDict, Unpack

from paddle_ipu.popart.op_schema import (
    ONNX,
    Attribute,
    Attributes,
    Types,
    float_,
    int_,
    ints,
    register,
    schema_of,
)
from paddle_ipu.popart.operators import (  # noqa: F401 - their rows are looked up
    control_flow,
    onnx_data,
    onnx_elementwise,
    onnx_network,
    onnx_reduction,
    recurrent,
)
from paddle_ipu.popart.shape_inference import elementwise, reduce, shaping
from paddle_ipu.popart.shape_inference.context import Infer, same_as_first

_LARGEST = 3.4028234663852886e38


class _Changes(TypedDict, total=False):
    """What an older form may have otherwise than the newest; as in :class:`OpSchema`."""

    min_inputs: int
    max_inputs: int | None
    input_dtypes: tuple[Types, ...]
    constant_inputs: tuple[int, ...]
    infer: Infer
    counted: bool
    implemented: bool


def _older(
    op_types: str | tuple[str, ...],
    versions: int | tuple[int, ...],
    attributes: Attributes | None = None,
    **changes: Unpack[_Changes],
) -> None:
    """Rows for older versions: the newest form but for `attributes`, where given, and `changes`."""
    for op_type in (op_types,) if isinstance(op_types, str) else op_types:
        newest = schema_of(ONNX, op_type)
        assert newest is not None, op_type
        if attributes is not None:
            newest = replace(newest, attributes=MappingProxyType(dict(attributes)))
        for version in (versions,) if isinstance(versions, int) else versions:
            register(replace(newest, version=version, **changes))


# Newer sets widened the types, or what axes may be, and left arguments as they are.
_older(("Conv", "Gather", "MatMul", "Squeeze", "Unsqueeze", "ArgMax", "ArgMin"), 1)
_older(("Softmax", "LogSoftmax", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), 1)
_older(("ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp"), 1)
_older("ReduceLogSum", 1)
_older(("Constant", "Flatten"), (1, 9))
_older("Split", 2)
_older("Concat", 4)
_older("Cast", 6)
_older(("Dropout", "Less", "Greater"), 7)
_older("Equal", 7)
_older("OneHot", 9)
_older(("Slice", "MaxPool", "AveragePool"), 10)

# Before NumPy's broadcasting: the second operand lies on `axis` of the first, if at all.
_BROADCAST = [int_("axis"), int_("broadcast", 0)]
_older(("Add", "Sub", "Mul", "Div"), 6, _BROADCAST, infer=elementwise.binary_on_axis)
_older("Pow", 1, _BROADCAST, infer=elementwise.binary_on_axis)
_older(("And", "Or", "Greater"), 1, _BROADCAST, infer=elementwise.comparison_on_axis)
_older("Less", 1, _BROADCAST, infer=elementwise.comparison_on_axis, implemented=False)
_older("Equal", 1, _BROADCAST, infer=elementwise.comparison_on_axis)
_older(("Sum", "Max", "Min", "Mean"), 6, infer=elementwise.variadic_of_one_shape)

# Inputs that used to be attributes, or did not exist.
_older(
    "Clip", 6, [float_("max", _LARGEST), float_("min", -_LARGEST)],
    max_inputs=1, constant_inputs=(), infer=same_as_first,
)  # fmt: skip
_older(
    "Slice", 1, [ints("ends", required=True), ints("starts", required=True), ints("axes")],
    min_inputs=1, max_inputs=1, constant_inputs=(), infer=shaping.slice_by_attributes,
)  # fmt: skip
_older(
    "Pad", 2,
    [ints("pads", required=True), ("mode", Attribute("string", "constant")), float_("value", 0.0)],
    min_inputs=1, max_inputs=1, constant_inputs=(), infer=shaping.pad_by_attributes,
)  # fmt: skip
_older(
    "TopK", 1, [int_("k", required=True), int_("axis", -1)],
    min_inputs=1, max_inputs=1, constant_inputs=(), infer=reduce.topk_by_attribute,
)  # fmt: skip
_older("TopK", 10, [int_("axis", -1)])
_GEMM = [float_("alpha", 1.0), float_("beta", 1.0), int_("transA", 0), int_("transB", 0)]
_older("Gemm", (7, 9), min_inputs=3)
_older("Gemm", 6, [*_GEMM[:2], int_("broadcast", 0), *_GEMM[2:]], min_inputs=3)
_older(
    "Scan", 8,
    [
        ("body", Attribute("graph", required=True)),
        int_("num_scan_inputs", required=True),
        ints("directions"),
    ],
    min_inputs=2, implemented=False,
)  # fmt: skip
for _name, _version, _implemented in (("LSTM", 1, True), ("GRU", 3, True), ("RNN", 1, False)):
    _layer = schema_of(ONNX, _name)
    assert _layer is not None
    _attributes = [*_layer.attributes.items(), int_("output_sequence", 0)]
    _older(_name, _version, _attributes, implemented=_implemented)
_older("DepthToSpace", 1, [int_("blocksize", required=True)])
_older("PRelu", (6, 7), implemented=False)
_older("Dropout", 6, [int_("is_test", 0), float_("ratio", 0.5)])
_NORM = [float_("epsilon", 1e-5), float_("momentum", 0.9), int_("spatial", 1)]
_older("BatchNormalization", 7, _NORM)
_older("BatchNormalization", 6, [_NORM[0], int_("is_test", 0), *_NORM[1:]])
_WINDOW = [ints("kernel_shape", required=True), ints("pads"), ints("strides")]
_older("AveragePool", 1, _WINDOW)
_older("AveragePool", 7, [_WINDOW[0], int_("count_include_pad", 0), *_WINDOW[1:]])
_older("MaxPool", 1, _WINDOW, counted=False)
_older("MaxPool", 8, [*_WINDOW[:2], int_("storage_order", 0), _WINDOW[2]])

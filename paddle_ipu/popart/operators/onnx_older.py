"""Rows of ai.onnx: the forms of operators that the operator sets 6 to 10 have and 11 has not.

Each is told by what differs from the operator's newest form.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from paddle_ipu.popart.op_schema import (
    BOOLS,
    INTS,
    ONNX,
    Attribute,
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
    onnx_recurrent,
    onnx_reduction,
)
from paddle_ipu.popart.shape_inference import elementwise, reduce, shaping
from paddle_ipu.popart.shape_inference.context import same_as_first

_LARGEST = 3.4028234663852886e38


def _older(
    names: str, attributes: Iterable[tuple[str, Attribute]] | None = None, **changes: Any
) -> None:
    """Rows for ``"Equal:1,7"``: the newest form at older versions, but for `changes`."""
    if attributes is not None:
        changes["attributes"] = MappingProxyType(dict(attributes))
    for entry in names.split():
        op_type, versions = entry.split(":")
        newest = schema_of(ONNX, op_type)
        assert newest is not None, op_type
        for version in map(int, versions.split(",")):
            register(replace(newest, version=version, **changes))


# Newer sets widened the types, or what axes may be, and left arguments as they are.
_older("Cast:6 Concat:4 Constant:1,9 Conv:1 Dropout:7 Flatten:1,9 Gather:1 MatMul:1 OneHot:9")
_older("Slice:10 Split:2 Squeeze:1 Unsqueeze:1 ArgMax:1 ArgMin:1 Softmax:1 LogSoftmax:1")
_older("Less:7 Greater:7 MaxPool:10 AveragePool:10")
_older("Equal:7", input_dtypes=(INTS | BOOLS,))
_older("ReduceMean:1 ReduceSum:1 ReduceMax:1 ReduceMin:1 ReduceProd:1 ReduceSumSquare:1")
_older("ReduceL1:1 ReduceL2:1 ReduceLogSumExp:1 ReduceLogSum:1")

# Before NumPy's broadcasting: the second operand lies on `axis` of the first, if at all.
_BROADCAST = [int_("axis"), int_("broadcast", 0)]
_older("Add:6 Sub:6 Mul:6 Div:6 Pow:1", _BROADCAST, infer=elementwise.binary_on_axis)
_older("And:1 Or:1 Greater:1", _BROADCAST, infer=elementwise.comparison_on_axis)
_older("Less:1", _BROADCAST, infer=elementwise.comparison_on_axis, implemented=False)
_older("Equal:1", _BROADCAST, infer=elementwise.comparison_on_axis, input_dtypes=(INTS | BOOLS,))
_older("Sum:6 Max:6 Min:6 Mean:6", infer=elementwise.variadic_of_one_shape)

# Inputs that used to be attributes, or did not exist.
_older(
    "Clip:6",
    [float_("max", _LARGEST), float_("min", -_LARGEST)],
    max_inputs=1,
    constant_inputs=(),
    infer=same_as_first,
)
_older(
    "Slice:1",
    [ints("ends", required=True), ints("starts", required=True), ints("axes")],
    min_inputs=1,
    max_inputs=1,
    constant_inputs=(),
    infer=shaping.slice_by_attributes,
)
_older(
    "Pad:2",
    [ints("pads", required=True), ("mode", Attribute("string", "constant")), float_("value", 0.0)],
    min_inputs=1,
    max_inputs=1,
    constant_inputs=(),
    infer=shaping.pad_by_attributes,
)
_older(
    "TopK:1",
    [int_("k", required=True), int_("axis", -1)],
    min_inputs=1,
    max_inputs=1,
    constant_inputs=(),
    infer=reduce.topk_by_attribute,
)
_older("TopK:10", [int_("axis", -1)])
_GEMM = [float_("alpha", 1.0), float_("beta", 1.0), int_("transA", 0), int_("transB", 0)]
_older("Gemm:7,9", min_inputs=3)
_older("Gemm:6", [*_GEMM[:2], int_("broadcast", 0), *_GEMM[2:]], min_inputs=3)
_older(
    "Scan:8",
    [
        ("body", Attribute("graph", required=True)),
        int_("num_scan_inputs", required=True),
        ints("directions"),
    ],
    min_inputs=2,
    implemented=False,
)
for _names, _here in (("LSTM:1 GRU:3", True), ("RNN:1", False)):
    for _name in _names.split():
        _layer = schema_of(ONNX, _name.partition(":")[0])
        assert _layer is not None
        _written = [*_layer.attributes.items(), int_("output_sequence", 0)]
        _older(_name, _written, implemented=_here)
_older("DepthToSpace:1", [int_("blocksize", required=True)])
_older("PRelu:6,7", implemented=False)
_older("Dropout:6", [int_("is_test", 0), float_("ratio", 0.5)])
_NORM = [float_("epsilon", 1e-5), float_("momentum", 0.9), int_("spatial", 1)]
_older("BatchNormalization:7", _NORM)
_older("BatchNormalization:6", [_NORM[0], int_("is_test", 0), *_NORM[1:]])
_WINDOW = [ints("kernel_shape", required=True), ints("pads"), ints("strides")]
_older("AveragePool:1", _WINDOW)
_older("AveragePool:7", [_WINDOW[0], int_("count_include_pad", 0), *_WINDOW[1:]])
_older("MaxPool:1", _WINDOW, counted=False)
_older("MaxPool:8", [*_WINDOW[:2], int_("storage_order", 0), _WINDOW[2]])

"""Inference by ONNX itself, of operators that are written but not run."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo


def infer(ctx: InferenceContext) -> list[TensorInfo | None]:
    """What ONNX knows of the outputs; None where a shape depends on values or on a sequence."""
    domain, _, rest = ctx.identifier.rpartition(".")
    op_type, version = rest.split(":")
    schema = onnx.defs.get_schema(op_type, int(version), "")
    outputs = ctx.output_ids
    known = {key: value for key, value in ctx.attributes.items() if key in schema.attributes}
    node = onnx.helper.make_node(op_type, ctx.input_ids, outputs, **known)
    types = {
        name: onnx.helper.make_tensor_type_proto(int(info.dtype), info.dims)
        for name, info in zip(ctx.input_ids, ctx.inputs, strict=True)
        if info is not None
    }
    try:
        inferred = onnx.shape_inference.infer_node_outputs(schema, node, types)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise ctx.error(str(error)) from error
    return [_info(inferred.get(name)) for name in outputs]


def _info(proto: onnx.TypeProto | None) -> TensorInfo | None:
    if proto is None or not proto.HasField("tensor_type"):
        return None
    tensor = proto.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or -1 in dims:
        return None
    return TensorInfo.of(ir.DataType(tensor.elem_type), tuple(dims))

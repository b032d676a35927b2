"""The table of PopART operators, complete: importing this module fills it.

A row is an `OpSchema`; the rows stand in ``popart/operators/``, one file a family.
"""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    GRAPHCORE,
    NEWEST_OPSETS,
    ONNX,
    PADDLE_IPU,
    Attribute,
    OpSchema,
    all_schemas,
    debug_name,
    register,
    schema_of,
    schema_of_node,
    schemas_of_opset,
)
from paddle_ipu.popart.operators import (  # noqa: F401 - they fill the table
    control_flow,
    graphcore,
    graphcore_data,
    graphcore_indexing,
    onnx_data,
    onnx_elementwise,
    onnx_network,
    onnx_older,
    onnx_random,
    onnx_reduction,
    onnx_unimplemented,
    onnx_vision,
    paddle_ipu,
    paddle_kernel,
    paddle_linear_algebra,
    paddle_math,
    paddle_random,
    paddle_vision,
    recurrent,
)

__all__ = [
    "GRAPHCORE",
    "NEWEST_OPSETS",
    "ONNX",
    "PADDLE_IPU",
    "Attribute",
    "OpSchema",
    "all_schemas",
    "debug_name",
    "register",
    "schema_of",
    "schema_of_node",
    "schemas_of_opset",
]

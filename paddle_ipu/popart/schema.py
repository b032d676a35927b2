"""The table of PopART operators, complete: importing this module fills it.

A row is an `OpSchema`; the rows stand in ``popart/operators/``, one file a family.
"""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    GRAPHCORE,
    ONNX,
    PADDLE_IPU,
    Attribute,
    OpSchema,
    all_schemas,
    register,
    schema_of,
)
from paddle_ipu.popart.operators import (  # noqa: F401 - they fill the table
    graphcore,
    onnx_data,
    onnx_elementwise,
    onnx_network,
    onnx_reduction,
    paddle_ipu,
)

__all__ = [
    "GRAPHCORE",
    "ONNX",
    "PADDLE_IPU",
    "Attribute",
    "OpSchema",
    "all_schemas",
    "register",
    "schema_of",
]

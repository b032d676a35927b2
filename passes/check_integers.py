"""Refuses integers of 64 bits where the strategy turns them off.

An IPU has none: hardware narrows them to 32 bits. Feeds, parameters and operators' results count;
constants, which have to fit 32 bits there, do not.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.pass_base import Compilation

_WIDE = (ir.DataType.INT64, ir.DataType.UINT64)
_SHOWN = 8


class CheckIntegers:
    """Raises on values of int64 with ``enable_supported_data_type_casting`` off."""

    name = "check_integers"
    requires = ("forward only",)
    ensures = ()

    def run(self, compilation: Compilation) -> bool:
        if compilation.options["enable_supported_data_type_casting"]:
            return False
        graph = compilation.graph
        found = [f"{v.meta[dialect.ROLE]} '{v.name}'" for v in graph.inputs if v.dtype in _WIDE]
        found += [
            dialect.describe(node)
            for node in dialect.walk(graph)
            if node.op_type not in dialect.CONSTANT_OPS
            and any(value.dtype in _WIDE for value in node.outputs)
        ]
        if found:
            more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise InvalidProgramError(
                "enable_supported_data_type_casting is off, and an IPU has no integers of 64 bits. "
                "These are int64; cast them to int32 in the program, or leave the option on, with "
                "which hardware narrows them and the IPU Model has them:\n  "
                + "\n  ".join(found[:_SHOWN])
                + more
            )
        return False

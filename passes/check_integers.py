"""Refuses 64-bit integers if ``enable_supported_data_type_casting`` is off.

An IPU has none: hardware narrows them to 32 bits. Feeds, parameters and results are checked;
constants, whose values have to fit 32 bits there, are not.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.pass_base import Compilation

_WIDE = (ir.DataType.INT64, ir.DataType.UINT64)
_SHOWN = 8


class CheckIntegers:
    """Raises on int64 values if ``enable_supported_data_type_casting`` is off.

    Raises:
        InvalidProgramError: lists them.
    """

    name = "check_integers"
    requires = ("forward only",)
    ensures = ()

    def run(self, compilation: Compilation) -> bool:
        if compilation.options["enable_supported_data_type_casting"]:
            return False
        graph = compilation.graph
        wide = [f"{v.meta[dialect.ROLE]} '{v.name}'" for v in graph.inputs if v.dtype in _WIDE]
        wide += [
            dialect.describe(node)
            for node in dialect.walk(graph)
            if node.op_type not in dialect.CONSTANT_OPS
            and any(value.dtype in _WIDE for value in node.outputs)
        ]
        if wide:
            more = f"\n  and {len(wide) - _SHOWN} more" if len(wide) > _SHOWN else ""
            raise InvalidProgramError(
                "enable_supported_data_type_casting is off, and an IPU has no integers of 64 bits. "
                "These are int64; cast them to int32 in the program, or leave the option on, with "
                "which hardware narrows them and the IPU Model has them:\n  "
                + "\n  ".join(wide[:_SHOWN])
                + more
            )
        return False

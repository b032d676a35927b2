"""Operators that write over a variable."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


@translator("increment", emits=("Add",))
def increment(context: TranslationContext) -> str:
    """``x + value``; the value is a number of x's dtype."""
    x = context.input("x")
    value = np.asarray(context.attr("value", 1.0))
    return context.onnx.add([x, context.const(value, context.dtype(x))])


@translator("assign_out_", emits=("Identity",))
def assign_out(context: TranslationContext) -> str:
    """x, which the operand ``output`` becomes."""
    return context.onnx.identity([context.input("x")])

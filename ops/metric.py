"""Measures of quality."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


@translator("accuracy", emits="Equal Cast ReduceSum Mul")
def accuracy(context: TranslationContext) -> list[str]:
    """Of ``indices`` [N, k], the share of rows with the label, their number, and N."""
    indices = context.input("indices")
    label = context.cast(context.input("label"), context.dtype(indices))
    hits = context.cast(str(context.onnx.equal([indices, label])), "int32")
    rows = context.shape(indices)[0]
    correct = str(context.onnx.reducesum([hits], [0, 1], 0))
    share = context.cast(correct, "float32")
    share = str(context.onnx.mul([share, context.const_like(1.0 / rows, share)]))
    total = context.const(np.asarray(rows), "int32")
    return [
        share,
        context.cast(correct, context.output_dtype(1)),
        context.cast(total, context.output_dtype(2)),
    ]

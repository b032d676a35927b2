"""Operators that decode sequences, and features of ranking models."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


@translator("add_position_encoding", emits="Mul Add", limits="without LoD")
def add_position_encoding(context: TranslationContext) -> str:
    """``alpha * x + beta * encoding`` for x [N, T, D]: sines in the first half, then cosines."""
    x = context.input("x")
    _, times, width = context.shape(x)
    half = width // 2
    steps = np.arange(half) / (half - 1) if half > 1 else np.ones(1)
    angles = np.arange(times)[:, None] / 10000.0**steps
    encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    encoding = encoding * float(context.attr("beta", 1.0))
    scaled = context.onnx.mul([x, context.const_like(float(context.attr("alpha", 1.0)), x)])
    return str(context.onnx.add([scaled, context.const(encoding, context.dtype(x))]))


@translator("cvm", emits="paddle_ipu.Cvm")
def cvm(context: TranslationContext) -> str:
    """Features whose first two are shows and clicks: their logarithms, or without them."""
    attributes = {"use_cvm": int(context.attr("use_cvm", 1))}
    return context.extension("Cvm", [context.input("x"), context.input("cvm")], attributes)[0]

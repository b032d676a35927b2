"""Lowerings of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import input_or_none
from paddle_ipu.xla.registry import Attributes, LoweringContext, lowering


@lowering("ai.onnx", "MatMul")
def matmul(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """NumPy's matmul: the last two axes multiply, those before broadcast."""
    return jnp.matmul(*inputs)


@lowering("ai.onnx", "Gemm")
def gemm(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """``alpha * A' @ B' + beta * C``, where ``transA`` and ``transB`` transpose the factors."""
    contracted = (
        (0 if attributes.get("transA", 0) else 1,),
        (1 if attributes.get("transB", 0) else 0,),
    )
    out = lax.dot_general(jnp.asarray(inputs[0]), jnp.asarray(inputs[1]), (contracted, ((), ())))
    alpha, beta = float(attributes.get("alpha", 1.0)), float(attributes.get("beta", 1.0))
    if alpha != 1.0:
        out = out * alpha
    bias = input_or_none(inputs, 2)
    if bias is None:
        return out
    return out + (bias if beta == 1.0 else beta * bias)

"""Inference of operators that are there for what they do on the host."""

from __future__ import annotations

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo


def abort(ctx: InferenceContext) -> list[TensorInfo]:
    """(condition): one boolean, or none; there is no output."""
    if ctx.has(0) and ctx.info(0).nelms() != 1:
        raise ctx.error(f"the condition must be one boolean, got {ctx.info(0)}")
    return []

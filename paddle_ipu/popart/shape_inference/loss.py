"""Inference of losses and of operators across replicas."""

from __future__ import annotations

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def _reduced(ctx: InferenceContext, info: TensorInfo) -> list[TensorInfo]:
    reduction = ctx.attributes["reduction"]
    if reduction not in ("Sum", "Mean", "None"):
        raise ctx.error(f"reduction is '{reduction}', expected Sum, Mean or None")
    return [info if reduction == "None" else TensorInfo.of(info.dtype, ())]


def reduced_loss(ctx: InferenceContext) -> list[TensorInfo]:
    """L1, IdentityLoss: a scalar, or the input's shape when nothing is reduced."""
    return _reduced(ctx, ctx.info(0))


def _labelled(ctx: InferenceContext) -> TensorInfo:
    """Type of one loss per label, after checking the labels against (log-)probabilities."""
    probs, labels = ctx.info(0), ctx.info(1)
    if not probs.dims:
        raise popart_exception(f"Invalid shape for prob tensor ({probs}) in {ctx.op}. ")
    expected = probs.dims[:-1]
    if labels.dims != expected:
        raise popart_exception(
            f"The label tensor ({labels}) must have shape {shape_string(expected)} to match all "
            f"but the final dimension of the probabilities tensor ({probs}) in {ctx.op}. "
        )
    if not labels.dtype.is_integer():
        raise popart_exception(
            f"Expected the label tensor NllOp to be an integer data type (fixed point), not the "
            f"case for input with info: {labels}. This error for {ctx.op}. "
        )
    return TensorInfo.of(probs.dtype, expected)


def nll(ctx: InferenceContext) -> list[TensorInfo]:
    """(probs [..., C], labels [...]) -> a scalar, or the labels' shape."""
    return _reduced(ctx, _labelled(ctx))


def log_nll(ctx: InferenceContext) -> list[TensorInfo]:
    """(log_probs [..., C], labels [...]) -> one loss per label."""
    return [_labelled(ctx)]

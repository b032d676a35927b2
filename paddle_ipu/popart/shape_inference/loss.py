"""Inference of losses and of operators across replicas."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def _reduced(ctx: InferenceContext, info: TensorInfo) -> list[TensorInfo]:
    reduction = ctx.attributes["reduction"]
    if reduction not in ("Sum", "Mean", "None"):
        raise ctx.error(f"reduction is '{reduction}', expected Sum, Mean or None")
    return [info if reduction == "None" else TensorInfo.of(info.dtype, ())]


def reduced_loss(ctx: InferenceContext) -> list[TensorInfo]:
    """IdentityLoss: a scalar, or the input's shape when nothing is reduced."""
    return _reduced(ctx, ctx.info(0))


def l1(ctx: InferenceContext) -> list[TensorInfo]:
    """Like `reduced_loss`, of what is no scalar."""
    if not ctx.info(0).dims:
        raise ctx.told(
            "L1Op not valid for rank-0 tensor (scalar).",
            f"reads the scalar '{ctx.input_id(0)}'; reshape it to [1]",
        )
    return reduced_loss(ctx)


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


def _log_probabilities(ctx: InferenceContext) -> TensorInfo:
    probs = ctx.info(0)
    if len(probs.dims) != 3:
        raise popart_exception(
            f"Unsupported shape for input 0 of Op {ctx.op} (expected a 'logarithmized "
            "probabilities' tensor of rank 3, got a tensor with shape "
            f"{shape_string(probs.dims)})."
        )
    return probs


def ctc(ctx: InferenceContext) -> list[TensorInfo]:
    """(log_probs [T, N, C], targets [N, S], input lengths [N], target lengths [N]) -> [N]."""
    probs, targets = _log_probabilities(ctx), ctx.info(1)
    batch = probs.dims[1]
    if len(targets.dims) != 2 or targets.dims[0] != batch:
        raise popart_exception(
            f"Unsupported shape for input 1 of Op {ctx.op} (expected a 'targets' tensor of rank 2 "
            f"with the size of the first dimension being {batch} to match the size of the second "
            "dimension of the 'logarithmized probabilities' tensor, got "
            f"{shape_string(targets.dims)})."
        )
    for index, name in ((2, "input lengths"), (3, "target lengths")):
        if ctx.info(index).dims != (batch,):
            raise popart_exception(
                f"Unsupported shape for input {index} of Op {ctx.op} (expected a '{name}' tensor "
                f"of shape [{batch}], got {shape_string(ctx.info(index).dims)})."
            )
    name = ctx.attributes.get("outDataType", "UNDEFINED")
    dtype = probs.dtype if name == "UNDEFINED" else TensorInfo(str(name), []).dtype
    return _reduced(ctx, TensorInfo.of(dtype, (batch,)))


def ctc_beam_search(ctx: InferenceContext) -> list[TensorInfo]:
    """(log_probs [T, N, C], lengths [N]) -> (log probabilities, lengths, labels) of P paths."""
    probs = _log_probabilities(ctx)
    times, batch, _ = probs.dims
    if ctx.info(1).dims != (batch,):
        raise popart_exception(
            f"Unsupported shape for input 1 of Op {ctx.op} (expected a 'data lengths' tensor of "
            f"shape [{batch}], got {shape_string(ctx.info(1).dims)})."
        )
    paths = ctx.attributes["top_paths"]
    return [
        TensorInfo.of(probs.dtype, (batch, paths)),
        TensorInfo.of(ir.DataType.UINT32, (batch, paths)),
        TensorInfo.of(ir.DataType.UINT32, (batch, paths, times)),
    ]


def rnnt(ctx: InferenceContext) -> list[TensorInfo]:
    """(log probabilities [N, T, U + 1, C], labels [N, U], lengths [N] of both) -> [N]."""
    logits = ctx.expect_rank(0, 4, 4)
    return [TensorInfo.of(logits.dtype, logits.dims[:1])]


def cvm(ctx: InferenceContext) -> list[TensorInfo]:
    """(features [N, D], show and click [N, 2]) -> [N, D], or [N, D - 2] without them."""
    x = ctx.expect_rank(0, 2, 2)
    width = x.dims[1] - (0 if ctx.attributes["use_cvm"] else 2)
    return [TensorInfo.of(x.dtype, (x.dims[0], width))]

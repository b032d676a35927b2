"""Losses."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.norm import on_last_axis
from paddle_ipu.ops.registry import translator

REDUCTIONS = {0: "Sum", 1: "Mean", 2: "NoReduction"}
"""Paddle's reduction codes and the names of PopART's reductions."""


@translator(
    "cross_entropy_with_softmax",
    emits="LogSoftmax Log Softmax graphcore.Nll Mul ReduceSum Neg Reshape Transpose Cast",
)
def cross_entropy_with_softmax(context: TranslationContext) -> list[str | None]:
    """``-log(softmax(x)[label])`` along an axis, zero where the label is ``ignore_index``.

    Results are the softmax and the loss, which keeps the class axis with length 1.
    """
    logits, label = context.input("input"), context.input("label")
    axis = int(context.attr("axis", -1)) % context.rank(logits)
    moved, back = on_last_axis(context, logits, axis)
    last = context.rank(moved) - 1
    takes_logits = bool(context.attr("use_softmax", 1))
    if takes_logits:
        logs = str(context.onnx.logsoftmax([moved], last))
    else:
        logs = str(context.onnx.log([moved]))
    loss_shape = context.shape(logits)
    loss_shape[axis] = 1
    if context.attr("soft_label", 0):
        weights, _ = on_last_axis(context, label, axis)
        products = context.onnx.mul([weights, logs])
        loss = str(context.onnx.neg([context.onnx.reducesum([products], [last], 0)]))
    else:
        classes = context.cast(label, "int32")
        classes = context.reshape(classes, context.shape(moved)[:-1])
        loss = negative_log_likelihood(context, logs, classes, int(context.attr("ignore_index")))
    softmax = None
    if context.is_used(0):
        if takes_logits:
            softmax = str(context.onnx.softmax([moved], last))
            softmax = softmax if back is None else str(context.onnx.transpose([softmax], back))
        else:
            softmax = str(context.onnx.identity([logits]))
    return [softmax, context.reshape(loss, loss_shape)]


def negative_log_likelihood(
    context: TranslationContext, logs: str, classes: str, ignore_index: int
) -> str:
    """Minus the log-probability of each class, without reduction."""
    reduction = context.reduction("NoReduction")
    return str(context.graphcore.nllloss([logs, classes], reduction, ignore_index, True))


@translator("identity_loss", emits="graphcore.IdentityLoss")
def identity_loss(context: TranslationContext) -> str:
    """The tensor as a loss: summed, averaged or as it is."""
    reduction = context.reduction(REDUCTIONS[int(context.attr("reduction", 1))])
    return str(context.graphcore.identityloss([context.input("x")], reduction))

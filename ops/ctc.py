"""Losses of sequences whose alignment to their labels is unknown."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator

_NO_LENGTHS = (
    "without lengths its sequences are LoD tensors, whose shapes are not static; pad them and give "
    "input_lengths and label_lengths."
)


@translator(
    "warpctc",
    emits=("LogSoftmax", "graphcore.Ctc", "graphcore.Detach", "Cast", "Reshape", "Sub", "Add",
           "Div"),
    limits="padded sequences with lengths",
)  # fmt: skip
def warpctc(context: TranslationContext) -> list[str | None]:
    """Connectionist temporal classification of logits [T, N, C] and labels [N, S].

    The result is [N, 1]. With ``norm_by_times`` the gradient, not the loss, is divided by the
    length of each sequence.
    """
    if not context.has("logits_length") or not context.has("labels_length"):
        raise context.refuse(_NO_LENGTHS)
    logits = context.input("logits")
    lengths = context.index(context.input("logits_length"))
    label = context.index(context.input("label"))
    wanted = context.index(context.input("labels_length"))
    logs = context.onnx.logsoftmax([logits], 2)
    loss = context.graphcore.ctcloss(
        [logs, label, lengths, wanted],
        context.reduction("NoReduction"),
        int(context.attr("blank", 0)),
        "UNDEFINED",
        True,
    )
    if context.attr("norm_by_times", 0):
        still = context.graphcore.detach([loss])
        times = context.cast(lengths, context.dtype(loss))
        # Zero in value; its derivative is that of the loss over the length.
        step = context.onnx.div([context.onnx.sub([loss, still]), times])
        loss = context.onnx.add([still, step])
    return [context.reshape(loss, [context.shape(loss)[0], 1]), None]


@translator("warprnnt", emits=("paddle_ipu.Rnnt",))
def warprnnt(context: TranslationContext) -> list[str | None]:
    """The transducer loss of log probabilities [N, T, U + 1, C] and labels [N, U]: [N].

    ``fastemit_lambda`` scales the gradient of emitting a label by 1 + lambda, not the loss.
    """
    names = ("input", "label", "input_lengths", "label_lengths")
    attributes = {
        "blank": int(context.attr("blank", 0)),
        "fastemit_lambda": float(context.attr("fastemit_lambda", 0.0)),
    }
    return [context.extension("Rnnt", [context.input(name) for name in names], attributes)[0], None]

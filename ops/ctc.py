"""Losses of sequences without an alignment to their labels: CTC and transducer."""

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
           "Div", "Max"),
    limits="padded sequences with lengths; one of length 0 has a loss of 0, also without labels, "
    "where Paddle's is infinite",
)  # fmt: skip
def warpctc(context: TranslationContext) -> list[str | None]:
    """The CTC loss (Graves et al., 2006) of logits [T, N, C] and labels [N, S]: [N, 1].

    Expressed as LogSoftmax and PopART's Ctc. With ``norm_by_times`` the gradient, but not the loss,
    is divided by the length of each sequence.
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
        detached = context.graphcore.detach([loss])
        # A sequence without times has no gradient to divide.
        counted = context.onnx.max([lengths, context.const_like(1, lengths)])
        times = context.cast(counted, context.dtype(loss))
        # Zero in value; its derivative is that of loss / times.
        step = context.onnx.div([context.onnx.sub([loss, detached]), times])
        loss = context.onnx.add([detached, step])
    return [context.reshape(loss, [context.shape(loss)[0], 1]), None]


@translator("warprnnt", emits=("paddle_ipu.Rnnt",))
def warprnnt(context: TranslationContext) -> list[str | None]:
    """The transducer loss (arXiv:1211.3711): [N].

    Operands are log probabilities [N, T, U + 1, C] and labels [N, U]. ``fastemit_lambda``
    multiplies the gradient of emitting a label by ``1 + fastemit_lambda`` and leaves the loss as it
    is (arXiv:2010.11148).
    """
    names = ("input", "label", "input_lengths", "label_lengths")
    lattice, labels = (context.shape(context.input(name)) for name in names[:2])
    if labels != [lattice[0], lattice[2] - 1]:
        raise context.refuse(
            f"label is {labels}, and input {lattice}: [N, U] labels have log probabilities of "
            "[N, T, U + 1, C]. Paddle's kernel does not check that, and reads other labels."
        )
    for name in names[2:]:
        if context.shape(context.input(name)) != lattice[:1]:
            raise context.refuse(
                f"{name} is {context.shape(context.input(name))}, for {lattice[0]} sequences: each "
                "has one. Paddle's kernel does not check that, and reads beyond them."
            )
    attributes = {
        "blank": int(context.attr("blank", 0)),
        "fastemit_lambda": float(context.attr("fastemit_lambda", 0.0)),
    }
    return [context.extension("Rnnt", [context.input(name) for name in names], attributes)[0], None]

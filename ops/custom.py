"""Translators of custom operators in published IPU scripts; their C++ source is not needed."""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import custom_translator

_REDUCTIONS = ("Sum", "Mean", "NoReduction")
_NO_FP8 = (
    "8-bit floats are not modelled. Keep activations in half: the script's argument is "
    "--activation_checkpoint_dtype FLOAT16."
)


def _inputs(context: TranslationContext) -> list[str]:
    return [context.tensor(value) for value in context.node.inputs if value is not None]


@custom_translator("checkpointoutput")
def checkpointoutput(context: TranslationContext) -> str:
    """The tensor itself, stored so that the backward pass recomputes from it."""
    (checked,) = context.builder.checkpointOutput(_inputs(context)[:1])
    context.record_origin(checked)
    return str(checked)


@custom_translator("detach")
def detach(context: TranslationContext) -> str:
    """The tensor itself; no gradient passes."""
    return context.graphcore.detach(_inputs(context)[:1])


@custom_translator("identity")
def identity(context: TranslationContext) -> str:
    """The tensor itself."""
    return context.onnx.identity(_inputs(context)[:1])


@custom_translator("tied_gather")
def tied_gather(context: TranslationContext) -> str:
    """Rows of a table by index.

    On hardware PopART gives the table the layout of the matrix product that it is tied to.
    """
    table, rows = _inputs(context)
    return context.onnx.gather([table, rows], 0)


@custom_translator("custom_nll_loss")
def custom_nll_loss(context: TranslationContext) -> str:
    """PopART's negative log likelihood of probabilities [..., C] and labels [...].

    ``reduction`` is 0 for the sum, 1 for the mean, 2 for none; ``ignoreIndex`` is a label in
    decimal digits, or "None". The mean is over the labels that are not ignored.
    """
    probabilities, labels = _inputs(context)
    reduction = int(context.attr("reduction", 1))
    if not 0 <= reduction < len(_REDUCTIONS):
        raise context.refuse(f"reduction is {reduction}; expected 0 (sum), 1 (mean) or 2 (none).")
    ignored = str(context.attr("ignoreIndex", "None"))
    arguments = {} if ignored == "None" else {"ignoreIndex": _number(context, ignored)}
    loss = context.graphcore.nllloss(
        [probabilities, context.index(labels)],
        reduction=context.reduction(_REDUCTIONS[reduction]),
        inputIsLogProbability=bool(context.attr("inputIsLogProbability", False)),
        **arguments,
    )
    declared = dialect.dims_of(context.node.outputs[0])
    return loss if reduction == 2 else context.reshape(loss, [1] if declared == [1] else [])


# -- of the BERT that was submitted to MLPerf ---------------------------------------------------


@custom_translator("custom_Detach")
def custom_detach(context: TranslationContext) -> str:
    """The tensor itself; no gradient passes."""
    return context.graphcore.detach(_inputs(context)[:1])


@custom_translator("custom_EmbeddingGather")
def embedding_gather(context: TranslationContext) -> str:
    """Slices of a table by index, along ``axis`` (0 in all published scripts)."""
    table, rows = _inputs(context)
    return context.onnx.gather([table, rows], int(context.attr("axis", 0)))


@custom_translator("custom_AttentionMask")
def attention_mask(context: TranslationContext) -> str:
    """An additive mask that separates packed sequences: [B, 1, S, S].

    ``-10000 * tanh(|m_i - m_j|)`` for tokens i and j. ``X`` [B, S] has the number of each token's
    sequence, 0 for padding; ``Y`` gives the dtype.
    """
    numbers, scores = _inputs(context)
    batch, length = context.shape(numbers)
    numbers = context.cast(numbers, context.dtype(scores))
    rows = context.reshape(numbers, [batch, 1, length, 1])
    columns = context.reshape(numbers, [batch, 1, 1, length])
    apart = context.onnx.tanh([context.onnx.abs([context.onnx.sub([rows, columns])])])
    return context.onnx.mul([apart, context.const_like(-10000.0, scores)])


@custom_translator("custom_DropoutWithTrainingSwitch")
def dropout_with_training_switch(context: TranslationContext) -> str:
    """Dropout with probability ``ratio`` if the tensor ``mode`` is not 0, else the identity."""
    x, mode = _inputs(context)
    ratio = float(context.attr("ratio", 0.0))
    if ratio == 0.0:
        return context.onnx.identity([x])
    dropped = context.onnx.dropout([x], 1, ratio)[0]
    switch = context.reshape(context.cast(mode, "bool"), [1] * len(context.shape(x)))
    return context.onnx.where([switch, dropped, x])


@custom_translator("custom_CastToFp8")
def cast_to_fp8(context: TranslationContext) -> str:
    """Always refused: the IPU Model has no 8-bit floats."""
    raise context.refuse(_NO_FP8)


@custom_translator("custom_CastFromFp8")
def cast_from_fp8(context: TranslationContext) -> str:
    """Always refused: the IPU Model has no 8-bit floats."""
    raise context.refuse(_NO_FP8)


def _number(context: TranslationContext, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise context.refuse(f"ignoreIndex is {text!r}; expected an integer or 'None'.") from None

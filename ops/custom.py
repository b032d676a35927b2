"""Custom operators of published IPU scripts, whose meaning is known; their C++ needs no PopART."""

from __future__ import annotations

from paddle_ipu import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import custom_translator

_REDUCTIONS = ("Sum", "Mean", "NoReduction")


def _inputs(context: TranslationContext) -> list[str]:
    return [context.tensor(value) for value in context.node.inputs if value is not None]


@custom_translator("checkpointoutput")
def checkpointoutput(context: TranslationContext) -> str:
    """The tensor itself, which the backward pass recomputes from."""
    (checked,) = context.builder.checkpointOutput(_inputs(context)[:1])
    context.note(checked)
    return str(checked)


@custom_translator("detach")
def detach(context: TranslationContext) -> str:
    """The tensor itself; no gradient passes."""
    return str(context.graphcore.detach(_inputs(context)[:1]))


@custom_translator("identity")
def identity(context: TranslationContext) -> str:
    """The tensor itself."""
    return str(context.onnx.identity(_inputs(context)[:1]))


@custom_translator("tied_gather")
def tied_gather(context: TranslationContext) -> str:
    """Rows of a table by index; on hardware PopART lays the table out as its matmul wants it."""
    table, rows = _inputs(context)
    return str(context.onnx.gather([table, rows], 0))


@custom_translator("custom_nll_loss")
def custom_nll_loss(context: TranslationContext) -> str:
    """PopART's negative log likelihood of probabilities [..., C] and labels [...].

    ``reduction`` is 0 for the sum, 1 for the mean, 2 for none; ``ignoreIndex`` a label in decimal
    digits, or "None". The mean is over the labels that are not ignored.
    """
    probabilities, labels = _inputs(context)
    reduction = int(context.attr("reduction", 1))
    if not 0 <= reduction < len(_REDUCTIONS):
        raise context.refuse(f"reduction is {reduction}; expected 0 (sum), 1 (mean) or 2 (none).")
    ignored = str(context.attr("ignoreIndex", "None"))
    arguments = {} if ignored == "None" else {"ignoreIndex": _number(context, ignored)}
    loss = str(
        context.graphcore.nllloss(
            [probabilities, context.cast(labels, "int32")],
            reduction=context.reduction(_REDUCTIONS[reduction]),
            inputIsLogProbability=bool(context.attr("inputIsLogProbability", False)),
            **arguments,
        )
    )
    declared = dialect.dims_of(context.node.outputs[0])
    return loss if reduction == 2 else context.reshape(loss, [1] if declared == [1] else [])


def _number(context: TranslationContext, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise context.refuse(f"ignoreIndex is {text!r}; expected an integer or 'None'.") from None

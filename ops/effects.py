"""Translators of operators with an effect on the host: print and assert."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


@translator("assert", emits=("Not",), limits="the error names the line, not the tensors")
def assert_(context: TranslationContext) -> list[str]:
    """Aborts the run if the condition is false."""
    context.graphcore.abort([context.onnx.logical_not([context.input("cond")])])
    return []


@translator(
    "print", emits=("graphcore.PrintTensor",), limits="in every run, forward or in both directions"
)
def print_(context: TranslationContext) -> str:
    """The tensor itself, printed to standard error; with ``print_phase`` BOTH its gradient too."""
    if int(context.attr("first_n", -1)) > 0:
        raise context.refuse("first_n is not supported: it prints in every run; leave it out.")
    phase = str(context.attr("print_phase", "BOTH")).upper()
    if phase == "BACKWARD":
        raise context.refuse(
            "print_phase='backward' is not supported: PopART prints a tensor and its gradient; use "
            "'both'."
        )
    shown = int(context.attr("summarize", 20))
    return context.graphcore.printtensor(
        [context.input("in")],
        print_gradient=int(phase == "BOTH"),
        title=str(context.attr("message", "")),
        summariseThreshold=max(shown, 0) if shown >= 0 else 2**31 - 1,
    )

"""What PopART's own Python tests ask and `paddle_ipu.popart` does otherwise, with the reasons."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One thing that a test of PopART's asks.

    Attributes:
        asked: what the test looks for.
        here: what happens instead.
        why: the reason.
    """

    asked: str
    here: str
    why: str


DIFFERENCES = (
    Difference(
        "Poplar's log names the memory limit of a convolution's or matrix product's plan, and "
        "whether the convolution is dithered",
        "no such line; `setAvailableMemoryProportion`, `setEnableConvDithering` and the options of "
        "`multiconv` stay on the operator for hardware",
        "no Poplar plans anything here",
    ),
    Difference(
        "the log at TRACE says `No ConstExpr implementation of Relu`",
        "no such line",
        "PopART computes constants with functions of its own, of which some operators have none; "
        "XLA computes all of them",
    ),
    Difference(
        "`initializePoplarDebugInfo` writes a file with a context for each tensor of Poplar's",
        "the name raises `NotSupported`",
        "Poplar's tools read that file, and there are no tensors of Poplar's",
    ),
    Difference(
        "a session that draws random numbers changes those of another session on the same IPU",
        "each session has its own; `getRNGState` and `setRNGState` keep and restore them",
        "the sessions of hardware share the registers of the IPU, and results then depend on what "
        "else ran",
    ),
    Difference(
        "a sum of FLOAT and FLOAT16 can be built, as long as no session is made of it",
        "the builder raises `popart_exception`, in the words that PopART's session has",
        "the error then names the line that is wrong",
    ),
    Difference(
        "the gradient of overlapping `dynamicslice` with `noOverlap=True` counts what they share "
        "once",
        "it counts it as often as it is read",
        "PopART's test itself calls its numbers wrong",
    ),
    Difference(
        "a model whose weights lie beside it in a file cannot be read from another folder",
        "it can",
        "ONNX looks for the file beside the model, not in the current folder",
    ),
    Difference(
        "an inference session gives the bits of a training session's forward-only program",
        "they agree to the rounding of float32",
        "XLA fuses the operators of each program by itself, and with them orders its sums",
    ),
    Difference(
        "softplus, swish and erf agree with what NumPy computes in the test",
        "with NumPy 1 they do",
        "NumPy 2 gives these expressions other element types and roundings",
    ),
    Difference(
        "`scatterreduce` with a broadcast index agrees with `torch.scatter_reduce`",
        "it does where PyTorch itself is right",
        "PyTorch 2.13 reduces wrongly along an index that `expand` made",
    ),
)
"""What is asked, in the order of the page."""

"""The page of passes, made from both pipelines."""

from __future__ import annotations

import inspect

from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.pass_base import Compilation, OrderedPass
from paddle_ipu.passes.pipeline import PIPELINE
from paddle_ipu.xla.rewrites import pipeline as inference
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph

_INTRO = """\
# Passes

<!-- Made from passes/pipeline.py and paddle_ipu/xla/rewrites/pipeline.py:
python -m tools.generate_docs --write -->

Every program goes through these passes, in this order. A pass comes after those that ensure what
it requires: `in_order` of `passes/pass_base.py` checks that when a pipeline is built.
`PADDLE_IPU_DUMP=folder` writes the graph behind each pass, for Netron.

## Over the paddle dialect

| pass | file | what it does | requires | ensures |
| --- | --- | --- | --- | --- |"""

_INFERENCE = """\

## Over the PopART graph of an inference program

Only where no run changes weights. The first graph of the dump is `popart.onnx`; those that follow
are of the passes that changed something.

| pass | file | what it does | requires | ensures |
| --- | --- | --- | --- | --- |"""


def passes_page() -> str:
    """The page as Markdown."""
    lines = [_INTRO]
    lines += [_row(step) for step in (CheckMicroBatch(), *PIPELINE)]
    lines += [_INFERENCE]
    lines += [_row(step) for step in inference.PIPELINE]
    return "\n".join(lines) + "\n"


def _row(step: OrderedPass[Compilation] | OrderedPass[InferenceGraph]) -> str:
    """A pass's name, file, first line of its docstring, and facts."""
    kind = type(step)
    module = kind.__module__.removeprefix("paddle_ipu.").replace(".", "/")
    summary = (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "`")
    facts = [", ".join(step.requires), ", ".join(step.ensures)]
    return "| " + " | ".join([f"`{step.name}`", f"`{module}.py`", summary, *facts]) + " |"

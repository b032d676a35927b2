"""The page of passes, made from both pipelines."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.pass_base import OrderedPass, Pass
from paddle_ipu.passes.pipeline import PIPELINE
from paddle_ipu.xla.rewrites import pipeline as inference
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph

_INTRO = """\
# Passes

<!-- Made from passes/pipeline.py and paddle_ipu/xla/rewrites/pipeline.py:
python -m tools.generate_docs --write -->

Every program goes through these passes, in this order. `PADDLE_IPU_DUMP=folder` writes the graph
behind each of them, for Netron.

## Over the paddle dialect

| pass | file | what it does |
| --- | --- | --- |"""

_INFERENCE = """\

## Over the PopART graph of an inference program

Only where no run changes weights. The first graph of the dump is `popart.onnx`; those that follow
are of the passes that changed something. A pass stands behind others that ensure what it requires.

| pass | file | what it does | requires | ensures |
| --- | --- | --- | --- | --- |"""


def passes_page() -> str:
    """The page as Markdown."""
    lines = [_INTRO]
    lines += [_row(_cells(step)) for step in (CheckMicroBatch(), *PIPELINE)]
    lines += [_INFERENCE]
    lines += [
        _row([*_cells(step), ", ".join(step.requires), ", ".join(step.ensures)])
        for step in inference.PIPELINE
    ]
    return "\n".join(lines) + "\n"


def _cells(step: Pass | OrderedPass[InferenceGraph]) -> list[str]:
    """Name, file and the first sentence of what a pass says of itself."""
    kind = type(step)
    module = kind.__module__.removeprefix("paddle_ipu.").replace(".", "/")
    summary = (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "`")
    return [f"`{step.name}`", f"`{module}.py`", summary]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

"""The passes that every inference program goes through whose weights no run changes, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx_ir as ir

from paddle_ipu.passes.pass_base import OrderedPass, in_order, run_passes
from paddle_ipu.xla.rewrites.fused_attention import FuseAttention
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph
from paddle_ipu.xla.rewrites.joined_feeds import JoinFeeds
from paddle_ipu.xla.rewrites.replacement import copied
from paddle_ipu.xla.rewrites.slice_pushdown import PushSlices
from paddle_ipu.xla.rewrites.weight_passes import (
    FoldNorms,
    FuseProducts,
    TransposeKernels,
    WidenWeights,
)

PIPELINE: tuple[OrderedPass[InferenceGraph], ...] = in_order(
    PushSlices(),
    TransposeKernels(),
    FoldNorms(),
    FuseAttention(),
    FuseProducts(),
    WidenWeights(),
    JoinFeeds(),
)


def rewrite(
    program: InferenceGraph, report: Callable[[str, ir.Graph], None] | None = None
) -> InferenceGraph:
    """A program rewritten; the graph that it was made of stays as it is.

    Args:
        program: as a session has it.
        report: called with the name of each pass that changed something, and the graph.
    """
    rewritten = replace(program, graph=copied(program.graph))

    def behind(name: str, graph: ir.Graph, changed: bool) -> None:
        if changed and report is not None:
            report(name, graph)

    run_passes(PIPELINE, rewritten, behind)
    return rewritten

"""Translators of message passing on graphs, and of reductions over segments."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.scatter import scattered


def _reduced(context: TranslationContext, messages: str, target: str, kind: str, size: int) -> str:
    """Messages reduced at their target nodes: [size, ...], 0 for a node without messages.

    Args:
        context: of the node.
        messages: one for each edge, [E, ...].
        target: the target node of each edge [E].
        kind: SUM, MEAN, MAX or MIN.
        size: the number of nodes.
    """
    if kind != "MEAN":
        return scattered(context, messages, target, kind.capitalize(), 0, size)
    total = scattered(context, messages, target, "Sum", 0, size)
    ones = context.const(np.ones(context.shape(target)), context.dtype(messages))
    count = scattered(context, ones, target, "Sum", 0, size)
    count = context.onnx.max([count, context.const_like(1.0, count)])
    count = context.reshape(count, [size, *[1] * (context.rank(messages) - 1)])
    return context.onnx.div([total, count])


def _out_size(context: TranslationContext) -> int:
    """The number of target nodes: ``out_size``, or the number of rows of x."""
    size = context.ints("out_size")[0] if context.has("out_size") else 0
    return size if size > 0 else context.shape(context.input("x"))[0]


def _sent(context: TranslationContext, values: str, sources: str) -> str:
    """The row of each edge's source node."""
    sent = context.onnx.gather([values, sources], 0)
    context.check_range(sent, 1, "index", 0, context.shape(values)[0] - 1)
    return sent


def _combined(context: TranslationContext, x: str, y: str) -> str:
    """The sum or product of two sides of each message, broadcast behind the axis of edges."""
    rank = max(context.rank(x), context.rank(y))

    def aligned(side: str) -> str:
        edges, *rest = context.shape(side)
        return context.reshape(side, [edges, *[1] * (rank - 1 - len(rest)), *rest])

    method = context.onnx.add if context.attr("message_op") == "ADD" else context.onnx.mul
    return str(method([aligned(x), aligned(y)]))


@translator(
    "send_u_recv",
    emits=("Gather", "graphcore.ScatterReduce", "Max", "Reshape", "Div"),
    limits="out_size must be constant",
)
def send_u_recv(context: TranslationContext) -> list[str | None]:
    """Rows of source nodes reduced at the target node of each edge."""
    messages = _sent(context, context.input("x"), context.input("src_index"))
    kind = str(context.attr("reduce_op", "SUM"))
    return [
        _reduced(context, messages, context.input("dst_index"), kind, _out_size(context)),
        None,
    ]


@translator(
    "send_ue_recv",
    emits=("Gather", "Add", "Mul", "graphcore.ScatterReduce", "Max", "Reshape", "Div"),
    limits="out_size must be constant",
)
def send_ue_recv(context: TranslationContext) -> list[str | None]:
    """Rows of source nodes combined with those of edges, then reduced at the target nodes."""
    sent = _sent(context, context.input("x"), context.input("src_index"))
    messages = _combined(context, sent, context.input("y"))
    kind = str(context.attr("reduce_op", "SUM"))
    return [
        _reduced(context, messages, context.input("dst_index"), kind, _out_size(context)),
        None,
    ]


@translator("send_uv", emits=("Gather", "Add", "Mul"))
def send_uv(context: TranslationContext) -> str:
    """For each edge the sum or product of its source's and its target's row."""
    source = _sent(context, context.input("x"), context.input("src_index"))
    target = _sent(context, context.input("y"), context.input("dst_index"))
    return _combined(context, source, target)


@translator(
    "segment_pool",
    emits=("graphcore.ScatterReduce", "Max", "Reshape", "Div"),
    limits="the segment ids must be constant: the last one is the result's length",
)
def segment_pool(context: TranslationContext) -> list[str | None]:
    """Rows reduced by segment; ``segment_ids`` are sorted, the last one gives the length."""
    if not context.is_constant("segment_ids"):
        raise context.refuse(
            "the segment ids must be constants of the program: the last one says how long the "
            "result is. Use paddle.geometric.send_u_recv with out_size."
        )
    size = int(context.static("segment_ids").max()) + 1
    ids, kind = context.input("segment_ids"), str(context.attr("pooltype", "SUM"))
    return [_reduced(context, context.input("x"), ids, kind, size), None]

"""Messages along the edges of a graph, and sums over segments."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.scatter import scattered


def _reduced(context: TranslationContext, messages: str, target: str, kind: str, size: int) -> str:
    """The sum, mean, maximum or minimum of the messages to each of `size` nodes, 0 without any."""
    if kind != "MEAN":
        return scattered(context, messages, target, kind.capitalize(), 0, size)
    total = scattered(context, messages, target, "Sum", 0, size)
    ones = context.const(np.ones(context.shape(target)), context.dtype(messages))
    count = scattered(context, ones, target, "Sum", 0, size)
    count = context.onnx.max([count, context.const_like(1.0, count)])
    count = context.reshape(count, [size, *[1] * (context.rank(messages) - 1)])
    return context.onnx.div([total, count])


def _out_size(context: TranslationContext) -> int:
    size = context.ints("out_size")[0] if context.has("out_size") else 0
    return size if size > 0 else context.shape(context.input("x"))[0]


def _sent(context: TranslationContext, values: str, sources: str) -> str:
    sent = context.onnx.gather([values, sources], 0)
    context.takes(sent, 1, "index", 0, context.shape(values)[0] - 1)
    return sent


def _combined(context: TranslationContext, x: str, y: str) -> str:
    """The two sides of a message, the one with fewer axes given leading ones behind the edges."""
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
    """Source nodes' rows reduced at the target node of each edge."""
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
    """Source nodes' rows with those of the edges, reduced at the target nodes."""
    sent = _sent(context, context.input("x"), context.input("src_index"))
    messages = _combined(context, sent, context.input("y"))
    kind = str(context.attr("reduce_op", "SUM"))
    return [
        _reduced(context, messages, context.input("dst_index"), kind, _out_size(context)),
        None,
    ]


@translator("send_uv", emits=("Gather", "Add", "Mul"))
def send_uv(context: TranslationContext) -> str:
    """A row for each edge, of its source node's and its target node's."""
    source = _sent(context, context.input("x"), context.input("src_index"))
    target = _sent(context, context.input("y"), context.input("dst_index"))
    return _combined(context, source, target)


@translator(
    "segment_pool",
    emits=("graphcore.ScatterReduce", "Max", "Reshape", "Div"),
    limits="the segment ids must be constant: the last one is the result's length",
)
def segment_pool(context: TranslationContext) -> list[str | None]:
    """The sum, mean, maximum or minimum of the rows of each segment."""
    if not context.is_constant("segment_ids"):
        raise context.refuse(
            "the segment ids must be constants of the program: the last one says how long the "
            "result is. Use paddle.geometric.send_u_recv with out_size."
        )
    size = int(context.static("segment_ids").max()) + 1
    ids, kind = context.input("segment_ids"), str(context.attr("pooltype", "SUM"))
    return [_reduced(context, context.input("x"), ids, kind, size), None]

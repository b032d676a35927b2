"""Translators of operators of ranking and matching models."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _parts(context: TranslationContext) -> list[str]:
    """Columns ``start_index`` to ``start_index + length`` of each tensor [N, D]."""
    parts = []
    for x in context.inputs("x"):
        width = context.shape(x)[1]
        start = int(context.attr("start_index", 0)) % width
        length = int(context.attr("length", -1))
        end = width if length < 0 else min(start + length, width)
        parts.append(context.slice(x, 1, start, end))
    return parts


@translator("partial_concat", emits=("Slice", "Concat"))
def partial_concat(context: TranslationContext) -> str:
    """The same columns of several tensors [N, D], concatenated."""
    return context.onnx.concat(_parts(context), 1)


@translator("partial_sum", emits=("Slice", "Sum"))
def partial_sum(context: TranslationContext) -> str:
    """The sum of the same columns of several tensors [N, D]."""
    return context.onnx.sum(_parts(context))


@translator("lookup_table_dequant", emits=("paddle_ipu.DequantGather", "Equal", "Where"))
def lookup_table_dequant(context: TranslationContext) -> str:
    """Rows of a table of bytes, dequantised, for ids [..., 1].

    A row begins with its least and largest number; a byte b is ``(largest - least) / 256 * b +
    least``. The row of ``padding_idx`` is 0.
    """
    ids = context.input("ids")
    rows = context.extension("DequantGather", [context.input("w"), ids])[0]
    padding = int(context.attr("padding_idx", -1))
    if padding == -1:
        return rows
    hit = context.onnx.equal([ids, context.const_like(padding, ids)])
    return context.onnx.where([hit, context.const_like(0.0, rows), rows])


@translator(
    "bipartite_match", emits=("paddle_ipu.BipartiteMatch", "Unsqueeze"), limits="without LoD"
)
def bipartite_match(context: TranslationContext) -> list[str]:
    """For each column of distances [R, C] its matched row, -1 for none, and the distance: [1, C].

    Greedy: the largest distance is matched first, then the largest among the remaining rows and
    columns. With ``per_prediction`` the remaining columns get their best row above
    ``dist_threshold``.
    """
    attributes = {
        "per_prediction": int(str(context.attr("match_type", "bipartite")) == "per_prediction"),
        "dist_threshold": float(context.attr("dist_threshold", 0.5)),
    }
    distances = context.input("dist_mat")
    if 0 in context.shape(distances):
        raise context.refuse(f"distances {context.shape(distances)} have nothing to match.")
    results = context.extension("BipartiteMatch", [distances], attributes, 2)
    return [context.onnx.unsqueeze([result], [0]) for result in results]

"""Translators of metrics."""

from __future__ import annotations

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


@translator("accuracy", emits=("Equal", "Cast", "ReduceMax", "ReduceSum", "Mul"))
def accuracy(context: TranslationContext) -> list[str]:
    """The share of rows of ``indices`` [N, k] that contain the label, their number, and N."""
    indices = context.input("indices")
    shapes = [context.shape(context.input(name)) for name in ("x", "indices", "label")]
    if shapes[0] != shapes[1] or shapes[2] != [shapes[0][0], 1]:
        raise context.refuse(
            f"x is {shapes[0]}, indices {shapes[1]} and label {shapes[2]}, expected [N, k], "
            "[N, k] and [N, 1]: Paddle's kernel reads beyond smaller ones."
        )
    label = context.cast(context.input("label"), context.dtype(indices))
    equal = context.onnx.equal([indices, label])
    context.check_range(equal, 1, "label", 0)
    # A row counts once, however often it has the label.
    hits = context.onnx.reducemax([context.cast(equal, "int32")], [1], 0)
    rows = context.shape(indices)[0]
    correct = context.onnx.reducesum([hits], [0], 0)
    share = context.cast(correct, "float32")
    share = context.onnx.mul([share, context.const_like(1.0 / rows, share)])
    # PIR programs declare both numbers as float32.
    for count in (1, 2):
        written_as(context, count, "int32")
    return [share, correct, context.const(np.asarray(rows), "int32")]


@translator(
    "auc",
    emits=("paddle_ipu.Auc", "Slice", "Reshape"),
    limits="the ROC curve; ins_tag_weight must be a constant other than zero",
)
def auc(context: TranslationContext) -> list[str]:
    """The area under the ROC curve, and the histograms of positives and negatives so far.

    ``num_thresholds`` is the number of buckets; with ``slide_steps`` the area is over that many
    last steps.
    """
    if str(context.attr("curve", "ROC")) != "ROC":
        raise context.refuse(f"curve {context.attr('curve')!r} is not supported; only 'ROC' is.")
    if context.has("ins_tag_weight") and not context.static("ins_tag_weight").all():
        raise context.refuse("an ins_tag_weight of zero is not supported; leave it out.")
    for index, dtype in enumerate(("float64", "int64", "int64")):
        written_as(context, index, dtype)
    x = context.input("x")
    if context.rank(x) != 2:
        raise context.refuse(
            f"x is {context.shape(x)}, expected [N, 2] or [N, 1]: the probabilities of N rows."
        )
    rows, width = context.shape(x)
    chance = x if width == 1 else context.slice(x, 1, width - 1, width)
    label = context.reshape(context.input("label"), [rows])
    counts = [context.input(name) for name in ("stat_pos", "stat_neg")]
    attributes = {
        "num_thresholds": int(context.attr("num_thresholds", 4095)),
        "slide_steps": int(context.attr("slide_steps", 1)),
    }
    inputs = [context.reshape(chance, [rows]), label, *counts]
    area, *after = context.extension("Auc", inputs, attributes, 3)
    return [context.reshape(area, dialect.dims_of(context.node.outputs[0])), *after]

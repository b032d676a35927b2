"""Losses over many classes: hierarchical sigmoid and softmax with margins."""

from __future__ import annotations

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import Array, TranslationContext
from paddle_ipu.ops.loss import negative_log_likelihood
from paddle_ipu.ops.registry import translator


def _paths(num_classes: int) -> tuple[Array, Array]:
    """The path of each class in the default tree, a complete binary heap.

    Class c is leaf ``c + num_classes``. The j-th inner node from the leaf is that number shifted
    right by ``j + 1``, less 1; the decision there is its bit j (Paddle's ``SimpleCode``).

    Returns:
        Inner nodes [num_classes, depth], -1 past the end of a path, and decisions of that shape.
    """
    leaves = np.arange(num_classes, 2 * num_classes)
    depth = int(num_classes - 1).bit_length()
    steps = np.arange(depth)
    nodes = (leaves[:, None] >> (steps + 1)) - 1
    return nodes.astype(np.int32), ((leaves[:, None] >> steps) & 1).astype(np.int32)


@translator(
    "hsigmoid_loss",
    emits=("Cast", "Reshape", "Gather", "Mul", "ReduceSum", "Add", "Max", "Less", "Where", "Clip",
           "Softplus", "Sub", "graphcore.Detach"),
    limits="its inner results cannot be read",
)  # fmt: skip
def hsigmoid_loss(context: TranslationContext) -> list[str | None]:
    """Hierarchical sigmoid: the summed cross entropy of the decisions on a class's path, [N, 1].

    Without a ``path`` the tree is the default one over ``num_classes``. A given ``path`` [N, L]
    lists nodes, negative past its end, and ``code`` [N, L] the decisions. Logits are clipped to
    [-40, 40]; as in Paddle's kernel the gradient ignores the clip, and a step past the end counts
    as a logit of zero, which adds log(2).
    """
    x, weight = context.input("x"), context.input("w")
    if not context.rank(x) == context.rank(weight) == 2:
        raise context.refuse(
            f"x is {context.shape(x)} and w {context.shape(weight)}, expected [N, D] and "
            "[nodes, D]."
        )
    (rows, width), (nodes_held, row_width) = context.shape(x), context.shape(weight)
    if row_width != width:
        raise context.refuse(
            f"w has rows of {row_width} numbers, and x of {width}; give both the same."
        )
    if context.has("path"):
        nodes = context.index(context.input("path"))
        bits = context.index(context.input("code"))
    else:
        classes = int(context.attr("num_classes"))
        if nodes_held < classes - 1:
            raise context.refuse(
                f"w has {nodes_held} rows; a tree of num_classes = {classes} has "
                f"{classes - 1} nodes, each with a row."
            )
        dialect.check_constant(context.node, [classes, classes.bit_length()])
        table, decisions = _paths(classes)
        label = context.reshape(context.index(context.input("label")), [rows])
        nodes = context.onnx.gather([context.const(table), label], 0)
        context.check_range(nodes, 1, "label", 0, classes - 1)
        bits = context.onnx.gather([context.const(decisions), label], 0)
    zero = context.const_like(0.0, x)
    past = context.onnx.less([nodes, context.const(0, "int32")])
    nodes = context.onnx.max([nodes, context.const(0, "int32")])
    wide = context.reshape(x, [rows, 1, width])
    picked = context.onnx.gather([weight, nodes], 0)
    logits = context.onnx.reducesum([context.onnx.mul([picked, wide])], [2], 0)
    if context.has("bias"):
        bias = context.reshape(context.input("bias"), [-1])
        logits = context.onnx.add([logits, context.onnx.gather([bias, nodes], 0)])
    logits = context.onnx.where([past, zero, logits])
    bounds = context.const_like(-40.0, x), context.const_like(40.0, x)
    detached = context.graphcore.detach([logits])
    clipped = context.onnx.clip([detached, *bounds])
    logits = context.onnx.add([clipped, context.onnx.sub([logits, detached])])
    scores = context.onnx.mul([context.cast(bits, context.dtype(x)), logits])
    scores = context.onnx.where([past, zero, scores])
    loss = context.onnx.sub([context.onnx.softplus([logits]), scores])
    total = context.onnx.reducesum([loss], [1], 1)
    return [total, None, None]


@translator(
    "margin_cross_entropy",
    emits=("Cast", "Reshape", "OneHot", "Mul", "ReduceSum", "Acos", "Add", "Cos", "Sub", "Where",
           "LogSoftmax", "Softmax", "graphcore.Nll", "graphcore.Detach"),
    limits="one rank",
)  # fmt: skip
def margin_cross_entropy(context: TranslationContext) -> list[str | None]:
    """Cross entropy of cosines [N, C] with margins on the label's (arXiv:1801.07698).

    The label's cosine becomes ``cos(margin1 * acos(x) + margin2) - margin3``; then all cosines are
    multiplied by ``scale``. Results: the softmax [N, C] and the loss [N, 1].
    """
    if int(context.attr("nranks", 1)) != 1:
        raise context.refuse("classes over several ranks are not supported; use nranks=1.")
    x = context.input("logits")
    rows, classes = context.shape(x)
    label = context.reshape(context.index(context.input("label")), [rows])
    margins = [float(context.attr(name, default)) for name, default in _MARGINS]
    one_hot = context.onnx.onehot(
        [label, context.const(classes, "int32"), context.const([0, 1], "int32")], -1
    )
    context.check_range(one_hot, 0, "label", 0, classes - 1)
    hit = context.cast(one_hot, "bool")
    chosen = context.onnx.where([hit, x, context.const_like(0.0, x)])
    cosine = context.onnx.reducesum([chosen], [1], 1)
    if margins[:2] != [1.0, 0.0]:
        angle = context.onnx.mul([context.onnx.acos([cosine]), context.const_like(margins[0], x)])
        cosine = context.onnx.cos([context.onnx.add([angle, context.const_like(margins[1], x)])])
    cosine = context.onnx.sub([cosine, context.const_like(margins[2], x)])
    logits = context.onnx.where([hit, cosine, x])
    scale = context.const_like(float(context.attr("scale", 64.0)), x)
    logits = context.onnx.mul([logits, scale])
    logs = context.onnx.logsoftmax([logits], 1)
    loss = negative_log_likelihood(context, logs, label, None)
    softmax = None
    if context.is_used(0):
        softmax = context.onnx.softmax([context.graphcore.detach([logits])], 1)
    return [softmax, context.reshape(loss, [rows, 1])]


_MARGINS = (("margin1", 1.0), ("margin2", 0.5), ("margin3", 0.0))

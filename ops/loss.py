"""Translators of losses."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator

REDUCTIONS = {0: "Sum", 1: "Mean", 2: "NoReduction"}
"""Paddle's reduction codes and the names of PopART's reductions."""


@translator(
    "cross_entropy_with_softmax",
    emits=("LogSoftmax", "Log", "Softmax", "graphcore.Detach", "graphcore.Nll", "Mul", "ReduceSum",
           "Neg", "Reshape", "Transpose", "Cast", "ReduceLogSumExp", "Sub", "Add", "Max"),
    limits="a logit more than 64 below the largest counts as it is; Paddle's CPU kernel takes it "
    "for 64 below",
)  # fmt: skip
def cross_entropy_with_softmax(context: TranslationContext) -> list[str | None]:
    """``-log(softmax(input)[label])`` along ``axis``; 0 where the label is ``ignore_index``.

    Expressed as LogSoftmax and PopART's Nll; soft labels give ``-sum(label *
    log(softmax(input)))``. Results are the softmax and the loss, which keeps the axis with size 1.
    As in Paddle no gradient flows to soft labels, nor back through the softmax.
    """
    logits, label = context.input("input"), context.input("label")
    axis = int(context.attr("axis", -1)) % context.rank(logits)
    moved = context.axis_last(logits, axis)
    last = context.rank(moved) - 1
    takes_logits = bool(context.attr("use_softmax", 1))
    logs = context.onnx.logsoftmax([moved], last) if takes_logits else context.onnx.log([moved])
    loss_shape = context.shape(logits)
    loss_shape[axis] = 1
    if context.attr("soft_label", 0):
        weights = context.axis_last(context.graphcore.detach([label]), axis)
        # As in Paddle's kernel, so that a label of 0 makes 0 of the logarithm of 0.
        lowest = -6e4 if context.dtype(logs) == "float16" else -1e20
        finite = context.onnx.max([logs, context.const_like(lowest, logs)])
        products = context.onnx.mul([weights, finite])
        loss = context.onnx.neg([context.onnx.reducesum([products], [last], 0)])
        if takes_logits:
            loss = _with_gradient_of_paddle(context, loss, weights, moved)
    else:
        classes = context.index(label)
        classes = context.reshape(classes, context.shape(moved)[:-1])
        loss = negative_log_likelihood(context, logs, classes, int(context.attr("ignore_index")))
    softmax = None
    if context.is_used(0):
        if takes_logits:
            # As in Paddle, no gradient comes back through the softmax result.
            softmax = context.onnx.softmax([context.graphcore.detach([moved])], last)
            softmax = context.last_axis_back(softmax, axis)
        else:
            softmax = context.graphcore.detach([logits])
    return [softmax, context.reshape(loss, loss_shape)]


def _with_gradient_of_paddle(
    context: TranslationContext, loss: str, weights: str, logits: str
) -> str:
    """A loss of soft labels with the derivative of Paddle's kernel, ``softmax(logits) - weights``.

    That of ``-sum(weights * log(softmax(logits)))`` is ``sum(weights) * softmax(logits) -
    weights``: another one where labels do not sum to 1. What is added is 0, and its derivative is
    the difference.

    Args:
        context: of the node.
        loss: [...].
        weights: soft labels [..., C].
        logits: [..., C].
    """
    last = context.rank(logits) - 1
    total = context.onnx.reducesum([weights], [last], 0)
    rest = context.onnx.sub([context.const_like(1.0, total), total])
    size = context.onnx.reducelogsumexp([logits], [last], 0)
    change = context.onnx.sub([size, context.graphcore.detach([size])])
    return context.onnx.add([loss, context.onnx.mul([rest, change])])


def negative_log_likelihood(
    context: TranslationContext, logs: str, classes: str, ignore_index: int | None
) -> str:
    """``-logs[class]``, without reduction.

    Args:
        context: of the node.
        logs: log probabilities [..., C].
        classes: class indices [...].
        ignore_index: the class whose loss is 0, None for none.
    """
    reduction = context.reduction("NoReduction")
    return context.graphcore.nllloss([logs, classes], reduction, ignore_index, True)


@translator("identity_loss", emits=("graphcore.IdentityLoss",))
def identity_loss(context: TranslationContext) -> str:
    """The tensor as the loss: 0 sums it, 1 averages it, 2 keeps it."""
    reduction = context.reduction(REDUCTIONS[int(context.attr("reduction", 1))])
    return context.graphcore.identityloss([context.input("x")], reduction)


def _reduced(context: TranslationContext, loss: str, kind: str) -> str:
    """``loss`` reduced by name: none, sum, mean, or batchmean (the sum over the batch size)."""
    axes = list(range(context.rank(loss)))
    if kind == "none" or not axes:
        return loss
    if kind == "mean":
        return context.onnx.reducemean([loss], axes, 0)
    total = context.onnx.reducesum([loss], axes, 0)
    if kind == "batchmean":
        rows = context.const_like(1.0 / context.shape(loss)[0], total)
        return context.onnx.mul([total, rows])
    return total


@translator(
    "nll_loss",
    emits=("graphcore.Nll", "graphcore.Detach", "Gather", "Where", "Cast", "Equal", "Not", "Mul",
           "Div", "ReduceSum", "Transpose"),
)  # fmt: skip
def nll_loss(context: TranslationContext) -> list[str]:
    """``-weight[label] * input[label]``, and the sum of the weights of labels that are not ignored.

    ``mean`` divides by that sum, and is 0 where all are ignored. Classes are axis 1.
    """
    logs = context.axis_last(context.input("input"), 1)
    label = context.index(context.input("label"))
    ignored = int(context.attr("ignore_index", -100))
    loss = negative_log_likelihood(context, logs, label, ignored)
    is_ignored = context.onnx.equal([label, context.const(ignored, "int32")])
    counted = context.cast(context.onnx.logical_not([is_ignored]), context.dtype(loss))
    if context.has("weight"):
        weight = context.graphcore.detach([context.input("weight")])
        # An ignored label may be no valid index; its loss is zero whatever the weight.
        row = context.onnx.where([is_ignored, context.const_like(0, label), label])
        weights = context.onnx.gather([weight, row], 0)
        loss = context.onnx.mul([loss, weights])
        counted = context.onnx.mul([counted, weights])
    kind = str(context.attr("reduction", "mean"))
    axes = list(range(context.rank(loss)))
    if kind == "none":
        return [loss, context.const_like(0.0, loss)]
    total = context.onnx.reducesum([counted], axes, 0)
    loss = context.onnx.reducesum([loss], axes, 0)
    if kind == "mean":
        is_none = context.onnx.equal([total, context.const_like(0.0, total)])
        divisor = context.onnx.where([is_none, context.const_like(1.0, total), total])
        loss = context.onnx.div([loss, divisor])
    return [loss, total]


@translator("label_smooth", emits=("Mul", "Add", "graphcore.Detach"))
def label_smooth(context: TranslationContext) -> str:
    """``(1 - epsilon) * label + epsilon * prior``, by default uniform (arXiv:1512.00567)."""
    label = context.input("label")
    if not context.rank(label):
        raise context.refuse("a label has to have an axis of classes, its last.")
    epsilon = float(context.attr("epsilon", 0.0))
    if context.has("prior_dist"):
        prior = context.graphcore.detach([context.input("prior_dist")])
        if product(context.shape(prior)) != context.shape(label)[-1]:
            raise context.refuse(
                f"prior_dist is {context.shape(prior)}, for {context.shape(label)[-1]} classes; "
                "give it a number for each."
            )
        prior = context.onnx.mul([prior, context.const_like(epsilon, label)])
    else:
        prior = context.const_like(epsilon / max(context.shape(label)[-1], 1), label)
    kept = context.onnx.mul([label, context.const_like(1.0 - epsilon, label)])
    return context.onnx.add([kept, prior])


@translator("huber_loss", emits=("Sub", "Greater", "Neg", "Where", "Less", "Mul"))
def huber_loss(context: TranslationContext) -> list[str]:
    """``r ** 2 / 2`` where ``|r| <= delta``, else ``delta * (|r| - delta / 2)``; and r.

    The residual r is ``label - input``.
    """
    x, label = context.input("input"), context.input("label")
    delta = float(context.attr("delta", 1.0))
    residual, zero = context.onnx.sub([label, x]), context.const_like(0.0, x)
    is_positive = context.onnx.greater([residual, zero])
    size = context.onnx.where([is_positive, residual, context.onnx.neg([residual])])
    is_near = context.onnx.less([size, context.const_like(delta, x)])
    # Without residuals that are far away, whose squares have no finite slope.
    small = context.onnx.where([is_near, residual, zero])
    near = context.onnx.mul([context.const_like(0.5, x), context.onnx.mul([small, small])])
    less = context.onnx.sub([size, context.const_like(0.5 * delta, x)])
    far = context.onnx.mul([context.const_like(delta, x), less])
    return [context.onnx.where([is_near, near, far]), residual]


@translator("bce_loss", emits=("Log", "Sub", "Mul", "Max", "Add", "Neg", "Div", "graphcore.Detach"))
def bce_loss(context: TranslationContext) -> str:
    """``-label * log(x) - (1 - label) * log(1 - x)``, logarithms not below -100.

    The derivative is written out as ``(x - label) / max(x * (1 - x), 1e-12)``, as in Paddle's
    kernel: that of the logarithms is infinite at 0 and 1. No gradient flows to the label.
    """
    x = context.input("input")
    label = context.graphcore.detach([context.input("label")])
    detached = context.graphcore.detach([x])
    one, lowest = context.const_like(1.0, x), context.const_like(-100.0, x)
    rest = context.onnx.sub([one, detached])
    hit = context.onnx.max([context.onnx.log([detached]), lowest])
    miss = context.onnx.max([context.onnx.log([rest]), lowest])
    miss = context.onnx.mul([context.onnx.sub([one, label]), miss])
    loss = context.onnx.neg([context.onnx.add([context.onnx.mul([label, hit]), miss])])
    # 1e-12 underflows to 0 in half.
    least = 2.0**-15 if context.dtype(x) == "float16" else 1e-12
    spread = context.onnx.max([context.onnx.mul([detached, rest]), context.const_like(least, x)])
    slope = context.onnx.div([context.onnx.sub([detached, label]), spread])
    # Zero in value; its derivative is the slope.
    step = context.onnx.mul([context.onnx.sub([x, detached]), slope])
    return context.onnx.add([loss, step])


@translator(
    "sigmoid_cross_entropy_with_logits",
    emits=("Relu", "Max", "Mul", "Sub", "Less", "Neg", "Exp", "graphcore.Log1p", "Add", "Equal",
           "Not", "Where", "Softplus", "Cast", "ReduceSum", "Div", "graphcore.Detach"),
)  # fmt: skip
def sigmoid_cross_entropy_with_logits(context: TranslationContext) -> str:
    """``max(x, 0) - x * label + log(1 + exp(-|x|))``; 0 where the label is ``ignore_index``.

    With ``pos_weight`` it is ``(1 - label) * x + pos_weight * log(1 + exp(-x))``. ``normalize``
    divides by the number of labels that are not ignored. A gradient flows to ``x`` only.
    """
    x = context.input("x")
    label = context.graphcore.detach([context.input("label")])
    zero, one = context.const_like(0.0, x), context.const_like(1.0, x)
    if context.has("pos_weight"):
        miss = context.onnx.mul([context.onnx.sub([one, label]), x])
        soft = context.onnx.softplus([context.onnx.neg([x])])
        weight = context.graphcore.detach([context.input("pos_weight")])
        loss = context.onnx.add([miss, context.onnx.mul([weight, soft])])
    else:
        linear = context.onnx.sub([context.onnx.relu([x]), context.onnx.mul([x, label])])
        # Here Paddle's derivative of |x| at 0 is 1; that of Abs is 0.
        negative = context.onnx.less([x, zero])
        size = context.onnx.where([negative, context.onnx.neg([x]), x])
        decay = context.onnx.exp([context.onnx.neg([size])])
        loss = context.onnx.add([linear, context.graphcore.log1p([decay])])
    # Paddle's kernel cuts a label's fraction off before it compares, but not where it counts.
    index = int(context.attr("ignore_index", -100))
    whole = context.cast(label, "int32")
    is_left_out = context.onnx.equal([whole, context.const_like(index, whole)])
    loss = context.onnx.where([is_left_out, zero, loss])
    if not context.attr("normalize", 0):
        return loss
    is_ignored = context.onnx.equal([label, context.const_like(float(index), label)])
    counted = context.cast(context.onnx.logical_not([is_ignored]), context.dtype(x))
    total = context.onnx.reducesum([counted], list(range(context.rank(x))), 0)
    return context.onnx.div([loss, context.onnx.max([total, context.const_like(1e-6, x)])])


@translator(
    "kldiv_loss",
    emits=("Log", "Sub", "Mul", "Less", "Equal", "Or", "Where", "Exp", "ReduceMean", "ReduceSum",
           "graphcore.Detach"),
)  # fmt: skip
def kldiv_loss(context: TranslationContext) -> str:
    """``label * (log(label) - x)``, 0 where the label is 0 or less.

    With ``log_target`` it is ``exp(label) * (label - x)``. No gradient flows to the label.
    """
    x = context.input("x")
    label = context.graphcore.detach([context.input("label")])
    if context.attr("log_target", 0):
        loss = context.onnx.mul([context.onnx.exp([label]), context.onnx.sub([label, x])])
    else:
        zero = context.const_like(0.0, x)
        loss = context.onnx.mul([label, context.onnx.sub([context.onnx.log([label]), x])])
        # NaN is neither, and the loss of it is NaN.
        is_none = context.onnx.logical_or(
            [context.onnx.less([label, zero]), context.onnx.equal([label, zero])]
        )
        loss = context.onnx.where([is_none, zero, loss])
    return _reduced(context, loss, str(context.attr("reduction", "mean")))


@translator("log_loss", emits=("Add", "Sub", "Log", "Mul", "Neg", "graphcore.Detach"))
def log_loss(context: TranslationContext) -> str:
    """``-label * log(x + epsilon) - (1 - label) * log(1 - x + epsilon)``.

    No gradient flows to the label.
    """
    x = context.input("input")
    label = context.graphcore.detach([context.input("label")])
    one, epsilon = context.const_like(1.0, x), context.const_like(context.attr("epsilon"), x)
    hit = context.onnx.log([context.onnx.add([x, epsilon])])
    rest = context.onnx.add([context.onnx.sub([one, x]), epsilon])
    miss = context.onnx.mul([context.onnx.sub([one, label]), context.onnx.log([rest])])
    hit = context.onnx.mul([context.onnx.neg([label]), hit])
    return context.onnx.sub([hit, miss])


@translator("hinge_loss", emits=("Mul", "Sub", "Relu", "IsNaN", "Where", "graphcore.Detach"))
def hinge_loss(context: TranslationContext) -> str:
    """``max(0, 1 - logits * (2 * label - 1))`` for labels 0 and 1; no gradient flows to them."""
    x = context.input("logits")
    label = context.graphcore.detach([context.input("labels")])
    one = context.const_like(1.0, x)
    sign = context.onnx.sub([context.onnx.mul([label, context.const_like(2.0, x)]), one])
    margin = context.onnx.sub([one, context.onnx.mul([x, sign])])
    # Relu alone would give 0 for NaN, as Paddle's relu does.
    unknown = context.onnx.isnan([margin])
    no_number = context.graphcore.detach([margin])
    return context.onnx.where([unknown, no_number, context.onnx.relu([margin])])

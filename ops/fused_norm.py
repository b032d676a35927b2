"""Translators of fused normalisations: RMS, residuals, biases, embeddings, activations."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.fused_activation import activate
from paddle_ipu.ops.image_layout import channels_back, channels_first, is_channels_last
from paddle_ipu.ops.norm import group_normalized, layer_normalized
from paddle_ipu.ops.registry import translator


def refuse_results(context: TranslationContext, *names: str, first: int = 1) -> None:
    """Refuses a node of which results for a kernel's own backward are read.

    Args:
        context: of the node.
        *names: names of the results from index `first` on, for the message.
        first: index of the first of them.

    Raises:
        NotSupported: one of them is used.
    """
    for at, name in enumerate(names, start=first):
        if at < len(context.node.outputs) and context.is_used(at):
            raise context.refuse(f"its result {name} cannot be read; compute it apart.")


def total(context: TranslationContext, terms: Sequence[str | None]) -> str:
    """The sum of the terms that are not None; at least one is not."""
    present = [term for term in terms if term is not None]
    result = present[0]
    for term in present[1:]:
        result = context.onnx.add([result, term])
    return result


def rms_normal(
    context: TranslationContext, x: str, axis: int, scale: str | None, epsilon: float
) -> str:
    """``x / sqrt(mean(x * x) + epsilon) * scale`` (arXiv:1910.07467).

    Args:
        context: of the node.
        x: the tensor.
        axis: the mean is over the axes from this one on.
        scale: of the shape of those axes; None for ones.
        epsilon: added to the mean.
    """
    rank = context.rank(x)
    axes = list(range(axis % rank, rank))
    mean = context.onnx.reducemean([context.onnx.mul([x, x])], axes, 1)
    root = context.onnx.sqrt([context.onnx.add([mean, context.const_like(epsilon, x)])])
    normal = context.onnx.div([x, root])
    if scale is None:
        return normal
    scale = context.reshape(scale, context.shape(x)[axis % rank :])
    return context.onnx.mul([normal, scale])


@translator(
    "rms_norm",
    emits=("Mul", "ReduceMean", "Add", "Sqrt", "Div"),
    limits="its invvar cannot be read",
)
def rms_norm(context: TranslationContext) -> Sequence[str | None]:
    """RMS normalisation over the trailing axes that ``normalized_shape`` counts."""
    refuse_results(context, "invvar")
    axis = context.rank(context.input("x")) - len(context.attr("normalized_shape"))
    epsilon = float(context.attr("epsilon", 1e-5))
    return [rms_normal(context, context.input("x"), axis, context.optional("scale"), epsilon), None]


@translator(
    "fused_rms_norm_ext",
    "fast_rms_norm",
    emits=("Mul", "ReduceMean", "Add", "Sqrt", "Div"),
    limits="its invvar cannot be read",
)
def fused_rms_norm_ext(context: TranslationContext) -> Sequence[str | None]:
    """RMS normalisation over the last axis."""
    refuse_results(context, "invvar")
    x, epsilon = context.input("x"), float(context.attr("epsilon", 1e-5))
    return [rms_normal(context, x, -1, context.input("scale"), epsilon), None]


def _with_residual(context: TranslationContext, alpha: float = 1.0) -> str:
    """``x + bias + alpha * residual``; bias and residual may be omitted."""
    if float(context.attr("quant_scale", -1.0)) > 0:
        raise context.refuse("quantised results are not supported; give quant_scale -1.")
    residual = context.optional("residual")
    if residual is not None and alpha != 1.0:
        residual = context.onnx.mul([residual, context.const_like(alpha, residual)])
    return total(context, [context.input("x"), context.optional("bias"), residual])


@translator(
    "fused_rms_norm_quant",
    emits=("Mul", "ReduceMean", "Add", "Sqrt", "Div", "Reshape"),
    limits="no quantised results; its inv_var cannot be read",
)
def fused_rms_norm_quant(context: TranslationContext) -> Sequence[str | None]:
    """RMS normalisation of ``x + bias + residual``; the second result is that sum."""
    refuse_results(context, "inv_var", first=2)
    x = _with_residual(context)
    axis, epsilon = int(context.attr("begin_norm_axis", 1)), float(context.attr("epsilon", 1e-5))
    normal = rms_normal(context, x, axis, context.input("norm_weight"), epsilon)
    shift = context.optional("norm_bias")
    return [total(context, [normal, shift]), x, None]


@translator(
    "fast_ln",
    emits=("graphcore.GroupNormalization", "Reshape"),
    limits="its mean and invvar cannot be read",
)
def fast_ln(context: TranslationContext) -> Sequence[str | None]:
    """Layer normalisation over the last axis."""
    refuse_results(context, "mean", "invvar")
    epsilon = float(context.attr("epsilon", 1e-5))
    x, scale, bias = (context.input(name) for name in ("x", "scale", "bias"))
    return [layer_normalized(context, x, -1, scale, bias, epsilon), None, None]


@translator(
    "fused_bias_residual_layernorm",
    emits=("graphcore.GroupNormalization", "Reshape", "Add", "Mul"),
    limits="no quantised results; its mean and variance cannot be read",
)
def fused_bias_residual_layernorm(context: TranslationContext) -> Sequence[str | None]:
    """Layer normalisation of ``x + bias + residual_alpha * residual``, and that sum."""
    refuse_results(context, "mean", "variance", first=2)
    x = _with_residual(context, float(context.attr("residual_alpha", 1.0)))
    scale, shift = context.optional("norm_weight"), context.optional("norm_bias")
    if scale is None and shift is None:
        # Without both, Paddle's kernel only adds.
        return [x, x, None, None]
    axis, epsilon = int(context.attr("begin_norm_axis", 1)), float(context.attr("epsilon", 1e-5))
    return [layer_normalized(context, x, axis, scale, shift, epsilon), x, None, None]


@translator(
    "fused_bias_dropout_residual_layer_norm",
    emits=("graphcore.GroupNormalization", "Reshape", "Add", "Mul", "Dropout"),
    limits="its mask, mean and variance cannot be read; a fixed seed is not used",
)
def fused_bias_dropout_residual_layer_norm(context: TranslationContext) -> Sequence[str | None]:
    """Layer normalisation of ``residual + dropout(x + bias)``, and that sum."""
    refuse_results(context, "dropout_mask_out", "ln_mean", "ln_variance", first=2)
    x = drop(
        context,
        total(context, [context.input("x"), context.optional("bias")]),
        float(context.attr("dropout_rate", 0.5)),
        str(context.attr("dropout_implementation", "downgrade_in_infer")),
    )
    x = total(context, [x, context.input("residual")])
    scale, shift = context.optional("ln_scale"), context.optional("ln_bias")
    epsilon = float(context.attr("ln_epsilon", 1e-5))
    return [layer_normalized(context, x, -1, scale, shift, epsilon), x, None, None, None]


def drop(context: TranslationContext, x: str, p: float, mode: str) -> str:
    """Dropout as Paddle's operator `dropout` does it.

    Args:
        context: of the node; its ``is_test`` turns dropout off.
        x: the tensor.
        p: the probability of zeroing an element.
        mode: ``upscale_in_train`` divides by ``1 - p`` in training; ``downgrade_in_infer``
            multiplies by ``1 - p`` in inference.
    """
    upscale = mode == "upscale_in_train"
    if context.attr("is_test", 0):
        if upscale or p == 0.0:
            return x
        return context.onnx.mul([x, context.const_like(1.0 - p, x)])
    if p >= 1.0:
        return context.onnx.mul([x, context.const_like(0.0, x)])
    if p == 0.0:
        return x
    dropped = context.onnx.dropout([x], 1, p)[0]
    if upscale:
        return dropped
    return context.onnx.mul([dropped, context.const_like(1.0 - p, x)])


@translator("skip_layernorm", emits=("graphcore.GroupNormalization", "Reshape", "Add"))
def skip_layernorm(context: TranslationContext) -> str:
    """Layer normalisation of ``x + y`` over the axes from ``begin_norm_axis`` on."""
    x = total(context, [context.input("x"), context.input("y")])
    axis, epsilon = int(context.attr("begin_norm_axis", 1)), float(context.attr("epsilon", 1e-5))
    scale, bias = context.input("scale"), context.input("bias")
    return layer_normalized(context, x, axis, scale, bias, epsilon)


@translator(
    "fused_embedding_eltwise_layernorm",
    emits=("graphcore.GroupNormalization", "Reshape", "Add", "Gather"),
)
def fused_embedding_eltwise_layernorm(context: TranslationContext) -> str:
    """Layer normalisation of a sum of embeddings, by ids [B, S] or [B, S, 1]."""
    embeddings: list[str | None] = []
    for ids, table in zip(context.inputs("ids"), context.inputs("embs"), strict=True):
        shape = context.shape(ids)
        if len(shape) > 2:
            ids = context.reshape(ids, shape[:2])
        embeddings.append(context.onnx.gather([table, ids], 0))
    epsilon = float(context.attr("epsilon", 1e-5))
    scale, bias = context.input("scale"), context.input("bias")
    return layer_normalized(context, total(context, embeddings), -1, scale, bias, epsilon)


@translator(
    "fused_fc_elementwise_layernorm",
    emits=("graphcore.GroupNormalization", "Reshape", "Add", "MatMul", "Relu"),
    limits="its mean and variance cannot be read",
)
def fused_fc_elementwise_layernorm(context: TranslationContext) -> Sequence[str | None]:
    """Layer normalisation of ``activation(x @ w + bias0) + y``."""
    refuse_results(context, "mean", "variance")
    x, w, y = (context.input(name) for name in "xwy")
    columns, shape = int(context.attr("x_num_col_dims", 1)), context.shape(x)
    flat = context.reshape(x, [product(shape[:columns]), product(shape[columns:])])
    linear = total(context, [context.onnx.matmul([flat, w]), context.optional("bias0")])
    linear = activate(context, linear, str(context.attr("activation_type", "")))
    summed = total(context, [context.reshape(linear, context.shape(y)), y])
    axis, epsilon = int(context.attr("begin_norm_axis", 1)), float(context.attr("epsilon", 1e-5))
    scale, bias = context.optional("scale"), context.optional("bias1")
    return [layer_normalized(context, summed, axis, scale, bias, epsilon), None, None]


@translator(
    "add_group_norm_silu",
    emits=("graphcore.GroupNormalization", "graphcore.Swish", "Add", "Transpose"),
    limits="its mean and variance cannot be read",
)
def add_group_norm_silu(context: TranslationContext) -> Sequence[str | None]:
    """Group normalisation of ``x + residual`` with an activation; the second result is that sum."""
    refuse_results(context, "mean", "variance", first=2)
    x = total(context, [context.input("x"), context.optional("residual")])
    last = is_channels_last(context)
    image = channels_first(context, x, last)
    normal = group_normalized(context, image, int(context.attr("groups", -1)))
    out = activate(context, normal, str(context.attr("activation", "")))
    return [channels_back(context, out, last), x, None, None]

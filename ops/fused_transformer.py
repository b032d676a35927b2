"""Translators of the two halves of a transformer layer, each a single fused operator in Paddle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paddle_ipu.ops.attention import attend, heads_first, unpacked
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.fused_activation import activate
from paddle_ipu.ops.fused_norm import drop, total
from paddle_ipu.ops.norm import layer_normalized
from paddle_ipu.ops.registry import translator


def _refuse_several_devices(context: TranslationContext) -> None:
    ring = int(context.attr("ring_id", -1))
    if ring != -1:
        raise context.refuse(
            f"its weights are split over several devices (ring_id {ring}); build the layer whole, "
            "with ring_id -1."
        )


def _refuse_results(context: TranslationContext, kept: int) -> None:
    """Refuses a node of which other results than `kept` are read."""
    for at, value in enumerate(context.node.outputs):
        if at != kept and context.is_used(at):
            raise context.refuse(f"its result {value.name} cannot be read; compute it apart.")


def _normal(context: TranslationContext, x: str, name: str, number: str, epsilon: str) -> str:
    scale, bias = (context.optional(f"{name}_{part}{number}") for part in ("scale", "bias"))
    return layer_normalized(context, x, -1, scale, bias, float(context.attr(epsilon, 1e-5)))


def _dropped(context: TranslationContext, x: str, rate: str, implementation: str) -> str:
    mode = str(context.attr(implementation, "upscale_in_train"))
    return drop(context, x, float(context.attr(rate, 0.5)), mode)


@translator(
    "fused_feedforward",
    emits=("MatMul", "Add", "Mul", "Dropout", "Reshape", "Relu", "graphcore.GeluErf",
           "graphcore.GroupNormalization"),
    limits="only the output can be read; one device; a fixed seed is not used",
)  # fmt: skip
def fused_feedforward(context: TranslationContext) -> Sequence[str | None]:
    """``x + dropout2(dropout1(activation(x @ w1 + b1)) @ w2 + b2)``.

    Layer normalisation is applied to the input with ``pre_layer_norm``, else to the sum.
    """
    _refuse_several_devices(context)
    _refuse_results(context, 0)
    x = context.input("x")
    before = bool(context.attr("pre_layer_norm", 0))
    hidden = _normal(context, x, "ln1", "", "ln1_epsilon") if before else x
    for number in "12":
        weight = context.input(f"linear{number}_weight")
        product = context.onnx.matmul([hidden, weight])
        hidden = total(context, [product, context.optional(f"linear{number}_bias")])
        if number == "1":
            hidden = activate(context, hidden, str(context.attr("act_method", "gelu")))
        hidden = _dropped(
            context, hidden, f"dropout{number}_prob", f"dropout{number}_implementation"
        )
    if context.attr("add_residual", 1):
        hidden = total(context, [x, hidden])
    if not before:
        hidden = _normal(context, hidden, "ln2", "", "ln2_epsilon")
    return [hidden, *[None] * (len(context.node.outputs) - 1)]


@translator(
    "fused_attention",
    emits=("MatMul", "Transpose", "Add", "Mul", "Dropout", "Reshape", "Softmax", "Split", "Where",
           "graphcore.GroupNormalization"),
    limits="only the output can be read; no cache; one device; a fixed seed is not used",
)  # fmt: skip
def fused_attention(context: TranslationContext) -> Sequence[str | None]:
    """``x + dropout(attention(x) @ w + b)`` for x [B, S, E].

    ``qkv_weight`` is [3, H, D, E], or [E, 3 * E] with ``transpose_qkv_wb``. Layer normalisation is
    applied to the input with ``pre_layer_norm``, else to the sum.
    """
    _refuse_several_devices(context)
    last = len(context.node.outputs) - 1
    _refuse_results(context, last)
    if context.has("cache_kv"):
        raise context.refuse("cache_kv is not supported; attend over the whole sequence.")
    x, weight = context.input("x"), context.input("qkv_weight")
    batch, steps, width = context.shape(x)
    before = bool(context.attr("pre_layer_norm", 0))
    hidden = _normal(context, x, "ln", "", "epsilon") if before else x
    if context.attr("transpose_qkv_wb", 0):
        heads = int(context.attr("num_heads", 0))
        depth = context.shape(weight)[1] // 3 // heads
    else:
        _, heads, depth, _ = context.shape(weight)
        weight = context.swap_last_axes(context.reshape(weight, [3 * heads * depth, width]))
    qkv = context.onnx.matmul([hidden, weight])
    bias = context.optional("qkv_bias")
    if bias is not None:
        qkv = total(context, [qkv, context.reshape(bias, [3 * heads * depth])])
    q, k, v = unpacked(context, context.reshape(qkv, [batch, steps, 3, heads, depth]))
    rate = float(context.attr("attn_dropout_rate", 0.5))
    out = attend(
        context,
        *(heads_first(context, tensor) for tensor in (q, k, v)),
        scale=1 / math.sqrt(depth),
        mask=context.optional("src_mask"),
        dropout=0.0 if context.attr("is_test", 0) else rate,
    )
    if str(context.attr("attn_dropout_implementation", "upscale_in_train")) != "upscale_in_train":
        # In training this undoes the factor of `attend`; in inference the mode scales by 1 - rate.
        out = context.onnx.mul([out, context.const_like(1.0 - rate, out)])
    out = context.reshape(heads_first(context, out), [batch, steps, heads * depth])
    out = context.onnx.matmul([out, context.input("out_linear_weight")])
    out = total(context, [out, context.optional("out_linear_bias")])
    out = _dropped(context, out, "dropout_rate", "dropout_implementation")
    if context.attr("add_residual", 1):
        out = total(context, [x, out])
    if not before:
        out = _normal(context, out, "ln", "_2", "ln_epsilon")
    return [*[None] * last, out]

"""Attention written out as matrix products and softmax, whatever fused kernel Paddle names.

``softmax(scale * q @ k^T + mask) @ v``, with dropout of the weights (arXiv:1706.03762). k and v
may have fewer heads than q by a whole factor G: each then serves G heads of q (grouped queries,
arXiv:2305.13245).
"""

from __future__ import annotations

import math

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator

_MASKED = -1e30
"""Added to a score that is masked: its weight becomes exactly 0."""


def attend(
    context: TranslationContext,
    q: str,
    k: str,
    v: str,
    *,
    scale: float | None = None,
    mask: str | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    counts: str | None = None,
    heads_last: bool = False,
) -> str:
    """Scaled dot-product attention.

    Args:
        context: of the node.
        q: queries [B, H, S, D].
        k: keys [B, H / G, T, D].
        v: values [B, H / G, T, E].
        scale: factor of the scores, ``1 / sqrt(D)`` by default.
        mask: added to the scores, broadcast to [B, H, S, T]; or booleans, True for a score that
            counts.
        causal: query s sees keys up to s only; S and T must be equal.
        dropout: probability of zeroing a weight; the others are divided by ``1 - dropout``.
        counts: booleans, True for a score that counts. Unlike with `mask`, a query that sees no
            key gives 0 and not a mean of all values.
        heads_last: q, k, v and the result have the layout [B, S, H, D].

    Returns:
        The result [B, H, S, E].

    Raises:
        NotSupported: the heads of k do not divide those of q, or `causal` with S other than T.
    """
    onnx = context.onnx
    if heads_last:
        q, k, v = (heads_first(context, tensor) for tensor in (q, k, v))
    batch, heads, rows, depth = context.shape(q)
    groups, columns = context.shape(k)[1:3]
    if heads % groups:
        raise context.refuse(f"{heads} heads of queries cannot share {groups} heads of keys.")
    shared = heads // groups
    if shared > 1:
        q = context.reshape(q, [batch, groups, shared, rows, depth])
        k = context.reshape(k, [batch, groups, 1, columns, depth])
        v = context.reshape(v, [batch, groups, 1, columns, context.shape(v)[-1]])
    rank = context.rank(k)
    scores = onnx.matmul([q, context.swap_last_axes(k)])
    factor = 1 / math.sqrt(depth) if scale is None else scale
    if factor != 1.0:
        scores = onnx.mul([scores, context.const_like(factor, q)])
    for hidden in (mask, counts):
        if hidden is not None:
            added = _added(context, hidden, context.dtype(q))
            if shared > 1:
                added = _for_groups(context, added, groups, shared)
            scores = onnx.add([scores, added])
    if causal:
        if rows != columns:
            raise context.refuse(
                f"causal attention of {rows} queries to {columns} keys is not supported: kernels "
                "differ in which keys the first query sees. Give a mask instead."
            )
        seen = np.where(np.tri(rows, dtype=bool), 0.0, _MASKED)
        scores = onnx.add([scores, context.const(seen, context.dtype(q))])
    weights = onnx.softmax([scores], rank - 1)
    if counts is not None:
        ones = context.cast(counts, context.dtype(q))
        if shared > 1:
            ones = _for_groups(context, ones, groups, shared)
        weights = onnx.mul([weights, ones])
    if dropout >= 1.0:
        weights = onnx.mul([weights, context.const_like(0.0, q)])
    elif dropout > 0.0:
        weights = onnx.dropout([weights], 1, dropout)[0]
    out = context.reshape(onnx.matmul([weights, v]), [batch, heads, rows, context.shape(v)[-1]])
    return heads_first(context, out) if heads_last else out


def _added(context: TranslationContext, mask: str, dtype: str) -> str:
    """A mask in the form that is added to the scores."""
    if context.dtype(mask) != "bool":
        return context.cast(mask, dtype)
    zero, none = context.const(np.asarray(0.0), dtype), context.const(np.asarray(_MASKED), dtype)
    return context.onnx.where([mask, zero, none])


def _for_groups(context: TranslationContext, mask: str, groups: int, shared: int) -> str:
    """A mask [..., H or 1, S, T] reshaped for scores [B, H / G, G, S, T]."""
    shape = context.shape(mask)
    if len(shape) < 3:
        return mask
    heads = shape[-3]
    split = [1, 1] if heads == 1 else [groups, shared]
    return context.reshape(mask, [*shape[:-3], *split, *shape[-2:]])


def heads_first(context: TranslationContext, x: str) -> str:
    """[B, S, H, D] transposed to [B, H, S, D], or back."""
    return context.onnx.transpose([x], [0, 2, 1, 3])


def dropout_rate(context: TranslationContext, name: str = "dropout") -> float:
    """Attribute `name` of the node in training, 0 in inference."""
    return 0.0 if context.attr("is_test", 0) else float(context.attr(name, 0.0))


def _flash(context: TranslationContext, q: str, k: str, v: str) -> list[str]:
    """Attention of [B, S, H, D] by the attributes of a flash_attn."""
    mask, causal = context.optional("attn_mask"), bool(context.attr("causal", 0))
    dropout = dropout_rate(context)
    return [attend(context, q, k, v, mask=mask, causal=causal, dropout=dropout, heads_last=True)]


def refuse_statistics(context: TranslationContext, *names: str) -> None:
    """Refuses a node whose results after the first are read.

    A fused kernel writes them for its own backward pass only.

    Args:
        context: of the node.
        *names: names of the results 1, 2, ... for the message.

    Raises:
        NotSupported: one of them is used.
    """
    for at, name in enumerate(names, start=1):
        if at < len(context.node.outputs) and context.is_used(at):
            raise context.refuse(f"its result {name} cannot be read: it belongs to GPU kernels.")


KERNEL_RESULTS = ("softmax", "softmax_lse", "seed_offset")
"""Results of the flash_attn family behind the output."""


@translator(
    "flash_attn",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Where", "Dropout"),
    limits="only the output can be read; causal needs as many keys as queries",
)
def flash_attn(context: TranslationContext) -> list[str]:
    """Attention of q, k, v [B, S, H, D]; the result is [B, S, H, D]."""
    refuse_statistics(context, *KERNEL_RESULTS)
    return _flash(context, *(context.input(name) for name in "qkv"))


def unpacked(context: TranslationContext, qkv: str) -> list[str]:
    """Packed queries, keys and values [..., 3, H, D] as three tensors [..., H, D].

    Raises:
        NotSupported: the axis is not 3, as with grouped queries: kernels differ in which heads of q
            share a head of k.
    """
    *outer, parts, heads, depth = context.shape(qkv)
    if parts != 3:
        raise context.refuse(
            f"queries, keys and values need the same heads, got shape {context.shape(qkv)}; give "
            "q, k and v apart."
        )
    split = context.onnx.split([qkv], 3, len(outer), [1, 1, 1])
    return [context.reshape(tensor, [*outer, heads, depth]) for tensor in split]


@translator(
    "flash_attn_qkvpacked",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Split", "Dropout"),
    limits="only the output can be read; k and v must have as many heads as q",
)
def flash_attn_qkvpacked(context: TranslationContext) -> list[str]:
    """`flash_attn` of packed qkv [B, S, 3, H, D]; the result is [B, S, H, D]."""
    refuse_statistics(context, *KERNEL_RESULTS)
    return _flash(context, *unpacked(context, context.input("qkv")))


@translator(
    "memory_efficient_attention",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Dropout"),
    limits="only the output can be read; sequences of one length; causal needs as many keys as "
    "queries",
)
def memory_efficient_attention(context: TranslationContext) -> list[str]:
    """Attention of query, key, value [B, S, H, D] with an additive bias [B, H, S, T].

    A ``scale`` below zero stands for ``1 / sqrt(D)``.
    """
    refuse_statistics(context, "logsumexp", "seed_and_offset")
    for name in ("cu_seqlens_q", "cu_seqlens_k", "causal_diagonal", "seqlen_k"):
        if context.has(name):
            raise context.refuse(f"{name} is not supported; give a bias that masks instead.")
    scale = float(context.attr("scale", -1.0))
    out = attend(
        context,
        *(context.input(name) for name in ("query", "key", "value")),
        scale=None if scale < 0 else scale,
        mask=context.optional("bias"),
        causal=bool(context.attr("causal", 0)),
        dropout=dropout_rate(context, "dropout_p"),
        heads_last=True,
    )
    return [out]


@translator(
    "fused_dot_product_attention",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Dropout"),
    limits="only the output can be read; sequences of one length; masks none and causal",
)
def fused_dot_product_attention(context: TranslationContext) -> list[str]:
    """cuDNN's attention of q, k, v [B, S, H, D] with a bias added to the scaled scores."""
    refuse_statistics(context, "softmax_out", "rng_state")
    kind = str(context.attr("mask_type_str", "none"))
    if kind not in ("none", "causal") or context.has("cu_seqlen_q"):
        raise context.refuse(f"mask type {kind!r} by lengths is not supported; give a bias.")
    bias = context.optional("bias")
    if bias is not None and str(context.attr("bias_type_str", "none")) != "post_scale_bias":
        raise context.refuse("a bias is supported as 'post_scale_bias' only.")
    p = float(context.attr("dropout_probability", 0.0)) if context.attr("is_training", 0) else 0.0
    out = attend(
        context,
        *(context.input(name) for name in "qkv"),
        scale=float(context.attr("scaling_factor", 1.0)),
        mask=bias,
        causal=kind == "causal",
        dropout=p,
        heads_last=True,
    )
    return [out]


@translator(
    "self_dp_attention", emits=("MatMul", "Transpose", "Mul", "Softmax", "Reshape", "Split")
)
def self_dp_attention(context: TranslationContext) -> str:
    """Attention of packed x [B, S, 3, H, D] with scores times ``alpha``; [B, S, H, D]."""
    q, k, v = unpacked(context, context.input("x"))
    return attend(context, q, k, v, scale=float(context.attr("alpha", 1.0)), heads_last=True)


@translator(
    "multihead_matmul", emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Split")
)
def multihead_matmul(context: TranslationContext) -> str:
    """An attention layer with its input projections, as Paddle's fusion passes write it.

    ``input`` is [B, S, N], ``w`` [N, 3, H, D] and ``bias`` [3, H, D], for queries, keys and values.
    Scores are multiplied by ``alpha``, then ``bias_qk`` is added. The result is [B, S, H * D].
    """
    for name, value in (("transpose_q", False), ("transpose_k", True), ("transpose_v", False)):
        if bool(context.attr(name, value)) != value:
            raise context.refuse(f"{name} is {not value}; expected {value}, the attention layer's.")
    x, w = context.input("input"), context.input("w")
    batch, steps, width = context.shape(x)
    total = math.prod(context.shape(w)) // width
    heads = int(context.attr("head_number", 1))
    depth = total // 3 // heads
    qkv = context.onnx.matmul([x, context.reshape(w, [width, total])])
    qkv = context.onnx.add([qkv, context.reshape(context.input("bias"), [total])])
    q, k, v = unpacked(context, context.reshape(qkv, [batch, steps, 3, heads, depth]))
    scale, mask = float(context.attr("alpha", 1.0)), context.optional("bias_qk")
    out = attend(context, q, k, v, scale=scale, mask=mask, heads_last=True)
    return context.reshape(out, [batch, steps, heads * depth])


@translator("fused_softmax_mask", emits=("Add", "Softmax"))
def fused_softmax_mask(context: TranslationContext) -> str:
    """``softmax(x + mask)`` over the last axis of x [B, H, S, T]."""
    total = context.onnx.add([context.input("x"), context.input("mask")])
    return context.onnx.softmax([total], 3)


@translator("fused_softmax_mask_upper_triangle", emits=("Add", "Softmax"))
def fused_softmax_mask_upper_triangle(context: TranslationContext) -> str:
    """Causal softmax of x [B, H, S, S]: row s is over its elements up to s."""
    x = context.input("X")
    rows, columns = context.shape(x)[-2:]
    seen = np.where(np.tri(rows, columns, dtype=bool), 0.0, _MASKED)
    total = context.onnx.add([x, context.const(seen, context.dtype(x))])
    return context.onnx.softmax([total], 3)

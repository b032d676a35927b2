"""Attention, as mathematics: whatever kernel a program names, the device has products and softmax.

``softmax(scale * q @ k^T + mask) @ v`` with dropout of the weights. Heads of k and v may be fewer
than those of q by a factor: each serves several heads of q.
"""

from __future__ import annotations

import math

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator

_MASKED = -1e30
"""Added to a score that does not count: its weight becomes exactly 0."""


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
    """q [B, H, S, D], k [B, H / G, T, D] and v [B, H / G, T, E] -> [B, H, S, E].

    Args:
        context: of the node.
        q: queries.
        k: keys.
        v: values.
        scale: of the scores, ``1 / sqrt(D)`` by default.
        mask: added to the scores [B, H, S, T], or truth values that say which count.
        causal: position s sees positions up to s only.
        dropout: probability with which a weight is left out; the others are scaled up.
        counts: instead of a mask, truth values; where a query sees no key at all it gives 0.
        heads_last: q, k, v and the result are [B, S, H, D].
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
    """A mask of truth values as one that is added."""
    if context.dtype(mask) != "bool":
        return context.cast(mask, dtype)
    zero, none = context.const(np.asarray(0.0), dtype), context.const(np.asarray(_MASKED), dtype)
    return context.onnx.where([mask, zero, none])


def _for_groups(context: TranslationContext, mask: str, groups: int, shared: int) -> str:
    """A mask [..., H or 1, S, T] against scores [B, groups, shared, S, T]."""
    shape = context.shape(mask)
    if len(shape) < 3:
        return mask
    heads = shape[-3]
    split = [1, 1] if heads == 1 else [groups, shared]
    return context.reshape(mask, [*shape[:-3], *split, *shape[-2:]])


def heads_first(context: TranslationContext, x: str) -> str:
    """[B, S, H, D] as [B, H, S, D], or back."""
    return context.onnx.transpose([x], [0, 2, 1, 3])


def dropout_rate(context: TranslationContext, name: str = "dropout") -> float:
    """The node's attribute `name` in training, else 0."""
    return 0.0 if context.attr("is_test", 0) else float(context.attr(name, 0.0))


def _flash(context: TranslationContext, q: str, k: str, v: str) -> list[str]:
    """Attention of [B, S, H, D] by the attributes of a flash_attn."""
    mask, causal = context.optional("attn_mask"), bool(context.attr("causal", 0))
    dropout = dropout_rate(context)
    return [attend(context, q, k, v, mask=mask, causal=causal, dropout=dropout, heads_last=True)]


def refuse_statistics(context: TranslationContext, *names: str) -> None:
    """Refuses to give what only a kernel's own backward reads."""
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
    """q, k, v [B, S, H, D] -> [B, S, H, D]."""
    refuse_statistics(context, *KERNEL_RESULTS)
    return _flash(context, *(context.input(name) for name in "qkv"))


def unpacked(context: TranslationContext, qkv: str) -> list[str]:
    """[..., 3, H, D] -> q, k and v [..., H, D].

    Raises:
        NotSupported: queries have more heads than keys: which share one, kernels do not agree.
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
    """qkv [B, S, 3, H, D] -> [B, S, H, D]."""
    refuse_statistics(context, *KERNEL_RESULTS)
    return _flash(context, *unpacked(context, context.input("qkv")))


@translator(
    "memory_efficient_attention",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Dropout"),
    limits="only the output can be read; sequences of one length; causal needs as many keys as "
    "queries",
)
def memory_efficient_attention(context: TranslationContext) -> list[str]:
    """query, key, value [B, S, H, D] and a bias [B, H, S, T] -> [B, S, H, D]."""
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
    """q, k, v [B, S, H, D] and a bias added to the scores -> [B, S, H, D]."""
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
    """x [B, S, 3, H, D], queries, keys and values -> [B, S, H, D], scores times `alpha`."""
    q, k, v = unpacked(context, context.input("x"))
    return attend(context, q, k, v, scale=float(context.attr("alpha", 1.0)), heads_last=True)


@translator(
    "multihead_matmul", emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Split")
)
def multihead_matmul(context: TranslationContext) -> str:
    """The attention layer that Paddle's passes find: projections of x [B, S, N] included.

    Weights [N, 3, H, D] and biases [3, H, D] of queries, keys and values; `bias_qk` is added to
    the scores, which are scaled by `alpha`; out is [B, S, H * D].
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
    """``softmax(x + mask)`` of x [B, H, S, T] along its last axis."""
    total = context.onnx.add([context.input("x"), context.input("mask")])
    return context.onnx.softmax([total], 3)


@translator("fused_softmax_mask_upper_triangle", emits=("Add", "Softmax"))
def fused_softmax_mask_upper_triangle(context: TranslationContext) -> str:
    """Softmax of x [B, H, S, S] along its last axis, where row s has elements up to s only."""
    x = context.input("X")
    rows, columns = context.shape(x)[-2:]
    seen = np.where(np.tri(rows, columns, dtype=bool), 0.0, _MASKED)
    total = context.onnx.add([x, context.const(seen, context.dtype(x))])
    return context.onnx.softmax([total], 3)

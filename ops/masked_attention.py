"""Attention with masks given by numbers: lengths of sequences, ranges of rows, sparse columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.attention import (
    KERNEL_RESULTS,
    attend,
    dropout_rate,
    heads_first,
    refuse_statistics,
    unpacked,
)
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _sequence_of(context: TranslationContext, ends: str, tokens: int) -> str:
    """The index of each token's sequence, as floats [tokens].

    Args:
        context: of the node.
        ends: cumulative lengths [sequences + 1], 0 first.
        tokens: how many tokens.
    """
    count = context.shape(ends)[0]
    bounds = context.slice(ends, 0, 1, count)
    places = context.const(np.arange(tokens, dtype=np.int32)[:, None], context.dtype(ends))
    inside = context.onnx.less([places, context.reshape(bounds, [1, count - 1])])
    past = context.cast(context.onnx.logical_not([inside]), "float32")
    return context.onnx.reducesum([past], [1], 0)


def _of_sequences(context: TranslationContext, q: str, k: str, v: str) -> str:
    """Attention within each sequence of packed q, k, v [tokens, H, D]: [tokens, H, D]."""
    if context.has("attn_mask"):
        raise context.refuse("attn_mask is not supported; pad the sequences and use flash_attn.")
    names = ("cu_seqlens_q", "cu_seqlens_k")
    causal = bool(context.attr("causal", 0))
    if causal and context.values(names[0]) != context.values(names[1]):
        raise context.refuse(
            "causal attention needs one tensor as cu_seqlens_q and cu_seqlens_k: for sequences "
            "of different lengths kernels differ in what the first query sees."
        )
    tokens, keys = context.shape(q)[0], context.shape(k)[0]
    of_q = _sequence_of(context, context.input(names[0]), tokens)
    of_k = _sequence_of(context, context.input(names[1]), keys)
    same = context.onnx.equal(
        [context.reshape(of_q, [1, 1, tokens, 1]), context.reshape(of_k, [1, 1, 1, keys])]
    )
    first, second, third = (
        heads_first(context, context.reshape(x, [1, *context.shape(x)])) for x in (q, k, v)
    )
    out = attend(
        context,
        first,
        second,
        third,
        scale=float(context.attr("scale")),
        counts=same,
        causal=causal,
        dropout=dropout_rate(context),
    )
    return context.reshape(heads_first(context, out), context.shape(q))


_OF_SEQUENCES = (
    "MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Where", "Slice", "Less", "Not",
    "Cast", "ReduceSum", "Equal",
)  # fmt: skip


@translator(
    "flash_attn_unpadded",
    emits=(*_OF_SEQUENCES, "Dropout"),
    limits="only the output can be read; no mask; causal for sequences of the same lengths",
)
def flash_attn_unpadded(context: TranslationContext) -> Sequence[str | None]:
    """Attention of packed sequences [tokens, H, D], which ``cu_seqlens`` separates.

    Expressed as attention over all tokens, where a score counts if both are of one sequence.
    """
    refuse_statistics(context, *KERNEL_RESULTS)
    return [_of_sequences(context, *(context.input(name) for name in "qkv"))]


@translator(
    "flash_attn_varlen_qkvpacked",
    emits=(*_OF_SEQUENCES, "Split"),
    limits="only the output can be read; no mask; tokens without padding",
)
def flash_attn_varlen_qkvpacked(context: TranslationContext) -> Sequence[str | None]:
    """`flash_attn_unpadded` of packed qkv [tokens, 3, H, D]."""
    refuse_statistics(context, *KERNEL_RESULTS)
    if context.attr("varlen_padded", 1):
        raise context.refuse("padded sequences are not supported; give varlen_padded=False.")
    return [_of_sequences(context, *unpacked(context, context.input("qkv")))]


@translator(
    "variable_length_memory_efficient_attention",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Where", "Less", "Reshape", "Cast"),
    limits="no cache before the sequence",
)
def variable_length_memory_efficient_attention(context: TranslationContext) -> str:
    """Attention of query [B, H, S, D] to key and value [B, H / G, T, D].

    The first ``kv_seq_lens`` [B] keys count. Results for queries past ``seq_lens`` are not defined:
    Paddle's kernel leaves them unwritten.
    """
    if int(context.attr("pre_cache_length", 0)):
        raise context.refuse("pre_cache_length must be 0; put the cache into key and value.")
    query, key, value = (context.input(name) for name in ("query", "key", "value"))
    batch, keys = context.shape(key)[0], context.shape(key)[2]
    lengths = context.reshape(context.input("kv_seq_lens"), [batch, 1, 1, 1])
    places = np.arange(keys, dtype=np.int32).reshape(1, 1, 1, keys)
    counts = context.onnx.less([context.const(places, context.dtype(lengths)), lengths])
    return attend(
        context,
        query,
        key,
        value,
        scale=float(context.attr("scale")),
        mask=context.optional("mask"),
        causal=bool(context.attr("causal", 0)),
        counts=counts,
    )


@translator(
    "flashmask_attention",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Reshape", "Where", "Split", "Less",
           "Not", "And", "Or", "Cast", "Dropout"),
    limits="only the output can be read",
)  # fmt: skip
def flashmask_attention(context: TranslationContext) -> Sequence[str | None]:
    """Attention of [B, S, H, D] with masked ranges of queries for each key (arXiv:2410.01359).

    ``startend_row_indices`` [B, H or 1, T, n] has the bounds of the masked queries for each key.
    Causal, below the diagonal: from the first on, with n = 2 up to the second. Not causal: with n =
    2 from the first on and up to the second; with n = 4 from the first up to the second and from
    the third up to the fourth.
    """
    refuse_statistics(context, *KERNEL_RESULTS)
    onnx, causal = context.onnx, bool(context.attr("causal", 0))
    q, k, v = (heads_first(context, context.input(name)) for name in "qkv")
    indices = context.input("startend_row_indices")
    batch, heads, keys, count = context.shape(indices)
    if count not in ((1, 2) if causal else (2, 4)):
        raise context.refuse(
            f"startend_row_indices must have {'1 or 2' if causal else '2 or 4'} bounds for each "
            f"key, got shape {context.shape(indices)}."
        )
    parts = [indices] if count == 1 else onnx.split([indices], count, 3, [1] * count)
    bounds = [context.reshape(part, [batch, heads, 1, keys]) for part in parts]
    rows = np.arange(context.shape(q)[2], dtype=np.int32).reshape(1, 1, -1, 1)
    places = context.const(rows, context.dtype(indices))
    before = [onnx.less([places, bound]) for bound in bounds]
    if causal:
        seen = before[0] if count == 1 else _outside(context, before[0], before[1])
    elif count == 2:
        seen = onnx.logical_and([before[0], onnx.logical_not([before[1]])])
    else:
        outside = [_outside(context, *before[at : at + 2]) for at in (0, 2)]
        seen = onnx.logical_and(outside)
    dropout = dropout_rate(context)
    out = attend(context, q, k, v, causal=causal, counts=seen, dropout=dropout)
    return [heads_first(context, out)]


def _outside(context: TranslationContext, before_start: str, before_end: str) -> str:
    """Whether a row is not in a range [start, end)."""
    return context.onnx.logical_or([before_start, context.onnx.logical_not([before_end])])


@translator(
    "flash_attn_v3",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax"),
    limits="only the output can be read; no windows, cap of scores, or factors",
)
def flash_attn_v3(context: TranslationContext) -> Sequence[str | None]:
    """Attention of q, k, v [B, S, H, D]."""
    refuse_statistics(context, "softmax_lse")
    for name in ("q_v_", "q_descale_", "k_descale_", "v_descale_"):
        if context.has(name):
            raise context.refuse(f"{name} is not supported.")
    windows = [int(context.attr(f"window_size_{side}", -1)) for side in ("left", "right")]
    if windows != [-1, -1] or float(context.attr("softcap", 0.0)):
        raise context.refuse(
            f"windows and softcap are not supported, got {windows} and {context.attr('softcap')}."
        )
    q, k, v = (context.input(name) for name in "qkv")
    scale, causal = float(context.attr("softmax_scale")), bool(context.attr("is_causal", 0))
    return [attend(context, q, k, v, scale=scale, causal=causal, heads_last=True)]


@translator(
    "sparse_attention",
    emits=("MatMul", "Transpose", "Mul", "Add", "Softmax", "Where", "Slice", "Less", "Not", "Cast",
           "ReduceSum", "Reshape", "ScatterElements", "Equal", "And", "Greater"),
    limits="only the output can be read",
)  # fmt: skip
def sparse_attention(context: TranslationContext) -> Sequence[str | None]:
    """Attention of q, k, v [B, H, S, D] at the positions of a CSR matrix for each head.

    ``columns`` [B, H, N] lists the keys of query 0, then of 1, ...; ``offset`` [B, H, S + 1] has
    the start of each query's list. Masks exclude where they are 0.
    """
    refuse_statistics(context, "sparse_dot_sdd", "softmax")
    onnx = context.onnx
    q, k, v, offset, columns = (context.input(n) for n in ("q", "k", "v", "offset", "columns"))
    batch, heads, rows, _ = context.shape(q)
    count = context.shape(columns)[2]
    ends = context.reshape(context.slice(offset, 2, 1, rows + 1), [batch, heads, 1, rows])
    numbers = np.arange(count, dtype=np.int32).reshape(1, 1, count, 1)
    before = onnx.less([context.const(numbers, context.dtype(offset)), ends])
    past = context.cast(onnx.logical_not([before]), context.dtype(columns))
    row = onnx.reducesum([past], [3], 0)
    width = context.const(np.asarray(rows), context.dtype(columns))
    places = onnx.add([onnx.mul([row, width]), columns])
    dtype = context.dtype(q)
    none = context.const(np.zeros((batch, heads, rows * rows)), dtype)
    ones = context.const(np.ones((batch, heads, count)), dtype)
    marked = context.reshape(
        onnx.scatterelements([none, places, ones], 2), [batch, heads, rows, rows]
    )
    seen = onnx.greater([marked, context.const_like(0.0, q)])
    for name, shape in (
        ("key_padding_mask", [batch, 1, 1, rows]),
        ("attn_mask", [1, 1, rows, rows]),
    ):
        if context.has(name):
            mask = context.reshape(context.input(name), shape)
            hidden = onnx.equal([mask, context.const_like(0.0, mask)])
            seen = onnx.logical_and([seen, onnx.logical_not([hidden])])
    return [attend(context, q, k, v, counts=seen), None, None]

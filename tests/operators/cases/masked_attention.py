"""Cases of attention whose mask is told in numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.operators.cases.attention import check_dropped_weights
from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, normal

TABLE = CaseTable()
_add = TABLE.add

_NEW = Since("3.0", "the operator is newer")
_OUTPUTS = ("out", "softmax", "softmax_lse", "seed_offset")


def _attend(q: Array, k: Array, v: Array, seen: Array, scale: float, added: Any = 0.0) -> Array:
    """Attention of [B, H, S, D] where `seen` says so; a query that sees nothing gives 0."""
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * scale + added
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * seen
    return np.asarray(
        np.einsum("bhst,bhtd->bhsd", weights, v) / (weights.sum(-1)[..., None] + 1e-30)
    )


def _of_tokens(q: Array, k: Array, v: Array, ends: Array, causal: bool, scale: float) -> Array:
    sequence = np.searchsorted(ends[1:], np.arange(len(q)), side="right")
    seen = sequence[:, None] == sequence
    if causal:
        seen = np.logical_and(seen, np.tri(len(q)) > 0)
    first, second, third = (x.transpose(1, 0, 2)[None] for x in (q, k, v))
    return np.asarray(_attend(first, second, third, seen, scale)[0].transpose(1, 0, 2))


def _unpadded(q: Any, k: Any, v: Any, ends: Any, **options: Any) -> Any:
    return operator(
        "flash_attn_unpadded",
        {
            "q": q,
            "k": k,
            "v": v,
            "cu_seqlens_q": ends,
            "cu_seqlens_k": options.get("other_ends", ends),
            "fixed_seed_offset": None,
            "attn_mask": options.get("mask"),
            "max_seqlen_q": 4,
            "max_seqlen_k": 4,
            "scale": options.get("scale", 0.5),
            "dropout": options.get("dropout", 0.0),
            "causal": options.get("causal", False),
            "return_softmax": False,
            "is_test": options.get("is_test", False),
            "rng_name": "",
        },
        _OUTPUTS,
    )[0]


_ENDS = np.asarray([0, 2, 2, 6], np.int32)
_TOKENS: dict[str, Any] = {
    "q": normal(6, 4, 3),
    "k": normal(6, 2, 3, seed=1),
    "v": normal(6, 2, 3, seed=2),
    "ends": _ENDS,
}
_add(
    "flash_attn_unpadded",
    lambda q, k, v, ends: [
        _unpadded(q, k, v, ends),
        _unpadded(q, k, v, ends, causal=True, scale=1.0),
        _unpadded(q, k, v, ends, dropout=0.5, is_test=True),
    ],
    gradient=("q", "k", "v"),
    gpu_only=True,
    oracle=lambda q, k, v, ends: [
        _of_tokens(q, k, v, ends, False, 0.5),
        _of_tokens(q, k, v, ends, True, 1.0),
        _of_tokens(q, k, v, ends, False, 0.5),
    ],
    **_TOKENS,
)
_add(
    "flash_attn_unpadded",
    lambda q, k, v, ends: _unpadded(q, k, v, ends, dropout=0.5),
    gradient=("v",),
    label="dropout",
    gpu_only=True,
    check=check_dropped_weights,
    q=np.zeros((128, 4, 2), np.float32),
    k=np.zeros((128, 4, 2), np.float32),
    v=np.ones((128, 4, 2), np.float32),
    ends=np.asarray([0, 64, 128], np.int32),
)
TABLE.refuse(
    "flash_attn_unpadded",
    lambda q, k, v, ends, others: _unpadded(q, k, v, ends, other_ends=others, causal=True),
    "causal attention needs one tensor as cu_seqlens_q and cu_seqlens_k",
    gpu_only=True,
    **_TOKENS,
    others=_ENDS,
)
TABLE.refuse(
    "flash_attn_unpadded",
    lambda q, k, v, ends, mask: _unpadded(q, k, v, ends, mask=mask),
    "attn_mask is not supported; pad the sequences",
    gpu_only=True,
    **_TOKENS,
    mask=normal(1, 1, 6, 6),
)


def _packed(
    qkv: Any,
    ends: Any,
    padded: bool = False,
    scale: float = 0.5,
    dropout: float = 0.0,
    is_test: bool = False,
) -> Any:
    tokens, _, heads, depth = qkv.shape
    return operator(
        "flash_attn_varlen_qkvpacked",
        {
            "qkv": qkv,
            "cu_seqlens_q": ends,
            "cu_seqlens_k": ends,
            "fixed_seed_offset": None,
            "attn_mask": None,
            "max_seqlen_q": 4,
            "max_seqlen_k": 4,
            "scale": scale,
            "dropout": dropout,
            "causal": True,
            "return_softmax": False,
            "is_test": is_test,
            "rng_name": "",
            "varlen_padded": padded,
        },
        _OUTPUTS,
        shape=[tokens, heads, depth],
    )[0]


_add(
    "flash_attn_varlen_qkvpacked",
    lambda x, ends: [_packed(x, ends), _packed(x, ends, scale=0.25, dropout=0.5, is_test=True)],
    gradient=("x",),
    gpu_only=True,
    since=_NEW,
    oracle=lambda x, ends: [
        _of_tokens(x[:, 0], x[:, 1], x[:, 2], ends, True, scale) for scale in (0.5, 0.25)
    ],
    x=normal(6, 3, 2, 3),
    ends=_ENDS,
)
TABLE.refuse(
    "flash_attn_varlen_qkvpacked",
    _packed,
    r"queries, keys and values need the same heads, got shape \[6, 4, 2, 3\]",
    gpu_only=True,
    since=_NEW,
    x=normal(6, 4, 2, 3),
    ends=_ENDS,
)
TABLE.refuse(
    "flash_attn_varlen_qkvpacked",
    lambda x, ends: _packed(x, ends, padded=True),
    "padded sequences are not supported; give varlen_padded=False",
    gpu_only=True,
    since=_NEW,
    x=normal(6, 3, 2, 3),
    ends=_ENDS,
)


def _by_length(
    q: Any, k: Any, v: Any, n: Any, m: Any = None, causal: bool = False, cache: int = 0,
    scale: float = 0.5,
) -> Any:  # fmt: skip
    return operator(
        "variable_length_memory_efficient_attention",
        {
            "query": q,
            "key": k,
            "value": v,
            "seq_lens": n,
            "kv_seq_lens": n,
            "mask": m,
            "scale": scale,
            "causal": causal,
            "pre_cache_length": cache,
        },
        ("out",),
    )[0]


def _lengths(
    q: Array, k: Array, v: Array, n: Array, m: Any = 0.0, causal: bool = False, scale: float = 0.5
) -> Array:
    seen = np.arange(4) < n.reshape(-1, 1, 1, 1)
    if causal:
        seen = np.logical_and(seen, np.tri(4) > 0)
    return _attend(q, k, v, seen, scale, m)


_HEADS: dict[str, Any] = {
    "q": normal(2, 4, 4, 3),
    "k": normal(2, 2, 4, 3, seed=1),
    "v": normal(2, 2, 4, 3, seed=2),
    "n": np.asarray([[4], [2]], np.int32),
}
_add(
    "variable_length_memory_efficient_attention",
    lambda q, k, v, n, m: [
        _by_length(q, k, v, n, m),
        _by_length(q, k, v, n, causal=True),
        _by_length(q, k, v, n, scale=2.0),
    ],
    gpu_only=True,
    oracle=lambda q, k, v, n, m: [
        _lengths(q, k, v, n, m),
        _lengths(q, k, v, n, causal=True),
        _lengths(q, k, v, n, scale=2.0),
    ],
    **_HEADS,
    m=normal(2, 1, 4, 4, seed=3),
)
TABLE.refuse(
    "variable_length_memory_efficient_attention",
    lambda q, k, v, n: _by_length(q, k, v, n, cache=2),
    "pre_cache_length must be 0",
    gpu_only=True,
    **_HEADS,
)


def _flashmask(q: Any, k: Any, v: Any, i: Any, causal: bool, **options: Any) -> Any:
    return operator(
        "flashmask_attention",
        {
            "q": q,
            "k": k,
            "v": v,
            "startend_row_indices": i,
            "fixed_seed_offset": None,
            "dropout": options.get("dropout", 0.0),
            "causal": causal,
            "return_softmax": False,
            "is_test": options.get("is_test", False),
            "rng_name": "",
        },
        _OUTPUTS,
    )[0]


def _hidden(i: Array, causal: bool) -> Array:
    """Which scores [B, H or 1, S, T] do not count, column by column."""
    batch, heads, keys, count = i.shape
    hidden = np.zeros((batch, heads, keys, keys), bool)
    for at in np.ndindex(batch, heads, keys):
        bounds, column = i[at], hidden[at[0], at[1], :, at[2]]
        has_end = count == (2 if causal else 4)
        column[bounds[0] : bounds[1] if has_end else None] = True
        if causal:
            column[: at[2]] = True
        elif has_end:
            column[bounds[2] : bounds[3]] = True
        else:
            column[: bounds[1]] = True
    return hidden


def _by_rows(q: Array, k: Array, v: Array, i: Array, causal: bool) -> Array:
    first, second, third = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    seen = np.logical_not(_hidden(i, causal))
    return _attend(first, second, third, seen, q.shape[-1] ** -0.5).transpose(0, 2, 1, 3)


_SEQUENCE: dict[str, Any] = {
    "q": normal(2, 4, 4, 3),
    "k": normal(2, 4, 2, 3, seed=1),
    "v": normal(2, 4, 2, 3, seed=2),
}
_START = np.asarray([[3, 4, 4, 4], [2, 4, 3, 4]], np.int32).reshape(2, 1, 4, 1)
_RANGE = np.concatenate([_START - 1, np.minimum(_START + 1, 4)], axis=-1)
_FROM_UP_TO = np.asarray([[[4, 0], [4, 0], [4, 2], [4, 4]], [[2, 0], [3, 1], [4, 0], [4, 1]]])
_FOUR = np.concatenate([_RANGE, np.zeros_like(_RANGE) + np.asarray([0, 1], np.int32)], axis=-1)

_add(
    "flashmask_attention",
    lambda q, k, v, a, b, c, d: [
        _flashmask(q, k, v, a, True),
        _flashmask(q, k, v, b, True, dropout=0.5, is_test=True),
        _flashmask(q, k, v, c, False),
        _flashmask(q, k, v, d, False),
    ],
    gradient=("q", "k", "v"),
    gpu_only=True,
    since=_NEW,
    oracle=lambda q, k, v, a, b, c, d: [
        _by_rows(q, k, v, a, True),
        _by_rows(q, k, v, b, True),
        _by_rows(q, k, v, c, False),
        _by_rows(q, k, v, d, False),
    ],
    **_SEQUENCE,
    a=_START,
    b=_RANGE,
    # In both samples the last query and in the second one more sees some keys less.
    c=_FROM_UP_TO.astype(np.int32)[:, None],
    d=_FOUR,
)
_add(
    "flashmask_attention",
    lambda q, k, v, i: _flashmask(q, k, v, i, False, dropout=0.5),
    gradient=("v",),
    label="dropout",
    gpu_only=True,
    since=_NEW,
    check=check_dropped_weights,
    q=np.zeros((2, 64, 4, 2), np.float32),
    k=np.zeros((2, 64, 4, 2), np.float32),
    v=np.ones((2, 64, 4, 2), np.float32),
    i=np.tile(np.asarray([64, 0], np.int32), (2, 1, 64, 1)),
)
TABLE.refuse(
    "flashmask_attention",
    lambda q, k, v, i: _flashmask(q, k, v, i, False),
    "startend_row_indices must have 2 or 4 bounds for each key",
    gpu_only=True,
    since=_NEW,
    **_SEQUENCE,
    i=_START,
)


def _third(q: Any, k: Any, v: Any, causal: bool, factor: Any = None, **options: Any) -> Any:
    return operator(
        "flash_attn_v3",
        {
            "q": q,
            "k": k,
            "v": v,
            "q_v_": None,
            "q_descale_": factor,
            "k_descale_": None,
            "v_descale_": None,
            "softmax_scale": options.get("scale", 0.5),
            "is_causal": causal,
            "window_size_left": options.get("left", -1),
            "window_size_right": options.get("right", -1),
            "softcap": options.get("softcap", 0.0),
            "num_splits": 1,
            "manual_set_pack_gqa": False,
            "pack_gqa_": False,
            "sm_margin": 0,
        },
        ("out", "softmax_lse"),
    )[0]


def _plain(q: Array, k: Array, v: Array, causal: bool, scale: float = 0.5) -> Array:
    seen = np.tri(4) > 0 if causal else np.ones((4, 4), bool)
    first, second, third = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    return _attend(first, second, third, seen, scale).transpose(0, 2, 1, 3)


_ALL: dict[str, Any] = {name: normal(2, 4, 2, 3, seed=at) for at, name in enumerate("qkv")}
_add(
    "flash_attn_v3",
    lambda q, k, v: [_third(q, k, v, True), _third(q, k, v, False, scale=0.25)],
    gradient=("q", "k", "v"),
    gpu_only=True,
    since=Since("3.1", "the operator is newer"),
    oracle=lambda q, k, v: [_plain(q, k, v, True), _plain(q, k, v, False, 0.25)],
    **_ALL,
)
for _options, _got in (
    ({"left": 2}, r"\[2, -1\] and 0.0"),
    ({"right": 1}, r"\[-1, 1\] and 0.0"),
    ({"softcap": 30.0}, r"\[-1, -1\] and 30.0"),
):
    TABLE.refuse(
        "flash_attn_v3",
        partial(_third, causal=True, **_options),
        f"windows and softcap are not supported, got {_got}",
        gpu_only=True,
        since=Since("3.1", "the operator is newer"),
        **_ALL,
    )
TABLE.refuse(
    "flash_attn_v3",
    lambda q, k, v, f: _third(q, k, v, True, factor=f),
    "q_descale_ is not supported",
    gpu_only=True,
    since=Since("3.1", "the operator is newer"),
    **_ALL,
    f=normal(2, 2),
)


def _sparse(q: Any, k: Any, v: Any, o: Any, c: Any, keys: Any = None, mask: Any = None) -> Any:
    return operator(
        "sparse_attention",
        {
            "q": q,
            "k": k,
            "v": v,
            "offset": o,
            "columns": c,
            "key_padding_mask": keys,
            "attn_mask": mask,
        },
        ("Out", "SparseDotSdd", "Softmax"),
        {
            "q": "Q",
            "k": "K",
            "v": "V",
            "offset": "Offset",
            "columns": "Columns",
            "key_padding_mask": "KeyPaddingMask",
            "attn_mask": "AttnMask",
        },
    )[0]


def _sparse_oracle(
    q: Array, k: Array, v: Array, o: Array, c: Array, keys: Any = 1.0, mask: Any = 1.0
) -> Array:
    seen = np.zeros((*q.shape[:2], 4, 4), bool)
    for at in np.ndindex(2, 2, 4):
        seen[at][c[at[:2]][o[at] : o[(*at[:2], at[2] + 1)]]] = True
    if isinstance(keys, np.ndarray):
        seen = seen & (keys[:, None, None] != 0) & (mask != 0)
    return _attend(q, k, v, seen, q.shape[-1] ** -0.5)


_add(
    "sparse_attention",
    lambda q, k, v, o, c, p, m: [_sparse(q, k, v, o, c), _sparse(q, k, v, o, c, p, m)],
    gradient=("q", "k", "v"),
    gpu_only=True,
    since=_NEW,
    oracle=lambda q, k, v, o, c, p, m: [
        _sparse_oracle(q, k, v, o, c),
        _sparse_oracle(q, k, v, o, c, p, m),
    ],
    q=normal(2, 2, 4, 3),
    k=normal(2, 2, 4, 3, seed=1),
    v=normal(2, 2, 4, 3, seed=2),
    o=np.asarray(
        [[[0, 1, 3, 5, 6], [0, 2, 2, 4, 6]], [[0, 3, 4, 5, 6], [0, 0, 1, 2, 6]]], np.int32
    ),
    c=np.asarray(
        [[[0, 1, 3, 0, 2, 3], [0, 1, 2, 3, 1, 2]], [[1, 2, 3, 0, 0, 2], [2, 1, 0, 1, 2, 3]]],
        np.int32,
    ),
    p=np.asarray([[1, 1, 0, 1], [1, 1, 1, 1]], np.float32),
    m=np.asarray([[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]], np.float32),
)

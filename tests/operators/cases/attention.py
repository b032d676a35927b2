"""Cases of attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as functional

from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, bools, normal

TABLE = CaseTable()
_add = TABLE.add

_XM = {"x": "X", "mask": "Mask"}
_NEW = Since("3.0", "the operator is newer")


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | float = 0.0,
    *,
    scale: float | None = None,
    causal: bool = False,
) -> Array:
    """Attention of [B, S, H, D] in NumPy; a mask of truth values says what counts."""
    shared = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, shared, axis=2), np.repeat(v, shared, axis=2)
    scores = np.einsum("bshd,bthd->bhst", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if isinstance(mask, np.ndarray) and mask.dtype == bool:
        scores = np.where(mask, scores, -np.inf)
    else:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.asarray(np.einsum("bhst,bthd->bshd", weights, v), q.dtype)


_Q, _K, _V = normal(2, 4, 4, 3), normal(2, 4, 2, 3, seed=1), normal(2, 4, 2, 3, seed=2)
_FULL: dict[str, Any] = {"q": _Q, "k": normal(2, 4, 4, 3, seed=3), "v": normal(2, 4, 4, 3, seed=4)}
_OUTPUTS = ("out", "softmax", "softmax_lse", "seed_offset")


def _flash(q: Any, k: Any, v: Any, mask: Any = None, **options: Any) -> Any:
    return operator(
        "flash_attn",
        {
            "q": q,
            "k": k,
            "v": v,
            "fixed_seed_offset": None,
            "attn_mask": mask,
            "dropout": options.get("dropout", 0.0),
            "causal": options.get("causal", False),
            "return_softmax": False,
            "is_test": options.get("is_test", False),
            "rng_name": "",
        },
        _OUTPUTS,
    )[0]


_add(
    "flash_attn",
    lambda q, k, v: [_flash(q, k, v, causal=True), _flash(q, k, v, dropout=0.5, is_test=True)],
    gpu_only=True,
    gradient=("q", "k", "v"),
    oracle=lambda q, k, v: [attention(q, k, v, causal=True), attention(q, k, v)],
    label="of few heads",
    q=_Q,
    k=_K,
    v=_V,
)
_add(
    "flash_attn",
    lambda q, k, v, m, each: [_flash(q, k, v, m), _flash(q, k, v, each)],
    gpu_only=True,
    gradient=("q", "k", "v"),
    oracle=lambda q, k, v, m, each: [attention(q, k, v, m), attention(q, k, v, each)],
    label="with a mask",
    **_FULL,
    m=normal(2, 1, 4, 4, seed=5),
    each=np.tril(np.ones((2, 4, 4, 4))).astype(bool) | bools(2, 4, 4, 4),
)
_add(
    "flash_attn",
    lambda q, k, v, m, each: [_flash(q, k, v, m), _flash(q, k, v, each)],
    gpu_only=True,
    gradient=("q", "k", "v"),
    oracle=lambda q, k, v, m, each: [attention(q, k, v, m), attention(q, k, v, each)],
    label="of few heads with a mask",
    q=_Q,
    k=_K,
    v=_V,
    m=normal(2, 1, 4, 4, seed=5),
    each=normal(2, 4, 4, 4, seed=6),
)
_add(
    "flash_attn",
    lambda q, k, v: _flash(q, k, v, dropout=1.0),
    gpu_only=True,
    gradient=("v",),
    oracle=lambda q, k, v: np.zeros_like(q),
    label="all dropped",
    **_FULL,
)


def check_dropped_weights(outputs: Any) -> None:
    """The mean of ones by weights of which half is left out: 1 on the average, never just 1."""
    out = np.asarray(outputs[0])
    assert abs(out.mean() - 1.0) < 0.1
    # Of 64 even weights each one is 0 or 2 / 64.
    assert 0.05 < out[..., 0].std() < 0.25


_MANY = np.zeros((2, 64, 4, 2), np.float32)
_add(
    "flash_attn",
    lambda q, k, v: _flash(q, k, v, dropout=0.5),
    gpu_only=True,
    gradient=("v",),
    label="dropout",
    check=check_dropped_weights,
    q=_MANY,
    k=_MANY,
    v=np.ones_like(_MANY),
)


def _packed(
    qkv: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    is_test: bool = False,
) -> Any:
    return operator(
        "flash_attn_qkvpacked",
        {
            "qkv": qkv,
            "fixed_seed_offset": None,
            "attn_mask": mask,
            "dropout": dropout,
            "causal": causal,
            "return_softmax": False,
            "is_test": is_test,
            "rng_name": "",
        },
        _OUTPUTS,
        shape=[*qkv.shape[:2], *qkv.shape[3:]],
    )[0]


_add(
    "flash_attn_qkvpacked",
    lambda x, m: [_packed(x, causal=True), _packed(x, m, dropout=0.5, is_test=True)],
    gpu_only=True,
    gradient=("x",),
    since=_NEW,
    oracle=lambda x, m: [
        attention(x[:, :, 0], x[:, :, 1], x[:, :, 2], causal=True),
        attention(x[:, :, 0], x[:, :, 1], x[:, :, 2], m),
    ],
    x=normal(2, 4, 3, 2, 3),
    m=normal(2, 1, 4, 4, seed=1),
)
_add(
    "flash_attn_qkvpacked",
    lambda x: _packed(x, dropout=0.5),
    gpu_only=True,
    gradient=("x",),
    since=_NEW,
    label="dropout",
    check=check_dropped_weights,
    x=np.stack([_MANY, _MANY, np.ones_like(_MANY)], axis=2),
)


def _efficient(q: Any, k: Any, v: Any, bias: Any = None, **options: Any) -> Any:
    return operator(
        "memory_efficient_attention",
        {
            "query": q,
            "key": k,
            "value": v,
            "bias": bias,
            "cu_seqlens_q": None,
            "cu_seqlens_k": None,
            "causal_diagonal": None,
            "seqlen_k": options.get("lengths"),
            "max_seqlen_q": 4,
            "max_seqlen_k": 4,
            "causal": options.get("causal", False),
            "dropout_p": options.get("dropout", 0.0),
            "scale": options.get("scale", -1.0),
            "is_test": options.get("is_test", False),
        },
        ("output", "logsumexp", "seed_and_offset"),
    )[0]


_add(
    "memory_efficient_attention",
    lambda q, k, v, m: [
        _efficient(q, k, v, m),
        _efficient(q, k, v, scale=0.25, causal=True),
        _efficient(q, k, v, dropout=0.5, is_test=True),
    ],
    gpu_only=True,
    gradient=("q", "k", "v"),
    oracle=lambda q, k, v, m: [
        attention(q, k, v, m),
        attention(q, k, v, scale=0.25, causal=True),
        attention(q, k, v),
    ],
    q=_Q,
    k=_K,
    v=_V,
    m=normal(2, 4, 4, 4, seed=5),
)
_add(
    "memory_efficient_attention",
    lambda q, k, v: _efficient(q, k, v, dropout=0.5),
    gpu_only=True,
    gradient=("v",),
    label="dropout",
    check=check_dropped_weights,
    q=_MANY,
    k=_MANY,
    v=np.ones_like(_MANY),
)


def _dot_product(q: Any, k: Any, v: Any, bias: Any = None, **options: Any) -> Any:
    return operator(
        "fused_dot_product_attention",
        {
            "q": q,
            "k": k,
            "v": v,
            "bias": bias,
            "cu_seqlen_q": None,
            "cu_seqlen_kv": None,
            "scaling_factor": options.get("scale", 0.5),
            "dropout_probability": options.get("dropout", 0.0),
            "is_training": options.get("training", True),
            "mask_type_str": options.get("mask", "none"),
            "bias_type_str": options.get("kind", "none" if bias is None else "post_scale_bias"),
        },
        ("out", "softmax_out", "rng_state"),
    )[0]


_add(
    "fused_dot_product_attention",
    lambda q, k, v, m: [
        _dot_product(q, k, v, mask="causal"),
        _dot_product(q, k, v, m, scale=1.0),
        _dot_product(q, k, v, dropout=0.5, training=False),
    ],
    gpu_only=True,
    gradient=("q", "k", "v"),
    since=_NEW,
    oracle=lambda q, k, v, m: [
        attention(q, k, v, scale=0.5, causal=True),
        attention(q, k, v, m, scale=1.0),
        attention(q, k, v, scale=0.5),
    ],
    q=_Q,
    k=_K,
    v=_V,
    m=normal(2, 4, 4, 4, seed=5),
)
_add(
    "fused_dot_product_attention",
    lambda q, k, v: _dot_product(q, k, v, dropout=0.5),
    gpu_only=True,
    gradient=("v",),
    since=_NEW,
    label="dropout",
    check=check_dropped_weights,
    q=_MANY,
    k=_MANY,
    v=np.ones_like(_MANY),
)

_add(
    "self_dp_attention",
    lambda x: operator(
        "self_dp_attention", {"x": x, "alpha": 0.5, "head_number": 2}, ("Out",), {"x": "X"}
    )[0],
    # Paddle's kernel needs AVX-512.
    oracle=lambda x: attention(x[:, :, 0], x[:, :, 1], x[:, :, 2], scale=0.5),
    x=normal(2, 4, 3, 2, 16),
)


def _layer(x: Array, w: Array, b: Array, m: Array) -> Array:
    q, k, v = np.moveaxis(np.einsum("bsn,nphd->bsphd", x, w) + b, 2, 0)
    return np.asarray(attention(q, k, v, m, scale=0.5)).reshape(*x.shape[:2], -1)


_add(
    "multihead_matmul",
    lambda x, w, b, m: operator(
        "multihead_matmul",
        {
            "input": x,
            "w": w,
            "bias": b,
            "bias_qk": m,
            "transpose_q": False,
            "transpose_k": True,
            "transpose_v": False,
            "alpha": 0.5,
            "head_number": 2,
        },
        ("Out",),
        {
            "input": "Input",
            "w": "W",
            "bias": "Bias",
            "bias_qk": "BiasQK",
            "transpose_q": "transpose_Q",
            "transpose_k": "transpose_K",
            "transpose_v": "transpose_V",
        },
    )[0],
    gpu_only=True,
    oracle=_layer,
    x=normal(2, 4, 6),
    w=normal(6, 3, 2, 3, seed=1),
    b=normal(3, 2, 3, seed=2),
    m=normal(2, 2, 4, 4, seed=3),
)
_add(
    "fused_softmax_mask",
    lambda x, m: operator("fused_softmax_mask", {"x": x, "mask": m}, ("Out",), _XM)[0],
    gradient=("x",),
    x=normal(2, 2, 8, 32),
    m=normal(2, 1, 8, 32, seed=1),
)


def _upper_triangle(x: Array) -> Array:
    weights = np.exp(x) * np.tri(*x.shape[-2:], dtype=x.dtype)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


# Paddle has a CPU kernel, which says that it is for GPUs only.
_add(
    "fused_softmax_mask_upper_triangle",
    lambda x: operator("fused_softmax_mask_upper_triangle", {"X": x}, ("Out",))[0],
    gradient=("x",),
    gpu_only=True,
    oracle=_upper_triangle,
    x=normal(2, 1, 4, 4),
)

# -- by Paddle's own functions --------------------------------------------------------------------

_add(
    "fused_softmax_mask",
    paddle.incubate.softmax_mask_fuse,
    gradient=("x",),
    label="softmax_mask_fuse",
    x=normal(2, 2, 8, 32),
    mask=normal(2, 1, 8, 32, seed=1),
)
_add(
    "matmul",
    functional.scaled_dot_product_attention,
    gradient=("q", "k", "v"),
    label="attention",
    oracle=attention,
    **_FULL,
)
_add(
    "matmul",
    lambda q, k, v: functional.flash_attention.flash_attention(q, k, v, causal=True)[0],
    gradient=("q", "k", "v"),
    label="flash_attention",
    since=Since("3.3", "the function writes an operator whose gradient CPUs lack"),
    oracle=lambda q, k, v: attention(q, k, v, causal=True),
    **_FULL,
)
_add(
    "matmul",
    lambda q, k, v, m: [
        functional.scaled_dot_product_attention(q, k, v, m),
        functional.scaled_dot_product_attention(q, k, v, m, 0.5, training=False),
    ],
    gradient=("q", "k", "v"),
    label="masked attention",
    since=Since("3.3", "the function writes an operator without a CPU kernel"),
    oracle=lambda q, k, v, m: [attention(q, k, v, m), attention(q, k, v, m)],
    **_FULL,
    m=normal(2, 4, 4, 4, seed=5),
)

TABLE.refuse(
    "flash_attn",
    lambda q, k, v: _flash(q, k, v, causal=True),
    "causal attention of 2 queries to 4 keys is not supported",
    gpu_only=True,
    q=normal(2, 2, 4, 3),
    k=_FULL["k"],
    v=_FULL["v"],
)
TABLE.refuse(
    "flash_attn",
    lambda q, k, v: _flash(q, k, v),
    "4 heads of queries cannot share 3 heads of keys",
    gpu_only=True,
    q=_Q,
    k=normal(2, 4, 3, 3),
    v=normal(2, 4, 3, 3),
)
TABLE.refuse(
    "memory_efficient_attention",
    lambda q, k, v, n: _efficient(q, k, v, lengths=n),
    "seqlen_k is not supported; give a bias that masks",
    gpu_only=True,
    **_FULL,
    n=np.asarray([4, 2], np.int32),
)
TABLE.refuse(
    "fused_dot_product_attention",
    lambda q, k, v: _dot_product(q, k, v, mask="padding"),
    "mask type 'padding' by lengths is not supported; give a bias",
    gpu_only=True,
    since=_NEW,
    **_FULL,
)
TABLE.refuse(
    "fused_dot_product_attention",
    lambda q, k, v, m: _dot_product(q, k, v, m, kind="pre_scale_bias"),
    "a bias is supported as 'post_scale_bias' only",
    gpu_only=True,
    since=_NEW,
    **_FULL,
    m=normal(2, 4, 4, 4, seed=5),
)


def _softmax_of(q: Any, k: Any, v: Any) -> Any:
    arguments = {"q": q, "k": k, "v": v, "bias": None, "cu_seqlen_q": None, "cu_seqlen_kv": None}
    options = {"scaling_factor": 0.5, "dropout_probability": 0.0, "is_training": True}
    kinds = {"mask_type_str": "none", "bias_type_str": "none"}
    return operator(
        "fused_dot_product_attention",
        {**arguments, **options, **kinds},
        ("softmax_out", "out", "rng_state"),
    )[0]


TABLE.refuse(
    "fused_dot_product_attention",
    _softmax_of,
    "its result softmax_out cannot be read: it belongs to GPU kernels",
    gpu_only=True,
    since=_NEW,
    **_FULL,
)

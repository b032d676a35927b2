"""Cases of the halves of a transformer layer that are one operator each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.operators.cases.fused_norm import layer_norm
from tests.operators.gpu_operator import append_unknown, weighted_sum
from tests.operators.operator_case import Array, CaseTable, bools, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_DOWN = "downgrade_in_infer"


# -- feed-forward ---------------------------------------------------------------------------------


def _feedforward(x: Any, w: Any, v: Any, b: Any = None, c: Any = None, **options: Any) -> Any:
    """``paddle.incubate.nn.functional.fused_feedforward``, whose names the options have."""
    mode, seed = options.get("mode", "upscale_in_train"), options.get("seed")
    norms = {
        slot: options.get(name)
        for slot, name in (
            ("Ln1Scale", "ln1_scale"), ("Ln1Bias", "ln1_bias"),
            ("Ln2Scale", "ln2_scale"), ("Ln2Bias", "ln2_bias"),
        )
    }  # fmt: skip
    return append_unknown(
        "fused_feedforward",
        {"X": x, "Linear1Weight": w, "Linear1Bias": b, "Linear2Weight": v, "Linear2Bias": c,
         **norms},
        {
            "dropout1_rate": options.get("dropout1_rate", 0.0),
            "dropout2_rate": options.get("dropout2_rate", 0.0),
            "act_method": options.get("activation", "relu"),
            "pre_layer_norm": options.get("pre_layer_norm", False),
            "ln1_epsilon": options.get("ln1_epsilon", 1e-5),
            "ln2_epsilon": options.get("ln2_epsilon", 1e-5),
            "is_test": not options.get("training", True),
            "dropout1_fix_seed": seed is not None,
            "dropout2_fix_seed": seed is not None,
            "dropout1_seed": seed or 0,
            "dropout2_seed": seed or 0,
            "dropout1_implementation": mode,
            "dropout2_implementation": mode,
            "add_residual": options.get("add_residual", True),
            "ring_id": options.get("ring_id", -1),
        },
        "Out",
        ("Dropout1Mask", "Dropout2Mask", "Ln1Mean", "Ln1Variance", "Ln2Mean", "Ln2Variance",
         "Linear1Out", "Ln1Out", "Dropout1Out", "Dropout2Out"),
    )  # fmt: skip


def _fed_forward(
    x: Array, w: Array, v: Array, b: Array, c: Array, *, before: Any = None, after: Any = None,
    gelu: bool = False, first: float = 1.0, second: float = 1.0, residual: bool = True,
) -> Array:  # fmt: skip
    hidden = layer_norm(x, *before) if before else x
    hidden = hidden @ w + b
    if gelu:
        erf = np.vectorize(math.erf)(hidden / math.sqrt(2.0)).astype(hidden.dtype)
        hidden = hidden * (1 + erf) / 2
    else:
        hidden = np.maximum(hidden, 0)
    hidden = (hidden * first @ v + c) * second
    hidden = x + hidden if residual else hidden
    return hidden if after is None else layer_norm(hidden, *after)


_FEEDFORWARD: dict[str, Any] = {
    "x": normal(2, 3, 4),
    "w": normal(4, 6, seed=1),
    "v": normal(6, 4, seed=2),
    "b": normal(6, seed=3),
    "c": normal(4, seed=4),
    "s": uniform(4, seed=5),
    "t": normal(4, seed=6),
}
_add(
    "fused_feedforward",
    lambda x, w, v, b, c, s, t: [
        _feedforward(
            x, w, v, b, c, ln1_scale=s, ln1_bias=t, ln1_epsilon=0.125, pre_layer_norm=True
        ),
        _feedforward(
            x, w, v, b, c, ln2_scale=s, ln2_bias=t, ln2_epsilon=0.125, activation="gelu",
            dropout1_rate=0.25, dropout2_rate=0.5, mode=_DOWN, training=False,
        ),
        _feedforward(x, w, v, b, c, pre_layer_norm=True, add_residual=False),
    ],
    gpu_only=True,
    oracle=lambda x, w, v, b, c, s, t: [
        _fed_forward(x, w, v, b, c, before=(s, t, 0.125)),
        _fed_forward(x, w, v, b, c, after=(s, t, 0.125), gelu=True, first=0.75, second=0.5),
        _fed_forward(x, w, v, b, c, before=(1.0, 0.0, 1e-5), residual=False),
    ],
    **_FEEDFORWARD,
)  # fmt: skip


_EYE, _ONES = np.eye(32, dtype=np.float32), np.ones((2, 32, 32), np.float32)


def _normal_of_quarters(outputs: Any) -> None:
    """Each row is normal, of what one in four lived through: two values, most of them below 0."""
    output = outputs[0]
    np.testing.assert_allclose(output.mean(-1), 0.0, atol=1e-5)
    assert abs((output > 0).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / output.size)


_add(
    "fused_feedforward",
    # Dropout is of training: something has to be trained.
    lambda x, w, z: [
        _feedforward(x, w, w, dropout1_rate=0.5, dropout2_rate=0.5, add_residual=False, seed=7),
        weighted_sum(z, z),
    ],
    label="dropout",
    gradient=("z",),
    gpu_only=True,
    check=_normal_of_quarters,
    x=_ONES,
    w=_EYE,
    z=normal(2),
)  # fmt: skip


TABLE.refuse(
    "fused_feedforward",
    lambda x, w, v: _feedforward(x, w, v, ring_id=0),
    r"its weights are split over several devices \(ring_id 0\)",
    gpu_only=True,
    **{name: _FEEDFORWARD[name] for name in "xwv"},
)

# -- attention ------------------------------------------------------------------------------------


def _attention(x: Any, qkv: Any, out: Any, **options: Any) -> Any:
    """``paddle.incubate.nn.functional.fused_multi_head_attention``, whose names they have."""
    mode, seed = options.get("mode", "upscale_in_train"), options.get("seed")
    names = {
        "LnScale": "pre_ln_scale", "LnBias": "pre_ln_bias", "QKVBias": "qkv_bias",
        "CacheKV": "cache_kv", "SrcMask": "attn_mask", "OutLinearBias": "linear_bias",
        "Ln2Scale": "ln_scale", "Ln2Bias": "ln_bias",
    }  # fmt: skip
    return append_unknown(
        "fused_attention",
        {"X": x, "QKVW": qkv, "OutLinearW": out,
         **{slot: options.get(name) for slot, name in names.items()}},
        {
            "pre_layer_norm": options.get("pre_layer_norm", False),
            "epsilon": options.get("pre_ln_epsilon", 1e-5),
            "ln_epsilon": options.get("ln_epsilon", 1e-5),
            "dropout_rate": options.get("dropout_rate", 0.0),
            "attn_dropout_rate": options.get("attn_dropout_rate", 0.0),
            "is_test": not options.get("training", True),
            "attn_dropout_fix_seed": seed is not None,
            "dropout_fix_seed": seed is not None,
            "attn_dropout_seed": seed or 0,
            "dropout_seed": seed or 0,
            "attn_dropout_implementation": mode,
            "dropout_implementation": mode,
            "add_residual": options.get("add_residual", True),
            "ring_id": options.get("ring_id", -1),
            "num_heads": options.get("num_heads", 0),
            "transpose_qkv_wb": options.get("transpose_qkv_wb", False),
        },
        "Y",
        ("LnMean", "LnVariance", "LnOut", "QKVOut", "QKVBiasOut", "TransposeOut2", "QKOut",
         "QKTVOut", "SoftmaxOut", "AttnDropoutMaskOut", "AttnDropoutOut", "SrcMaskOut", "FMHAOut",
         "OutLinearOut", "DropoutMaskOut", "Ln2Mean", "Ln2Variance", "BiasDropoutResidualOut",
         "CacheKVOut"),
    )  # fmt: skip


def _attended(
    x: Array, w: Array, b: Any, o: Array, c: Any, *, before: Any = None, after: Any = None,
    mask: Any = 0.0, weights: float = 1.0, last: float = 1.0, residual: bool = True,
) -> Array:  # fmt: skip
    hidden = layer_norm(x, *before) if before else x
    projected = np.einsum("bse,nhde->nbhsd", hidden, w)
    q, k, v = projected if b is None else projected + b[:, None, :, None, :]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -1e30) if np.asarray(mask).dtype == bool else scores + mask
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    hidden = weights * exponents / exponents.sum(-1, keepdims=True) @ v
    hidden = hidden.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[1], -1) @ o
    hidden = (hidden if c is None else hidden + c) * last
    hidden = x + hidden if residual else hidden
    return np.asarray(hidden if after is None else layer_norm(hidden, *after), x.dtype)


_ATTENTION: dict[str, Any] = {
    "x": normal(2, 3, 4),
    "w": normal(3, 2, 2, 4, seed=1),
    "b": normal(3, 2, 2, seed=2),
    "o": normal(4, 4, seed=3),
    "c": normal(4, seed=4),
    "s": uniform(4, seed=5),
    "t": normal(4, seed=6),
    "m": normal(2, 2, 3, 3, seed=7),
}
_add(
    "fused_attention",
    lambda x, w, b, o, c, s, t, m, p: [
        _attention(
            x, w, o, qkv_bias=b, linear_bias=c, pre_layer_norm=True, pre_ln_scale=s, pre_ln_bias=t,
            pre_ln_epsilon=0.125, attn_mask=m,
        ),
        _attention(
            x, w, o, ln_scale=s, ln_bias=t, ln_epsilon=0.125, mode=_DOWN, training=False,
            attn_dropout_rate=0.5, dropout_rate=0.25, attn_mask=p,
        ),
        _attention(x, w, o, qkv_bias=b, pre_layer_norm=True, add_residual=False),
    ],
    gpu_only=True,
    oracle=lambda x, w, b, o, c, s, t, m, p: [
        _attended(x, w, b, o, c, before=(s, t, 0.125), mask=m),
        _attended(x, w, None, o, None, after=(s, t, 0.125), mask=p, weights=0.5, last=0.75),
        _attended(x, w, b, o, None, before=(1.0, 0.0, 1e-5), residual=False),
    ],
    **_ATTENTION,
    p=bools(2, 1, 3, 3) | np.eye(3, dtype=bool),
)  # fmt: skip
_add(
    "fused_attention",
    lambda x, w, b, o: _attention(
        x, w, o, qkv_bias=b, pre_layer_norm=True, num_heads=2, transpose_qkv_wb=True
    ),
    label="weights [E, 3 * E]",
    gpu_only=True,
    oracle=lambda x, w, b, o: _attended(
        x, w.T.reshape(3, 2, 2, 4), b.reshape(3, 2, 2), o, None, before=(1.0, 0.0, 1e-5)
    ),
    x=_ATTENTION["x"],
    w=normal(4, 12, seed=1),
    b=normal(12, seed=2),
    o=_ATTENTION["o"],
)


def _one_of_four(outputs: Any) -> None:
    """Values of one: weights of which half is left out, and of what they give, half again."""
    kept = outputs[0] != 0
    assert abs(kept.mean() - 0.5) < 4 * np.sqrt(0.25 / kept.size)
    assert abs(outputs[0].mean() - 1.0) < 0.15


_add(
    "fused_attention",
    lambda x, w, b, o, z: [
        _attention(
            x, w, o, qkv_bias=b, pre_layer_norm=True, add_residual=False, attn_dropout_rate=0.5,
            dropout_rate=0.5, seed=7,
        ),
        weighted_sum(z, z),
    ],
    label="dropout",
    gradient=("z",),
    gpu_only=True,
    check=_one_of_four,
    x=_ONES,
    w=np.zeros((3, 4, 8, 32), np.float32),
    b=np.ones((3, 4, 8), np.float32),
    o=_EYE,
    z=normal(2),
)  # fmt: skip
TABLE.refuse(
    "fused_attention",
    lambda x, w, o: _attention(x, w, o, ring_id=0),
    r"its weights are split over several devices \(ring_id 0\)",
    gpu_only=True,
    **{name: _ATTENTION[name] for name in "xwo"},
)
TABLE.refuse(
    "fused_attention",
    lambda x, w, o, n: _attention(x, w, o, cache_kv=n),
    "cache_kv is not supported; attend over the whole sequence",
    gpu_only=True,
    **{name: _ATTENTION[name] for name in "xwo"},
    n=normal(2, 2, 2, 3, 2),
)

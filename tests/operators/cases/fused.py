"""Cases of fused operators: activations, dropout and addition, two functions in one."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np

from tests.operators.cases.activation_oracles import relu, sigmoid, silu
from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_NEW = Since("3.0", "the operator is newer")
_EXPANDED = Since("3.0", "its ProgramDesc form is read as plain operators")


def _gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2.0))), x.dtype)


# -- activations ----------------------------------------------------------------------------------

_add(
    "swiglu",
    lambda x, y: [
        operator("swiglu", {"x": x, "y": y}, ("out",))[0],
        operator("swiglu", {"x": x, "y": None}, ("out",))[0],
    ],
    gradient=("x", "y"),
    since=Since("3.0", "the operator is newer"),
    x=normal(2, 3, 4),
    y=normal(2, 3, 4, seed=1),
)


def _bias_act(
    x: Any,
    bias: Any,
    method: str,
    shift: Any = None,
    quant_scale: float = -1.0,
    compute_dtype: str = "default",
) -> Any:
    half = method in ("geglu", "swiglu")
    return operator(
        "fused_bias_act",
        {
            "x": x,
            "bias": bias,
            "dequant_scales": None,
            "shift": shift,
            "smooth": None,
            "act_method": method,
            "compute_dtype": compute_dtype,
            "quant_scale": quant_scale,
            "quant_round_type": 0,
            "quant_max_bound": 0.0,
            "quant_min_bound": 0.0,
        },
        ("out",),
        shape=[x.shape[0], x.shape[1] // 2] if half else None,
    )[0]


_add(
    "fused_bias_act",
    lambda x, b: [
        *(_bias_act(x, b, method) for method in ("gelu", "relu", "silu", "swiglu", "geglu")),
        _bias_act(x, None, "gelu"),
        _bias_act(x, None, "gelu", compute_dtype="fp32"),
    ],
    gpu_only=True,
    oracle=lambda x, b: [
        _gelu(x + b),
        relu(x + b),
        silu(x + b),
        silu((x + b)[:, :3]) * (x + b)[:, 3:],
        _gelu((x + b)[:, :3]) * (x + b)[:, 3:],
        _gelu(x),
        _gelu(x),
    ],
    x=normal(4, 6),
    b=normal(6, seed=1),
)
TABLE.refuse(
    "fused_bias_act",
    lambda x, b: _bias_act(x, b, "relu", shift=b),
    "shift is not supported; dequantise apart",
    gpu_only=True,
    x=normal(4, 6),
    b=normal(6, seed=1),
)
TABLE.refuse(
    "fused_bias_act",
    lambda x, b: _bias_act(x, b, "relu", compute_dtype="fp16"),
    "compute_dtype is 'fp16'; expected 'default' or 'fp32', that of x",
    gpu_only=True,
    x=normal(4, 6),
    b=normal(6, seed=1),
)
TABLE.refuse(
    "fused_bias_act",
    lambda x, b: _bias_act(x, b, "relu", quant_scale=2.0),
    "quantised results are not supported; give quant_scale -1",
    gpu_only=True,
    x=normal(4, 6),
    b=normal(6, seed=1),
)
TABLE.refuse(
    "fused_bias_act",
    lambda x, b: _bias_act(x, b, "fast_gelu"),
    "activation 'fast_gelu' is not supported; one of relu, relu6",
    gpu_only=True,
    x=normal(4, 6),
    b=normal(6, seed=1),
)
TABLE.refuse(
    "fused_bias_act",
    lambda x, b: _bias_act(x, b, "geglu"),
    "its last dimension must be even",
    gpu_only=True,
    x=normal(4, 5),
    b=normal(5, seed=1),
)


def _dropout_add(x: Any, y: Any, p: float, test: bool, mode: str, seed: int = 0) -> Any:
    return operator(
        "fused_dropout_add",
        {
            "x": x,
            "y": y,
            "seed_tensor": None,
            "p": p,
            "is_test": test,
            "mode": mode,
            "seed": seed,
            "fix_seed": seed != 0,
        },
        ("out", "seed_offset"),
    )[0]


_TRAIN, _INFER = "upscale_in_train", "downscale_in_infer"

_add(
    "fused_dropout_add",
    lambda x, y: [
        _dropout_add(x, y, 0.0, False, _TRAIN),
        _dropout_add(x, y, 1.0, False, _TRAIN),
        _dropout_add(x, y, 0.5, True, _TRAIN),
        _dropout_add(x, y, 0.25, True, _INFER),
    ],
    gradient=("x", "y"),
    gpu_only=True,
    oracle=lambda x, y: [x + y, 0 * x + y, x + y, 0.75 * x + y],
    x=normal(3, 4),
    y=normal(3, 4, seed=1),
)


def _check_halves(outputs: Any) -> None:
    """Ones, of which half is left out, plus ones: 1 or 3, and 1 or 2."""
    for total, most in ((outputs[0], 3.0), (outputs[1], 2.0), (outputs[2], 3.0)):
        kept = np.asarray(total) > 1.5
        np.testing.assert_allclose(np.asarray(total)[kept], most, rtol=1e-6)
        assert abs(kept.mean() - 0.5) < 0.06


_add(
    "fused_dropout_add",
    lambda x, y: [
        *(_dropout_add(x, y, 0.5, False, mode) for mode in (_TRAIN, _INFER)),
        _dropout_add(x, y, 0.5, False, _TRAIN, seed=7),
    ],
    gradient=("x",),
    label="dropout",
    gpu_only=True,
    check=_check_halves,
    x=np.ones((64, 32), np.float32),
    y=np.ones((64, 32), np.float32),
)

# -- two functions in one -------------------------------------------------------------------------


def _elementwise(
    name: str, x: Any, y: Any, outer: str, inner: str, axis: int = -1, scale: float = 0.0
) -> Any:
    return operator(
        name,
        {
            "x": x,
            "y": y,
            "functor_list": [outer, inner],
            "axis": axis,
            "scale": scale,
            "save_intermediate_out": False,
        },
        ("Out", "IntermediateOut"),
        {"x": "X", "y": "Y"},
    )[0]


for _name in ("fused_elemwise_activation", "fused_elemwise_add_activation"):
    _add(
        _name,
        lambda x, y, z, name=_name: [
            _elementwise(name, x, y, "elementwise_add", "relu"),
            _elementwise(name, x, y, "relu", "elementwise_add"),
            _elementwise(name, x, y, "tanh", "elementwise_add"),
            _elementwise(name, x, y, "sigmoid", "elementwise_add"),
            _elementwise(name, x, y, "gelu", "elementwise_add"),
            _elementwise(name, x, z, "scale", "elementwise_add", axis=0, scale=2.0),
        ],
        gradient=("x", "y", "z"),
        # On Paddle 3 a ProgramDesc is the only program that can hold it.
        gpu_only=True,
        oracle=lambda x, y, z: [
            x + relu(y),
            relu(x + y),
            np.tanh(x + y),
            sigmoid(x + y),
            _gelu(x + y),
            2 * (x + z[:, None]),
        ],
        x=normal(3, 4),
        y=normal(3, 4, seed=1),
        z=normal(3, seed=2),
    )
_add(
    "fused_elemwise_activation",
    lambda x, y: _elementwise(
        "fused_elemwise_activation", x, y, "elementwise_mul", "scale", scale=0.5
    ),
    gradient=("x", "y"),
    label="product",
    gpu_only=True,
    oracle=lambda x, y: x * (0.5 * y),
    x=normal(3, 4),
    y=normal(3, 4, seed=1),
)
TABLE.refuse(
    "fused_elemwise_activation",
    lambda x, y: _elementwise("fused_elemwise_activation", x, y, "relu", "tanh"),
    r"functor_list must be a binary and a unary function, got \['relu', 'tanh'\]",
    gpu_only=True,
    since=Since("3.0", "Paddle refuses it first"),
    x=normal(3, 4),
    y=normal(3, 4),
)


def _affine(x: Any, s: Any, b: Any, y: Any, t: Any, c: Any, dual: bool) -> Any:
    return operator(
        "fused_scale_bias_add_relu",
        {
            "x1": x,
            "scale1": s,
            "bias1": b,
            "x2": y,
            "scale2": t,
            "bias2": c,
            "fuse_dual": dual,
            "exhaustive_search": False,
        },
        ("out",),
    )[0]


_add(
    "fused_scale_bias_add_relu",
    lambda x, y, s, b, t, c: [
        _affine(x, s, b, y, t, c, True),
        _affine(x, s, b, y, None, None, False),
    ],
    gpu_only=True,
    oracle=lambda x, y, s, b, t, c: [relu(x * s + b + y * t + c), relu(x * s + b + y)],
    x=normal(2, 3, 2, 4),
    y=normal(2, 3, 2, 4, seed=1),
    s=uniform(4),
    b=normal(4, seed=2),
    t=uniform(4, seed=3),
    c=normal(4, seed=4),
)


def _rank_oracle(x: Array, ranks: Array, param: Array) -> Array:
    most, width = 2, x.shape[1]
    matrices = param.reshape(most, most, width, -1)
    out = np.zeros((len(x), param.shape[1]), x.dtype)
    for row, (own, *items) in enumerate(ranks):
        for rank, place in zip(items[::2], items[1::2], strict=True):
            if own > 0 and rank > 0:
                out[row] += x[place] @ matrices[own - 1, rank - 1]
    return out


_add(
    "rank_attention",
    lambda x, r, p: operator(
        "rank_attention",
        {"x": x, "rank_offset": r, "rank_param": p, "max_rank": 2, "max_size": 0},
        ("Out", "InputHelp", "InsRank"),
        {
            "x": "X",
            "rank_offset": "RankOffset",
            "rank_param": "RankParam",
            "max_rank": "MaxRank",
            "max_size": "MaxSize",
        },
        shape=[4, 5],
    )[0],
    gradient=("p",),
    gpu_only=True,
    oracle=_rank_oracle,
    x=normal(4, 3),
    r=np.asarray([[1, 1, 0, 2, 1], [2, 1, 0, 2, 1], [1, 1, 2, 0, 0], [0, 0, 0, 0, 0]], np.int32),
    p=normal(12, 5, seed=1),
)


def _parameter_gradients(x: Any, d: Any, w: Any, b: Any, has_bias: bool = True) -> list[Any]:
    results = operator(
        "fused_linear_param_grad_add",
        {
            "x": x,
            "dout": d,
            "dweight": w,
            "dbias": b,
            "multi_precision": True,
            "has_bias": has_bias,
        },
        ("dweight_out", "dbias_out"),
        shape=[4, 5],
    )
    results[1].desc.set_shape([5])
    return results if has_bias else results[:1]


_add(
    "fused_linear_param_grad_add",
    lambda x, d, w, b: [
        *_parameter_gradients(x, d, w, b),
        *_parameter_gradients(x, d, None, None),
        *_parameter_gradients(x, d, w, None, has_bias=False),
    ],
    gpu_only=True,
    oracle=lambda x, d, w, b: [
        w + np.einsum("bsi,bso->io", x, d),
        b + d.sum((0, 1)),
        np.einsum("bsi,bso->io", x, d),
        d.sum((0, 1)),
        w + np.einsum("bsi,bso->io", x, d),
    ],
    x=normal(2, 3, 4),
    d=normal(2, 3, 5, seed=1),
    w=normal(4, 5, seed=2),
    b=normal(5, seed=3),
)

_add(
    "moe_combine",
    lambda x, w, i: operator(
        "moe_combine", {"x": x, "combine_weights": w, "scatter_index": i}, ("y",), shape=[3, 4]
    )[0],
    gradient=("x", "w"),
    gpu_only=True,
    since=Since("3.1", "the operator is newer"),
    oracle=lambda x, w, i: np.einsum("skh,sk->sh", x[i.reshape(3, 2)], w),
    x=normal(6, 4),
    w=normal(3, 2, seed=1),
    # By token, whatever its shape says.
    i=np.asarray([[0, 3, 1], [5, 2, 2]], np.int32),
)


def _longest(encoder: Any, decoder: Any, batch: Any) -> list[Any]:
    results = operator(
        "blha_get_max_len",
        {"seq_lens_encoder": encoder, "seq_lens_decoder": decoder, "batch_size": batch},
        ("max_enc_len_this_time", "max_dec_len_this_time"),
        shape=[1],
    )
    results[1].desc.set_shape([1])
    return results


_add(
    "blha_get_max_len",
    _longest,
    gpu_only=True,
    since=_NEW,
    oracle=lambda e, d, b: [e.max(keepdims=True)[0], d.max(keepdims=True)[0]],
    e=np.asarray([[3], [7], [5]], np.int32),
    d=np.asarray([[0], [2], [1]], np.int32),
    b=np.zeros((3,), np.float32),
)

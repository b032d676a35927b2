"""Cases of normalisation by kernels that do more."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.incubate.nn.functional as functional

from tests.operators.cases.activation_oracles import silu
from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_NEW = Since("3.0", "the operator is newer")
_NEWEST = Since("3.3", "the operator is newer, or its name had another meaning")


def rms(x: Array, scale: Array | float, epsilon: float, axis: int = -1) -> Array:
    """``x / sqrt(mean(x * x) + epsilon) * scale``."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    return np.asarray(x / np.sqrt(np.mean(x * x, axes, keepdims=True) + epsilon) * scale)


def layer_norm(
    x: Array, scale: Array | float, bias: Array | float, epsilon: float, axis: int = -1
) -> Array:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias``."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    apart = x - x.mean(axes, keepdims=True)
    deviation = np.sqrt(np.mean(apart * apart, axes, keepdims=True) + epsilon)
    return np.asarray(apart / deviation * scale + bias, x.dtype)


_X, _SCALE, _BIAS = normal(2, 3, 4), uniform(4, seed=1), normal(4, seed=2)


# -- RMS ------------------------------------------------------------------------------------------


def _rms_norm(x: Any, scale: Any, shape: list[int], epsilon: float) -> Any:
    arguments = {"x": x, "scale": scale, "normalized_shape": shape, "epsilon": epsilon}
    return operator("rms_norm", arguments, ("y", "invvar"))[0]


_add(
    "rms_norm",
    lambda x, s, t: [
        _rms_norm(x, s, [4], 0.125),
        _rms_norm(x, t, [3, 4], 1e-5),
        _rms_norm(x, None, [4], 1e-5),
    ],
    gradient=("x", "s", "t"),
    gpu_only=True,
    since=_NEWEST,
    oracle=lambda x, s, t: [rms(x, s, 0.125), rms(x, t, 1e-5, 1), rms(x, 1.0, 1e-5)],
    x=_X,
    s=_SCALE,
    t=uniform(3, 4),
)
for _name in ("fused_rms_norm_ext", "fast_rms_norm"):
    _add(
        _name,
        lambda x, s, name=_name: [
            operator(name, {"x": x, "scale": s, "epsilon": 0.125}, ("y", "invvar"))[0],
            operator(name, {"x": x, "scale": s, "epsilon": 1e-5}, ("y", "invvar"))[0],
        ],
        gradient=("x", "s"),
        gpu_only=True,
        since=_NEWEST,
        oracle=lambda x, s: [rms(x, s, 0.125), rms(x, s, 1e-5)],
        x=_X,
        s=_SCALE,
    )


def _quant(
    name: str, x: Any, bias: Any, residual: Any, weight: Any, shift: Any, axis: int,
    epsilon: float = 0.125,
) -> list[Any]:  # fmt: skip
    return operator(
        name,
        {
            "x": x,
            "bias": bias,
            "residual": residual,
            "norm_weight": weight,
            "norm_bias": shift,
            "epsilon": epsilon,
            "begin_norm_axis": axis,
            "quant_scale": -1.0,
            "quant_round_type": 0,
            "quant_max_bound": 0.0,
            "quant_min_bound": 0.0,
        },
        ("out", "residual_out", "inv_var")
        if _NEW.holds(paddle.__version__)
        else ("out", "residual_out"),
    )


def _quant_of(name: str) -> Any:
    def build(x: Any, b: Any, r: Any, w: Any, s: Any, v: Any) -> list[Any]:
        more, total = _quant(name, x, b, r, w, s, 2)[:2]
        # The sum is a result of the operator; Paddle's reader needs its shape.
        total.desc.set_shape(list(x.shape))
        return [
            more,
            total,
            _quant(name, x, None, None, w, None, 2)[0],
            _quant(name, x, None, None, v, None, 1, 0.5)[0],
        ]

    return build


_add(
    "fused_rms_norm_quant",
    # The name changed with Paddle 3.3.
    _quant_of("rms_norm" if not _NEWEST.holds(paddle.__version__) else "fused_rms_norm_quant"),
    gpu_only=True,
    oracle=lambda x, b, r, w, s, v: [
        rms(x + b + r, w, 0.125) + s,
        x + b + r,
        rms(x, w, 0.125),
        rms(x.reshape(2, 12), v, 0.5).reshape(2, 3, 4),
    ],
    x=_X,
    b=normal(4, seed=3),
    r=normal(2, 3, 4, seed=4),
    w=_SCALE,
    s=_BIAS,
    v=normal(12, seed=5),
)

# -- layer normalisation --------------------------------------------------------------------------

_add(
    "fast_ln",
    lambda x, s, b: [
        operator("fast_ln", {"x": x, "scale": s, "bias": b, "epsilon": e}, ("y", "mean", "invvar"))[
            0
        ]
        for e in (0.125, 1e-5)
    ],
    gradient=("x", "s", "b"),
    gpu_only=True,
    since=_NEWEST,
    oracle=lambda x, s, b: [layer_norm(x, s, b, 0.125), layer_norm(x, s, b, 1e-5)],
    x=_X,
    s=_SCALE,
    b=_BIAS,
)


def _bias_residual(
    x: Any, bias: Any, residual: Any, weight: Any, shift: Any, alpha: float, axis: int = 2,
    epsilon: float = 0.125,
) -> list[Any]:  # fmt: skip
    return operator(
        "fused_bias_residual_layernorm",
        {
            "x": x,
            "bias": bias,
            "residual": residual,
            "norm_weight": weight,
            "norm_bias": shift,
            "epsilon": epsilon,
            "residual_alpha": alpha,
            "begin_norm_axis": axis,
            "quant_scale": -1.0,
            "quant_round_type": 0,
            "quant_max_bound": 0.0,
            "quant_min_bound": 0.0,
        },
        ("out", "residual_out", "mean", "variance"),
    )


def _bias_residuals(x: Any, b: Any, r: Any, w: Any, s: Any, v: Any, t: Any) -> list[Any]:
    more, total = _bias_residual(x, b, r, w, s, 0.5)[:2]
    if not paddle.framework.in_pir_mode():
        total.desc.set_shape(list(x.shape))
    return [
        more,
        total,
        _bias_residual(x, None, None, w, s, 1.0)[0],
        _bias_residual(x, b, r, None, None, 1.0)[0],
        _bias_residual(x, None, None, v, t, 1.0, 1, 0.5)[0],
    ]


_add(
    "fused_bias_residual_layernorm",
    _bias_residuals,
    gpu_only=True,
    oracle=lambda x, b, r, w, s, v, t: [
        layer_norm(x + b + 0.5 * r, w, s, 0.125),
        x + b + 0.5 * r,
        layer_norm(x, w, s, 0.125),
        x + b + r,
        layer_norm(x.reshape(2, 12), v, t, 0.5).reshape(2, 3, 4),
    ],
    x=_X,
    b=normal(4, seed=3),
    r=normal(2, 3, 4, seed=4),
    w=_SCALE,
    s=_BIAS,
    v=normal(12, seed=5),
    t=normal(12, seed=6),
)


def _dropout_residual(
    x: Any, r: Any, b: Any, s: Any, t: Any, rate: float, test: bool, mode: str
) -> list[Any]:
    y, total = operator(
        "fused_bias_dropout_residual_layer_norm",
        {
            "x": x,
            "residual": r,
            "bias": b,
            "ln_scale": s,
            "ln_bias": t,
            "dropout_rate": rate,
            "is_test": test,
            "dropout_fix_seed": False,
            "dropout_seed": 0,
            "dropout_implementation": mode,
            "ln_epsilon": 0.125,
        },
        ("Y", "BiasDropoutResidualOut", "DropoutMaskOut", "LnMean", "LnVariance"),
        {"x": "X", "residual": "Residual", "bias": "Bias", "ln_scale": "LnScale",
         "ln_bias": "LnBias"},
    )[:2]  # fmt: skip
    total.desc.set_shape(list(x.shape))
    return [y, total]


_TRAIN, _INFER = "upscale_in_train", "downgrade_in_infer"

_add(
    "fused_bias_dropout_residual_layer_norm",
    lambda x, r, b, s, t: [
        *_dropout_residual(x, r, b, s, t, 0.0, False, _TRAIN),
        _dropout_residual(x, r, None, None, None, 0.5, True, _TRAIN)[0],
        _dropout_residual(x, r, b, s, t, 0.25, True, _INFER)[0],
        _dropout_residual(x, r, b, s, t, 1.0, False, _TRAIN)[0],
    ],
    gradient=("x", "r", "b", "s", "t"),
    gpu_only=True,
    oracle=lambda x, r, b, s, t: [
        layer_norm(x + b + r, s, t, 0.125),
        x + b + r,
        layer_norm(x + r, 1.0, 0.0, 0.125),
        layer_norm(0.75 * (x + b) + r, s, t, 0.125),
        layer_norm(0 * x + r, s, t, 0.125),
    ],
    x=_X,
    r=normal(2, 3, 4, seed=4),
    b=normal(4, seed=3),
    s=_SCALE,
    t=_BIAS,
)


def _check_halves(outputs: Any) -> None:
    """Ones, of which half is left out, plus a residual of ones: 1 or 3, and 1 or 2."""
    for total, most in ((outputs[2], 3.0), (outputs[3], 2.0)):
        kept = np.asarray(total) > 1.5
        np.testing.assert_allclose(np.asarray(total)[kept], most, rtol=1e-6)
        assert abs(kept.mean() - 0.5) < 0.06


_add(
    "fused_bias_dropout_residual_layer_norm",
    lambda x, r: [
        each
        for results in zip(
            *(_dropout_residual(x, r, None, None, None, 0.5, False, m) for m in (_TRAIN, _INFER)),
            strict=True,
        )
        for each in results
    ],
    gradient=("x",),
    label="dropout",
    gpu_only=True,
    check=_check_halves,
    x=np.ones((64, 32), np.float32),
    r=np.ones((64, 32), np.float32),
)

_SKIP = {"x": "X", "y": "Y", "scale": "Scale", "bias": "Bias"}
_add(
    "skip_layernorm",
    lambda x, y, s, b, v, t: [
        operator(
            "skip_layernorm",
            {"x": x, "y": y, "scale": scale, "bias": bias, "epsilon": e, "begin_norm_axis": axis},
            ("Out",),
            _SKIP,
        )[0]
        for scale, bias, e, axis in ((s, b, 0.125, 2), (v, t, 0.5, 1))
    ],
    gpu_only=True,
    oracle=lambda x, y, s, b, v, t: [
        layer_norm(x + y, s, b, 0.125),
        layer_norm((x + y).reshape(2, 12), v, t, 0.5).reshape(2, 3, 4),
    ],
    x=_X,
    y=normal(2, 3, 4, seed=3),
    s=_SCALE,
    b=_BIAS,
    v=normal(12, seed=5),
    t=normal(12, seed=6),
)
_add(
    "fused_embedding_eltwise_layernorm",
    lambda i, j, e, f, b, s: operator(
        "fused_embedding_eltwise_layernorm",
        {"ids": [i, j], "embs": [e, f], "bias": b, "scale": s, "epsilon": 0.125},
        ("Out",),
        {"ids": "Ids", "embs": "Embs", "bias": "Bias", "scale": "Scale"},
        shape=[2, 3, 4],
        dtype="float32",
    )[0],
    gpu_only=True,
    oracle=lambda i, j, e, f, b, s: layer_norm(e[i[..., 0]] + f[j[..., 0]], s, b, 0.125),
    i=integers(2, 3, 1),
    j=integers(2, 3, 1, seed=1),
    e=normal(5, 4),
    f=normal(5, 4, seed=1),
    b=_BIAS,
    s=_SCALE,
)


def _fc_norm(x: Any, w: Any, y: Any, b: Any, s: Any, t: Any, activation: str, columns: int = 1,
    axis: int = 1,
) -> Any:  # fmt: skip
    return operator(
        "fused_fc_elementwise_layernorm",
        {
            "x": x,
            "w": w,
            "y": y,
            "bias0": b,
            "scale": s,
            "bias1": t,
            "x_num_col_dims": columns,
            "activation_type": activation,
            "epsilon": 0.125,
            "begin_norm_axis": axis,
        },
        ("Out", "Mean", "Variance"),
        {"x": "X", "w": "W", "y": "Y", "bias0": "Bias0", "scale": "Scale", "bias1": "Bias1"},
        shape=y.shape,
    )[0]


_add(
    "fused_fc_elementwise_layernorm",
    lambda x, w, y, b, s, t, v, z: [
        _fc_norm(x, w, y, b, s, t, "relu"),
        _fc_norm(x, w, y, None, None, None, ""),
        _fc_norm(x, v, z, b, s, t, "", 2, 2),
    ],
    gpu_only=True,
    oracle=lambda x, w, y, b, s, t, v, z: [
        layer_norm(np.maximum(x.reshape(2, 6) @ w + b, 0) + y, s, t, 0.125),
        layer_norm(x.reshape(2, 6) @ w + y, 1.0, 0.0, 0.125),
        layer_norm(x @ v + b + z, s, t, 0.125),
    ],
    x=normal(2, 3, 2),
    w=normal(6, 4, seed=1),
    y=normal(2, 4, seed=2),
    b=normal(4, seed=3),
    s=_SCALE,
    t=_BIAS,
    v=normal(2, 4, seed=4),
    z=normal(2, 3, 4, seed=5),
)


def _group_norm(x: Array, s: Array | float, b: Array | float, groups: int) -> Array:
    grouped = layer_norm(x.reshape(x.shape[0], groups, -1), 1.0, 0.0, 0.125).reshape(x.shape)
    wide = [v if isinstance(v, float) else v.reshape(1, -1, 1, 1) for v in (s, b)]
    return np.asarray(grouped * wide[0] + wide[1])


def _group_silu(x: Any, r: Any, s: Any, b: Any, layout: str, activation: str) -> list[Any]:
    y, total = operator(
        "add_group_norm_silu",
        {
            "x": x,
            "residual": r,
            "scale": s,
            "bias": b,
            "epsilon": 0.125,
            "groups": 2,
            "data_format": layout,
            "activation": activation,
        },
        ("y", "residual_out", "mean", "variance"),
    )[:2]
    total.desc.set_shape(list(x.shape))
    return [y, total]


def _group_oracle(x: Array, r: Array, s: Array, b: Array) -> list[Array]:
    last = _group_norm(np.moveaxis(x + r, -1, 1), s[:2], b[:2], 2)
    return [
        silu(_group_norm(x + r, s, b, 2)),
        x + r,
        np.moveaxis(last, 1, -1),
        _group_norm(x, 1.0, 0.0, 2),
    ]


_add(
    "add_group_norm_silu",
    lambda x, r, s, b: [
        *_group_silu(x, r, s, b, "NCHW", "silu"),
        _group_silu(x, r, s[:2], b[:2], "NHWC", "")[0],
        _group_silu(x, None, None, None, "NCHW", "")[0],
    ],
    gpu_only=True,
    since=_NEW,
    oracle=_group_oracle,
    x=normal(2, 4, 3, 2),
    r=normal(2, 4, 3, 2, seed=1),
    s=_SCALE,
    b=_BIAS,
)


TABLE.refuse(
    "fused_rms_norm_quant",
    lambda x, w: functional.fused_rms_norm(x, w, None, 1e-5, 2, quant_scale=2.0)[0],
    "quantised results are not supported; give quant_scale -1",
    since=Since("3.3", "a wheel for CPUs cannot build it"),
    x=_X,
    w=_SCALE,
)

# -- by Paddle's own functions --------------------------------------------------------------------

_WHEEL = Since("3.3", "a wheel for CPUs cannot build it")
_add(
    "fused_bias_residual_layernorm",
    lambda x, w, s, b, r: [
        functional.fused_layer_norm(x, w, s, 0.125, begin_norm_axis=2)[0],
        functional.fused_layer_norm(x, w, s, 0.125, 0.5, 2, b, r)[0],
    ],
    label="fused_layer_norm",
    since=_WHEEL,
    oracle=lambda x, w, s, b, r: [
        layer_norm(x, w, s, 0.125),
        layer_norm(x + b + 0.5 * r, w, s, 0.125),
    ],
    x=_X,
    w=_SCALE,
    s=_BIAS,
    b=normal(4, seed=3),
    r=normal(2, 3, 4, seed=4),
)
_add(
    "fused_rms_norm_quant",
    lambda x, w, s: functional.fused_rms_norm(x, w, s, 0.125, 2)[0],
    label="fused_rms_norm",
    since=_WHEEL,
    oracle=lambda x, w, s: rms(x, w, 0.125) + s,
    x=_X,
    w=_SCALE,
    s=_BIAS,
)

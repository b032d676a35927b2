"""Cases of fused operators: matrix products with what stands around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle.incubate.nn.functional as functional

from tests.operators.cases.activation_oracles import relu
from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_NEW = Since("3.0", "the operator is newer")
_EXPANDED = Since("3.0", "its ProgramDesc form is read as plain operators")


def _fc(
    name: str, x: Any, w: Any, b: Any, columns: int, activation: str, padded: bool = False
) -> Any:
    return operator(
        name,
        {
            "input": x,
            "w": w,
            "bias": b,
            "in_num_col_dims": columns,
            "activation_type": activation,
            "padding_weights": padded,
        },
        ("out",),
        shape=[*x.shape[:columns], w.shape[1]],
    )[0]


def _fc_of(name: str) -> Any:
    return lambda x, w, v, b: [
        _fc(name, x, w, b, 1, "relu"),
        _fc(name, x, v, None, 2, ""),
    ]


_FC: dict[str, Any] = {
    "x": normal(2, 3, 4),
    "w": normal(12, 5, seed=1),
    "v": normal(4, 5, seed=2),
    "b": normal(5, seed=3),
}
_add("fc", _fc_of("fc"), since=_EXPANDED, **_FC)
_add(
    "fc",
    lambda x, w, b: _fc("fc", x, w, b, 2, "relu", padded=True),
    label="padded weights",
    since=_EXPANDED,
    x=_FC["x"],
    w=normal(8, 9, seed=4),
    b=_FC["b"],
)
_add(
    "gemm_epilogue",
    _fc_of("gemm_epilogue"),
    gpu_only=True,
    since=_NEW,
    oracle=lambda x, w, v, b: [relu(x.reshape(2, 12) @ w + b), x @ v],
    **_FC,
)
TABLE.refuse(
    "fusion_squared_mat_sub",
    lambda x, y: operator(
        "fusion_squared_mat_sub",
        {"x": x, "y": y, "scalar": 0.5},
        ("SquaredX", "SquaredY", "SquaredXY", "Out"),
        {"x": "X", "y": "Y"},
    )[0],
    "its result squared_x cannot be read; compute it apart",
    gpu_only=True,
    x=normal(3, 4),
    y=normal(4, 5, seed=1),
)
TABLE.refuse(
    "gemm_epilogue",
    lambda x, w: operator(
        "gemm_epilogue",
        {
            "input": x,
            "w": w,
            "bias": None,
            "in_num_col_dims": 1,
            "activation_type": "",
            "padding_weights": True,
        },
        ("out",),
    )[0],
    "padded weights are not supported",
    gpu_only=True,
    since=_NEW,
    x=normal(2, 4),
    w=normal(4, 4),
)


def _tanh_gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), x.dtype)


_FUSED = Since("3.0", "the operator is not among those of Paddle 2.6 for CPUs")
_add(
    "fused_gemm_epilogue",
    lambda x, w, v, b: [
        functional.fused_linear(x, w, b),
        functional.fused_linear(x, v, b, transpose_weight=True),
        functional.fused_matmul_bias(x[0], w, b),
        functional.fused_linear_activation(x[1].transpose([1, 0]), w, b, True, activation="none"),
    ],
    gradient=("x", "w", "v", "b"),
    since=_FUSED,
    oracle=lambda x, w, v, b: [
        x @ w + b,
        x @ v.T + b,
        x[0] @ w + b,
        x[1] @ w + b,
    ],
    x=normal(2, 8, 8),
    w=normal(8, 8, seed=1),
    v=normal(8, 8, seed=2),
    b=normal(8, seed=3),
)
_add(
    "fused_gemm_epilogue",
    lambda x, w, b: [
        functional.fused_linear_activation(x, w, b, activation="relu"),
        functional.fused_linear_activation(x, w, b, activation="gelu"),
    ],
    label="with activation",
    since=_FUSED,
    oracle=lambda x, w, b: [relu(x @ w + b), _tanh_gelu(x @ w + b)],
    # The kernel takes multiples of 128 only; PIR has no backward of it.
    x=normal(2, 8),
    w=normal(8, 128, seed=1),
    b=normal(128, seed=3),
)
_add(
    "fusion_repeated_fc_relu",
    lambda x, u, v, b, c: operator(
        "fusion_repeated_fc_relu",
        {"x": x, "w": [u, v], "bias": [b, c]},
        ("ReluOut", "Out"),
        {"x": "X", "w": "W", "bias": "Bias"},
    )[-1],
    x=normal(3, 4),
    u=normal(4, 5, seed=1),
    v=normal(5, 2, seed=2),
    b=normal(5, seed=3),
    c=normal(2, seed=4),
)
_add(
    "fusion_squared_mat_sub",
    lambda x, y: operator(
        "fusion_squared_mat_sub",
        {"x": x, "y": y, "scalar": 0.5},
        ("SquaredX", "SquaredY", "SquaredXY", "Out"),
        {"x": "X", "y": "Y"},
    )[-1],
    x=normal(3, 4),
    y=normal(4, 5, seed=1),
)
_add(
    "fusion_transpose_flatten_concat",
    lambda x, y: [
        operator(
            "fusion_transpose_flatten_concat",
            {"x": given, "trans_axis": order, "flatten_axis": at, "concat_axis": axis},
            ("Out",),
            {"x": "X"},
            shape=shape,
        )[0]
        for given, order, at, axis, shape in (
            ([x, y], [0, 2, 3, 1], 1, 1, [2, 36]),
            ([x, x], [1, 0, 2, 3], 2, 0, [12, 4]),
        )
    ],
    gpu_only=True,
    oracle=lambda x, y: [
        np.concatenate([np.moveaxis(array, 1, 3).reshape(2, -1) for array in (x, y)], axis=1),
        np.concatenate([np.moveaxis(x, 0, 1).reshape(6, -1)] * 2),
    ],
    x=normal(2, 3, 2, 2),
    y=normal(2, 3, 4, 2, seed=1),
)
_add(
    "batch_fc",
    lambda x, w, b: operator(
        "batch_fc",
        {"input": x, "w": w, "bias": b},
        ("Out",),
        {"input": "Input", "w": "W", "bias": "Bias"},
        shape=[2, 3, 5],
    )[0],
    gradient=("x", "w", "b"),
    gpu_only=True,
    oracle=lambda x, w, b: x @ w + b[:, None],
    x=normal(2, 3, 4),
    w=normal(2, 4, 5, seed=1),
    b=normal(2, 5, seed=2),
)
_add(
    "apply_per_channel_scale",
    lambda x, s: operator("apply_per_channel_scale", {"x": x, "scales": s}, ("out",))[0],
    gpu_only=True,
    since=_NEW,
    oracle=lambda x, s: x * s,
    x=normal(3, 4),
    s=uniform(4),
)

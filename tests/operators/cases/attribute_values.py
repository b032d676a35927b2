"""Cases of attributes with a value beside the default that no other row gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import by_operator, vision_by_operator
from tests.operators.cases.one_operator import call, operator
from tests.operators.operator_case import (
    CaseTable,
    Since,
    floats,
    integers,
    normal,
    uniform,
)

TABLE = CaseTable()
_add = TABLE.add

_FLOAT = "float32"
_AROUND_ZERO = floats(-2.0, -0.6, -0.31, -0.25, -0.0, 0.0, 0.2, 0.35, 0.5, 3.0)
_IMAGE, _VOLUME = normal(2, 3, 6, 7), normal(1, 2, 4, 5, 6)

# -- activations ----------------------------------------------------------------------------------

for _op, _function in (
    ("hardshrink", lambda x: F.hardshrink(x, 0.3)),
    ("softshrink", lambda x: F.softshrink(x, 0.3)),
    ("hardsigmoid", lambda x: F.hardsigmoid(x, 0.25, 0.375)),
    ("selu", lambda x: F.selu(x, 1.25, 1.5)),
    ("stanh", lambda x: paddle.stanh(x, 0.5, 2.0)),
    ("thresholded_relu", lambda x: F.thresholded_relu(x, -0.4)),
):
    _add(_op, _function, gradient=("x",), label="own numbers", x=_AROUND_ZERO)
TABLE.refuse(
    "mish",
    lambda x: call("mish", [x, 2.0], {"X": x}, {"Out": _FLOAT}, threshold=2.0),
    "its threshold must be 20, got 2.0",
    x=_AROUND_ZERO,
)

# -- creation -------------------------------------------------------------------------------------

_add(
    "linspace",
    lambda x: [paddle.linspace(1, 9, 5, dtype="int32") + x, paddle.linspace(0, 1, 3, "float64")],
    label="dtypes",
    x=integers(5, dtype="int32"),
)
_add(
    "full_int_array",
    lambda x: paddle._C_ops.full_int_array([4, 7, 2], paddle.int32, paddle.CPUPlace()) + x,
    label="int32",
    since=Since("3.0", "lists of numbers are attributes"),
    x=integers(3, dtype="int32"),
)
_add(
    "empty_like",
    lambda x: paddle.full_like(paddle._C_ops.empty_like(x, paddle.int32, paddle.CPUPlace()), 3),
    label="int32",
    since=Since("3.0", "there is no such operator"),
    x=normal(2, 3),
)
_add(
    "full_with_tensor",
    lambda x: paddle.full(paddle.shape(x)[:2], 7, dtype="int32") + x.cast("int32"),
    label="int32",
    x=normal(2, 3) * 9,
)


def _like_int32(x: Any) -> Any:
    if paddle.framework.in_pir_mode():
        place = paddle.CPUPlace()
        return paddle._C_ops.full_batch_size_like(x, [-1, 4], paddle.int32, 3.0, 0, 0, place)
    (out,) = call(
        "fill_constant_batch_size_like",
        [],
        {"Input": x},
        {"Out": "int32"},
        shape=[-1, 4],
        dtype=2,
        value=3.0,
        str_value="3",
        input_dim_idx=0,
        output_dim_idx=0,
    )
    return out


_add("full_batch_size_like", _like_int32, label="int32", x=normal(2, 3))

# -- order and indices ----------------------------------------------------------------------------

_add(
    "argsort",
    lambda x: [paddle.argsort(x, stable=True), paddle.argsort(x, 0, True, stable=True)],
    label="stable",
    since=Since("3.0", "the function has no stable"),
    x=np.floor(normal(5, 40) * 2),
)
_add(
    "trace",
    lambda x: [paddle.trace(x, 1, 1, 2), paddle.trace(x, 0, -1, 0)],
    gradient=("x",),
    label="axes",
    x=normal(3, 4, 5),
)
_add(
    "shard_index",
    lambda i: [paddle.shard_index(i, 23, 3, 1), paddle.shard_index(i, 20, 3, 1)],
    label="another number of indices",
    i=np.arange(20).reshape(20, 1),
)
_add(
    "number_count",
    lambda x: by_operator.number_count(x, 6),
    label="more numbers",
    oracle=lambda x: np.bincount(x[x >= 0], minlength=6),
    x=np.asarray([0, 3, 1, -1, 3, 5], np.int64),
)
_add(
    "trans_layout",
    lambda x: paddle._C_ops.trans_layout(x, [1, 0, 2]),
    gradient=("x",),
    label="another order",
    since=Since("3.0", "there is no such operator"),
    x=normal(2, 3, 4),
)
_LISTED = np.asarray([3.0, 1.0, 1.0, 2.0, 3.0, 3.0], np.float32)
_add(
    "unique",
    lambda x: [
        each * x if at == 0 else each
        for at, each in enumerate(
            paddle.unique(
                paddle.assign(_LISTED),
                return_index=True,
                return_inverse=True,
                return_counts=True,
            )
        )
    ],
    label="indices and counts",
    x=normal(1),
)
_add(
    "unique",
    lambda x: [
        each * x if at == 0 else each
        for at, each in enumerate(
            paddle.unique(paddle.assign(_LISTED), return_inverse=True, dtype="int32")
        )
    ],
    label="int32 places",
    x=normal(1),
)
_add(
    "unique_consecutive",
    lambda x: [
        each * x if at == 0 else each
        for at, each in enumerate(
            paddle.unique_consecutive(
                paddle.assign(_LISTED), return_inverse=True, return_counts=True
            )
        )
    ],
    label="inverse and counts",
    x=normal(1),
)
_add(
    "frobenius_norm",
    lambda x: call(
        "frobenius_norm", [x, [0, 1, 2], False, True], {"X": x}, {"Out": _FLOAT},
        dim=[0], keep_dim=False, reduce_all=True,
    ),
    gradient=("x",),
    label="over all",
    x=normal(2, 3, 4),
)  # fmt: skip

# -- convolution and pooling ----------------------------------------------------------------------

_add(
    "depthwise_conv2d_transpose",
    lambda x, w: [
        F.conv2d_transpose(x, w, stride=2, output_padding=1, groups=4),
        F.conv2d_transpose(x, w, stride=2, padding="SAME", groups=4),
        F.conv2d_transpose(x, w, stride=3, padding=1, groups=4),
    ],
    gradient=("x", "w"),
    label="paddings",
    x=normal(1, 4, 3, 5),
    w=normal(4, 1, 3, 3),
)
_CEIL = Since("3.0", "the operator has no ceil_mode")
_add(
    "max_pool2d_with_index",
    lambda x: [*F.max_pool2d(x, 2, 2, ceil_mode=True, return_mask=True)],
    gradient=("x",),
    label="ceil_mode",
    since=_CEIL,
    x=_IMAGE,
)
_add(
    "max_pool3d_with_index",
    lambda x: [*F.max_pool3d(x, 2, 2, ceil_mode=True, return_mask=True)],
    gradient=("x",),
    label="ceil_mode",
    since=_CEIL,
    x=_VOLUME,
)


def _global_maximum(x: Any, rank: int) -> list[Any]:
    kind = f"max_pool{rank}d_with_index"
    size, ones, zeros = [2] * rank, [1] * rank, [0] * rank
    return call(
        kind,
        [x, size, ones, zeros, True, False, False],
        {"X": x},
        {"Out": _FLOAT, "Mask": "int32"},
        ksize=size,
        strides=ones,
        paddings=zeros,
        global_pooling=True,
    )


for _rank, _array in ((2, _IMAGE), (3, _VOLUME)):
    _add(
        f"max_pool{_rank}d_with_index",
        lambda x, rank=_rank: _global_maximum(x, rank),
        gradient=("x",),
        label="global",
        x=_array,
    )


def _lp(
    x: Any, size: int, all_of_it: bool, adaptive: bool, padding: str, order: float = 2.0
) -> Any:
    return paddle._C_ops.lp_pool2d(
        x,
        [size] * 2,
        [2] * 2,
        [0] * 2,
        False,
        True,
        "NCHW",
        "lp",
        all_of_it,
        adaptive,
        padding,
        order,
    )


_add(
    "lp_pool2d",
    lambda x: [
        _lp(x, 2, True, False, "EXPLICIT"),
        _lp(x, 3, False, True, "EXPLICIT"),
        _lp(x, 3, False, False, "SAME"),
    ],
    gradient=("x",),
    label="by operator",
    since=Since("3.0", "there is no such operator"),
    x=uniform(2, 3, 6, 7, low=0.5, high=2.0),
)
_add(
    "lp_pool2d",
    lambda x: _lp(x, 2, True, False, "EXPLICIT", np.inf),
    gradient=("x",),
    label="by operator, of infinite order",
    since=Since("3.0", "there is no such operator"),
    x=normal(2, 3, 6, 7),
)
_add(
    "unpool3d",
    lambda x, n: F.max_unpool3d(x, n, 3, stride=[1, 2, 2], padding=1),
    gradient=("x",),
    label="a padded window",
    x=normal(1, 2, 1, 2, 2),
    n=np.asarray([[[[[0, 3], [8, 5]]], [[[5, 6], [2, 1]]]]], np.int32),
)
_add(
    "anchor_generator",
    lambda x: vision_by_operator.anchor_generator(
        x, [16.0], [0.25, 2.0, 3.0], [0.2, 0.3, 0.5, 0.7], [8.0, 10.0], 0.5
    ),
    label="own numbers",
    x=normal(1, 2, 3, 4),
)

# -- quantisation ---------------------------------------------------------------------------------

for _kind in (
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
):
    _add(
        _kind,
        lambda x, s, kind=_kind: call(
            kind,
            [x, s, None, None, 0.9, 8, True, 0],
            {"X": x, "InScale": s},
            {"Out": _FLOAT, "OutScale": _FLOAT},
            is_test=True,
            round_type=0,
        )[0],
        gradient=("x",) if "dequantize" in _kind else (),
        label="halves to even",
        since=Since("3.0", "the operator has no round_type"),
        x=floats(2.0, 1.0 / 127, 3.0 / 127, -1.0 / 127, -3.0 / 127, 0.0, -2.0, 5.0 / 127),
        s=floats(2.0),
    )
_add(
    "fake_quantize_range_abs_max",
    lambda x, s, n: call(
        "fake_quantize_range_abs_max",
        [x, s, n, 100, 8, True, 0],
        {"X": x, "InScale": s, "Iter": n},
        {"Out": _FLOAT, "OutScale": _FLOAT, "OutScales": _FLOAT},
        window_size=100,
        bit_length=8,
        is_test=True,
        round_type=0,
    )[0],
    label="halves to even",
    since=Since("3.0", "the operator has no round_type"),
    x=floats(2.0, 1.0 / 127, 3.0 / 127, -1.0 / 127, -3.0 / 127, 0.0, -2.0, 5.0 / 127),
    s=floats(2.0),
    n=np.asarray([3]),
)
_add(
    "fake_dequantize_max_abs",
    lambda x, s: call(
        "fake_dequantize_max_abs", [x, s, 31.0], {"X": x, "Scale": s}, {"Out": _FLOAT},
        max_range=31.0,
    ),
    label="another range",
    x=normal(3, 4),
    s=floats(1.5),
)  # fmt: skip
_add(
    "dequantize_abs_max",
    lambda x, s: call(
        "dequantize_abs_max", [x, s, 127.0], {"X": x, "Scale": s}, {"Out": _FLOAT},
        max_range=127.0,
    ),
    label="another range",
    x=integers(3, 4, low=-128, high=128, dtype="int8"),
    s=floats(1.5),
)  # fmt: skip

# -- the host -------------------------------------------------------------------------------------

_add(
    "print",
    lambda x: paddle.static.Print(
        x * 2,
        print_tensor_name=False,
        print_tensor_type=False,
        print_tensor_shape=False,
        print_tensor_layout=False,
        print_tensor_lod=False,
        print_phase="forward",
    ),
    gradient=("x",),
    label="values only",
    x=normal(3, 4),
)

# -- the one value of the kernels -----------------------------------------------------------------

_TRANSPOSES = {"transpose_q": False, "transpose_k": True, "transpose_v": False}
_LAYER = {"input": "Input", "w": "W", "bias": "Bias", "bias_qk": "BiasQK"} | {
    name: f"transpose_{name[-1].upper()}" for name in _TRANSPOSES
}


def _layer(x: Any, w: Any, b: Any, changed: str) -> Any:
    values = _TRANSPOSES | {changed: not _TRANSPOSES[changed]}
    given = {"input": x, "w": w, "bias": b, "bias_qk": None, **values}
    return operator(
        "multihead_matmul", {**given, "alpha": 0.5, "head_number": 2}, ("Out",), _LAYER
    )[0]


for _name, _right in _TRANSPOSES.items():
    TABLE.refuse(
        "multihead_matmul",
        lambda x, w, b, name=_name: _layer(x, w, b, name),
        f"{_name} is {not _right}; expected {_right}",
        gpu_only=True,
        x=normal(2, 4, 6),
        w=normal(6, 3, 2, 3, seed=1),
        b=normal(3, 2, 3, seed=2),
    )
TABLE.refuse(
    "top_p_sampling",
    lambda x, p: operator(
        "top_p_sampling", {"x": x, "ps": p, "mode": "non-truncated"}, ("out", "ids"), shape=[2, 1]
    )[0],
    "mode is 'non-truncated'; expected 'truncated'",
    since=Since("3.0", "the operator has no mode"),
    gpu_only=True,
    x=np.full((2, 4), 0.25, np.float32),
    p=np.full((2, 1), 0.5, np.float32),
)

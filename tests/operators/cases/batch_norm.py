"""Cases of batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import CaseTable, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_STATISTICS: Any = {"m": normal(3, seed=1), "v": uniform(3)}
_WEIGHTS: Any = {"w": normal(3, seed=2), "b": normal(3, seed=3)}


def _seen(y: Any, m: Any, v: Any) -> list[Any]:
    """The result, and the running statistics as they are afterwards."""
    return [y, paddle.assign(m), paddle.assign(v)]


_add(
    "batch_norm",
    lambda x, m, v, w, b: [
        F.batch_norm(x, m, v, w, b),
        F.batch_norm(x, m, v, w, b, use_global_stats=True, epsilon=1e-3),
        F.batch_norm(x[:, :, 0, 0], m, v, w, b),
    ],
    gradient=("x", "w", "b"),
    x=normal(2, 3, 4, 4),
    **_STATISTICS,
    **_WEIGHTS,
)
_add(
    "batch_norm",
    lambda x, m, v: [
        F.batch_norm(x, m, v, training=True, use_global_stats=True, data_format="NHWC"),
        F.batch_norm(x[:, 0, 0], m, v, data_format="NHWC"),
    ],
    label="running statistics, channels last, without weights",
    x=normal(2, 4, 4, 3),
    **_STATISTICS,
)
for _label, _dims in {
    "a matrix": (5, 3),
    "one axis": (4, 3, 6),
    "an image": (2, 3, 4, 5),
    "a volume": (2, 3, 2, 3, 4),
}.items():
    _add(
        "batch_norm",
        lambda x, m, v, w, b: _seen(F.batch_norm(x, m, v, w, b, training=True), m, v),
        gradient=("x", "w", "b"),
        label=f"batch statistics of {_label}",
        x=normal(*_dims),
        **_STATISTICS,
        **_WEIGHTS,
    )
for _training in (False, True):
    _add(
        "batch_norm",
        lambda x, m, v, w, b, training=_training: F.batch_norm(x, m, v, w, b, training=training),
        gradient=("x", "w", "b"),
        label=f"infinities and NaN stay in their channel, {'batch' if _training else 'running'}",
        x=normal(4, 3) + np.asarray([[0] * 3, [np.inf, 0, np.nan], [0] * 3, [0] * 3], np.float32),
        **_STATISTICS,
        **_WEIGHTS,
    )
for _layout, _dims in {"NLC": (4, 5, 3), "NHWC": (2, 4, 5, 3), "NDHWC": (2, 2, 3, 4, 3)}.items():
    _add(
        "batch_norm",
        lambda x, m, v, w, b, layout=_layout: _seen(
            F.batch_norm(x, m, v, w, b, training=True, data_format=layout, momentum=0.3), m, v
        ),
        gradient=("x", "w", "b"),
        label=f"batch statistics, {_layout}",
        x=normal(*_dims),
        **_STATISTICS,
        **_WEIGHTS,
    )
_add(
    "batch_norm",
    lambda x, m, v: _seen(F.batch_norm(x, m, v, training=True, epsilon=5e-4), m, v),
    label="batch statistics without weights",
    x=normal(2, 3, 4, 4),
    **_STATISTICS,
)
_add(
    "batch_norm",
    lambda x, m, v, w, b: _seen(F.batch_norm(x, m, v, w, b, use_global_stats=False), m, v),
    gradient=("x", "w", "b"),
    label="batch statistics outside training",
    x=normal(2, 3, 4, 4),
    **_STATISTICS,
    **_WEIGHTS,
)
_add(
    "batch_norm",
    lambda x, m, v, w, b: _seen(
        F.batch_norm(F.batch_norm(x, m, v, w, b, training=True), m, v, w, b, training=True), m, v
    ),
    gradient=("x", "w", "b"),
    label="twice with the same statistics",
    x=normal(4, 3, 5),
    **_STATISTICS,
    **_WEIGHTS,
)
_add(
    "batch_norm",
    lambda x, m, v, w, b: _seen(F.batch_norm(x, m, v, w, b, training=True), m, v),
    gradient=("x",),
    label="one element a channel",
    x=normal(1, 3, 1, 1),
    **_STATISTICS,
    **_WEIGHTS,
)
_add(
    "batch_norm",
    lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True),
    gradient=("w", "b"),
    label="a channel of one value",
    x=np.stack([np.full((4, 5), 0.5, np.float32), normal(4, 5), normal(4, 5, seed=1)], axis=1),
    **_STATISTICS,
    **_WEIGHTS,
)


def _saved(x: Any, m: Any, v: Any, w: Any, b: Any, **attributes: Any) -> list[Any]:
    """The result with the saved mean and 1 / standard deviation, which no public function gives."""
    if paddle.framework.in_pir_mode():
        results = paddle._C_ops.batch_norm_(
            x, m, v, w, b, attributes["is_test"], 0.9, 1e-5, "NCHW", False, False
        )
        return [results[0], results[3], results[4]]
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper("batch_norm")
    made = {
        slot: helper.create_variable_for_type_inference(x.dtype)
        for slot in ("Y", "SavedMean", "SavedVariance", "ReserveSpace")
    }
    helper.append_op(
        type="batch_norm",
        inputs={"X": x, "Mean": m, "Variance": v, "Scale": w, "Bias": b},
        outputs={**made, "MeanOut": m, "VarianceOut": v},
        attrs={"momentum": 0.9, "epsilon": 1e-5, "data_layout": "NCHW", **attributes},
    )
    return [made["Y"], made["SavedMean"], made["SavedVariance"]]


_add(
    "batch_norm",
    lambda x, m, v, w, b: _saved(x, m, v, w, b, is_test=False),
    label="saved statistics",
    x=normal(2, 3, 4, 4),
    **_STATISTICS,
    **_WEIGHTS,
)
TABLE.refuse(
    "batch_norm",
    lambda x, m, v, w, b: _saved(x, m, v, w, b, is_test=True),
    "with running statistics its saved_mean and saved_variance hold nothing",
    x=normal(2, 3, 4, 4),
    **_STATISTICS,
    **_WEIGHTS,
)

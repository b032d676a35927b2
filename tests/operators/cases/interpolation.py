"""Cases of interpolation."""

from __future__ import annotations

from typing import Any

import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases import vision_by_operator
from tests.operators.cases.one_operator import either
from tests.operators.operator_case import CaseTable, normal

TABLE = CaseTable()
_add = TABLE.add

_LINE, _IMAGE, _VOLUME = normal(2, 3, 5), normal(2, 3, 5, 6), normal(1, 2, 4, 4, 5)


def _all_ways(mode: str, x: Any, **fixed: Any) -> list[Any]:
    """Larger and smaller, by size and by scale, in both layouts, corners aligned or not."""
    rank = len(x.shape) - 2
    first, last = (("NCW", "NWC"), ("NCHW", "NHWC"), ("NCDHW", "NDHWC"))[rank - 1]
    # Paddle 3.3 alone reads the middle where it gives one element, and only in these two.
    one = 2 if mode in ("linear", "trilinear") else 1
    made = []
    for corners in (False,) if mode == "nearest" else (False, True):
        more = {**fixed, "mode": mode, "align_corners": corners}
        made += [
            F.interpolate(x, size=[7, 9, 4][:rank], data_format=first, **more),
            F.interpolate(x, size=[one, 3, 2][:rank], data_format=first, **more),
        ]
        if corners:
            continue
        made += [
            F.interpolate(x, scale_factor=[1.6, 2.3, 0.7][:rank], data_format=first, **more),
            F.interpolate(x, scale_factor=0.5, data_format=first, **more),
        ]
        turned = paddle.transpose(x, [0, *range(2, rank + 2), 1])
        made.append(F.interpolate(turned, size=[7, 3, 6][:rank], data_format=last, **more))
    return made


for _op, _mode, _input in (
    ("linear_interp", "linear", _LINE),
    ("bilinear_interp", "bilinear", _IMAGE),
    ("bicubic_interp", "bicubic", _IMAGE),
    ("trilinear_interp", "trilinear", _VOLUME),
    ("nearest_interp", "nearest", _IMAGE),
):
    _add(
        _op,
        lambda x, mode=_mode: _all_ways(mode, x),
        gradient=("x",),
        limitation="the single element of an axis of length one is the first, as in Paddle to 3.2"
        if _mode in ("linear", "trilinear")
        else "",
        x=_input,
    )
for _op, _mode, _input in (
    ("linear_interp", "linear", _LINE),
    ("bilinear_interp", "bilinear", _IMAGE),
    ("trilinear_interp", "trilinear", _VOLUME),
):
    _add(
        _op,
        lambda x, mode=_mode: _all_ways(mode, x, align_mode=1),
        gradient=("x",),
        label="align mode 1",
        x=_input,
    )
_add(
    "nearest_interp",
    lambda x: _all_ways("nearest", x),
    gradient=("x",),
    label="volume",
    x=_VOLUME,
)
_add(
    "nearest_interp",
    lambda x: [
        vision_by_operator.nearest_interp(x, [7, 9], align_corners=True),
        vision_by_operator.nearest_interp(x, [2, 3], align_corners=True),
    ],
    gradient=("x",),
    label="corners aligned",
    x=_IMAGE,
)
_add(
    "bilinear_interp",
    lambda x: [
        F.interpolate(x, size=[paddle.full([1], 7, "int32"), 8], mode="bilinear"),
        F.interpolate(x, size=paddle.full([2], 7, "int32"), mode="bilinear"),
        F.interpolate(x, scale_factor=paddle.full([1], 1.5), mode="bilinear"),
        F.upsample(x, size=[5, 6], mode="bilinear"),
    ],
    label="constant tensors",
    x=_IMAGE,
)


def _first_version(x: Any, mode: str, align: bool, size: list[int], scale: float) -> Any:
    """The operator as programs before Paddle 2.0 have it, whose scale gives the size alone."""
    from_scale = [int(dim * scale) for dim in x.shape[2:]] if scale else size
    return either(
        lambda: F.interpolate(x, size=from_scale, mode=mode, align_corners=align),
        f"{mode}_interp",
        {"X": x},
        "float32",
        out_h=size[0],
        out_w=size[1],
        scale=scale,
        interp_method=mode,
        align_corners=align,
        align_mode=0,
        data_layout="NCHW",
    )


for _mode, _align in (("bilinear", True), ("bilinear", False), ("nearest", False)):
    _add(
        f"{_mode}_interp",
        lambda x, mode=_mode, align=_align: [
            _first_version(x, mode, align, [7, 9], 0.0),
            _first_version(x, mode, align, [7, 9], 1.7),
        ],
        label=f"first version, {'corners aligned' if _align else 'plain'}",
        x=_IMAGE,
    )
TABLE.refuse(
    "bilinear_interp",
    lambda x, size: F.interpolate(x, size=size, mode="bilinear"),
    "'out_size' must be a constant",
    x=_IMAGE,
    size=normal(2).astype("int32"),
)

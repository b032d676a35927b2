"""Cases of tensors without elements, and of an axis of a single number, which has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention
import paddle.vision.ops as V  # noqa: N812 - beside F

from tests.operators.operator_case import Array, CaseTable, Since, normal

TABLE = CaseTable()
_add = TABLE.add

_EMPTY = Since("3.3", "kernels refuse, or crash on, tensors without elements")


def _none(*shape: int, dtype: str = "float32") -> Array:
    return np.zeros(shape, dtype)


def _along(function: Any, *axes: int | None) -> Any:
    return lambda x: [function(x, axis=axis) for axis in axes]


for _dtype in ("float32", "int32", "bool"):
    for _op in ("any", "all"):
        _add(_op, _along(getattr(paddle, _op), None, 0, 1), label=f"empty {_dtype}",
             since=_EMPTY, x=_none(0, 3, dtype=_dtype))  # fmt: skip
    _add("median", _along(paddle.median, None, 0, 1), label=f"empty {_dtype}", since=_EMPTY,
         x=_none(0, 3, dtype=_dtype))  # fmt: skip
    _add("equal_all", lambda x: paddle.equal_all(x, x), label=f"empty {_dtype}", since=_EMPTY,
         x=_none(0, 3, dtype=_dtype))  # fmt: skip
    _add("allclose", lambda x: paddle.allclose(x, x), label=f"empty {_dtype}", since=_EMPTY,
         x=_none(0, 3, dtype=_dtype))  # fmt: skip
_add("mean", _along(paddle.mean, None, 0, 1), label="empty bool", since=_EMPTY,
     x=_none(2, 0, dtype="bool"))  # fmt: skip
_add("mean", _along(paddle.mean, None, 0, 1), label="empty", since=_EMPTY, x=_none(2, 0))
_add("mean", _along(paddle.mean, 0), label="empty int32", since=_EMPTY,
     x=_none(2, 0, dtype="int32"))  # fmt: skip
for _name in ("var", "std"):
    _add("mean", _along(getattr(paddle, _name), None, 0, 1), label=f"empty {_name}", since=_EMPTY,
         x=_none(0, 3))  # fmt: skip
_add("nanmedian", _along(paddle.nanmedian, None, 0, 1), label="empty", since=_EMPTY, x=_none(0, 3))
for _function in (paddle.median, paddle.nanmedian):
    _add(_function.__name__,
         lambda x, f=_function: [found for axis in (0, 1) for found in f(x, axis, mode="min")],
         label="empty with places", since=_EMPTY, x=_none(0, 3))  # fmt: skip
_add("max", _along(paddle.max, 1), label="empty", since=_EMPTY, x=_none(0, 3))
_add("amin", _along(paddle.amin, 1), label="empty", since=_EMPTY, x=_none(0, 3))
for _op in ("argmax", "argmin"):
    _add(_op, _along(getattr(paddle, _op), 1), label="empty", since=_EMPTY, x=_none(0, 3))
for _dtype in ("float32", "int32"):
    _add("histogram", lambda x: paddle.histogram(x, 4), label=f"empty {_dtype}", since=_EMPTY,
         x=_none(0, 3, dtype=_dtype))  # fmt: skip
_add("remainder", paddle.gcd, label="empty gcd", since=_EMPTY, x=_none(0, 3, dtype="int32"),
     y=_none(0, 3, dtype="int32"))  # fmt: skip
_add("remainder", paddle.lcm, label="empty lcm", since=_EMPTY, x=_none(0, 3, dtype="int32"),
     y=_none(0, 3, dtype="int32"))  # fmt: skip

# No index picks and changes nothing.
_INDEX = np.zeros(0, np.int64)
for _rows in (0, 3):
    _x = normal(_rows, 3)
    for _op, _build in {
        "scatter": lambda x, i: paddle.scatter(x, i, paddle.ones([0, 3])),
        "scatter_nd_add": lambda x, i: paddle.scatter_nd_add(
            x, i.unsqueeze(-1), paddle.ones([0, 3])
        ),
        "index_add": lambda x, i: paddle.index_add(x, i, 0, paddle.ones([0, 3])),
        "index_put": lambda x, i: paddle.index_put(x, (i,), paddle.ones([0, 3])),
        "put_along_axis": lambda x, i: paddle.put_along_axis(
            x, i.unsqueeze(-1), paddle.ones([0, 1]), 0
        ),
        "take_along_axis": lambda x, i: paddle.take_along_axis(x, i.unsqueeze(-1), 0),
    }.items():
        if _op.endswith("along_axis") and not _rows:
            continue
        _add(_op, _build, label=f"no index of {_rows}", since=_EMPTY, x=_x, i=_INDEX)
_add("scatter_nd_add", lambda x, i: paddle.scatter_nd(i.unsqueeze(-1), x, [4, 3]),
     label="scatter_nd without an index", since=_EMPTY, x=_none(0, 3), i=_INDEX)  # fmt: skip
_add("index_add", lambda x, i: paddle.index_add(x, i, 0, paddle.ones([2, 0])),
     label="empty rows", since=_EMPTY, x=_none(3, 0), i=np.asarray([0, 2]))  # fmt: skip

_add("gather", lambda x, i: paddle.gather(x, i), label="no index of two axes", since=_EMPTY,
     x=_none(7, 2), i=_none(7, 0, dtype="int32"))  # fmt: skip
_add("cumsum", lambda x: paddle._C_ops.cumsum(x, 1, False, True, True), label="empty, exclusive",
     since=_EMPTY, x=_none(2, 0))  # fmt: skip

# Results that are not there.
for _op in ("argmin", "argmax", "amax", "amin"):
    TABLE.refuse(_op, getattr(paddle, _op), rf"\[0, 3\] has no {_op} over an axis of no elements",
                 since=_EMPTY, x=_none(0, 3))  # fmt: skip
TABLE.refuse("mean", paddle.mean, r"\[0, 3\] has no mean over an axis of no elements",
             since=_EMPTY, x=_none(0, 3, dtype="int32"))  # fmt: skip
TABLE.refuse("nanmedian", paddle.nanmedian, r"\[0, 3\] has no median .* int32 cannot be NaN",
             since=_EMPTY, x=_none(0, 3, dtype="int32"))  # fmt: skip

# A number has no axis, and Paddle takes one.
_ONE = np.asarray(3, np.int64)
_SINGLE = Since("3.0", "the axis of a single number is refused")
for _op in ("sum", "mean", "prod", "max", "min", "amax", "amin", "any", "all", "argmax", "argmin"):
    _add(_op, _along(getattr(paddle, _op), None, 0, -1), label="number", since=_SINGLE, x=_ONE)
_add("argsort", lambda x: [paddle.sort(x), paddle.argsort(x)], label="number", since=_SINGLE,
     x=_ONE)  # fmt: skip
_add("argmax", lambda x: paddle.argmax(x, axis=-1, keepdim=True), label="number kept",
     since=_SINGLE, x=_ONE)  # fmt: skip
_add("topk", lambda x: paddle.topk(x, 1), label="number", since=_SINGLE, x=_ONE)
_add("logsumexp", _along(paddle.logsumexp, None, 0, -1), label="number", since=_SINGLE, x=_ONE)
_add("median", _along(paddle.median, 0, -1), label="number",
     since=Since("3.2", "median is made of other operators"), x=_ONE)  # fmt: skip
_add("index_add", lambda x, i: paddle._C_ops.index_add(x, i, paddle.ones([0]), 0),
     label="number", since=_EMPTY, x=np.asarray(3, np.float32), i=_INDEX)  # fmt: skip
_add("p_norm", lambda x: [paddle.linalg.norm(x, p, axis=1) for p in (np.inf, -np.inf, 1.0, 3.0)],
     label="empty", since=_EMPTY, x=_none(3, 0))  # fmt: skip

# Images without elements, and their boxes.
_BOXES = np.asarray([[1, 1, 4, 5], [0, 2, 3, 3]], np.float32)
for _op, _function in (("roi_align", V.roi_align), ("roi_pool", V.roi_pool)):
    _add(_op, lambda x, b, n, f=_function: f(x, b, n, (2, 3)), label="of no image",
         since=_EMPTY, x=_none(0, 3, 8, 9), b=_BOXES, n=_none(0, dtype="int32"))  # fmt: skip
_add("psroi_pool", lambda x, b, n: V.psroi_pool(x, b, n, 2), label="of no pixel", since=_EMPTY,
     x=_none(1, 8, 0, 9), b=_BOXES, n=np.asarray([2], np.int32))  # fmt: skip


def _priors(x: Any, image: Any) -> list[Any]:
    return [*V.prior_box(x, image, [4.0], [6.0], [2.0])]


for _sizes in ((0, 0), (2, 0), (0, 3)):
    _add("prior_box", _priors, label=f"of {_sizes[0]} x {_sizes[1]}", x=_none(1, 2, *_sizes),
         image=normal(1, 3, 8, 9))  # fmt: skip
for _label, _shape, _image in (
    ("of no image", (0, 2, 3, 4), (0, 3, 8, 9)),
    ("in no pixel", (1, 2, 3, 4), (1, 3, 0, 9)),
):
    _add("prior_box", _priors, label=_label, x=_none(*_shape), image=_none(*_image),
         since=Since("3.3", "the number of elements makes no difference"))  # fmt: skip

for _matrices in ((0, 3, 2), (2, 0, 3)):
    _label = "of " + " x ".join(map(str, _matrices))
    _add("svd", lambda x: [paddle.linalg.svd(x, full_matrices=True)[1], x * 2], gradient=("x",),
         label=_label, since=_EMPTY, x=_none(*_matrices))  # fmt: skip

for _matrices in ((0, 5, 3), (2, 3, 0)):
    _label = "of " + " x ".join(map(str, _matrices))
    _add("lstsq", lambda x, y: [paddle.linalg.lstsq(x, y, driver=way)[0]
                                for way in ("gels", "gelsd")],
         label=_label, since=_EMPTY, x=_none(*_matrices), y=_none(*_matrices[:2], 2))  # fmt: skip

# Pooling of no image, and of no pixel.
for _shape in ((0, 3, 7, 7), (2, 0, 7, 7), (2, 3, 0, 7)):
    _label = "of " + " x ".join(map(str, _shape))
    _add("max_pool2d_with_index",
         lambda x: [*F.adaptive_max_pool2d(x, 3, return_mask=True), F.adaptive_max_pool2d(x, 1),
                    *F.max_pool2d(x, 2, padding=1, return_mask=True), x * 2],
         gradient=("x",), label=_label, since=_EMPTY, x=_none(*_shape))  # fmt: skip
    _add("max_pool3d_with_index",
         lambda x: [*F.adaptive_max_pool3d(x, [3, 2, 4], return_mask=True), x * 2],
         gradient=("x",), label=_label, since=_EMPTY, x=_none(*_shape, 2))  # fmt: skip
    _add("pool2d",
         lambda x: [F.adaptive_avg_pool2d(x, 3), F.avg_pool2d(x, 2), F.avg_pool2d(x, 2, 1, 1),
                    F.avg_pool2d(x, 2, 1, 1, exclusive=False), F.max_pool2d(x, 2, 1, 1), x * 2],
         gradient=("x",), label=_label, since=_EMPTY, x=_none(*_shape))  # fmt: skip
    _add("pool3d", lambda x: [F.adaptive_avg_pool3d(x, 3), F.avg_pool3d(x, 2), x * 2],
         gradient=("x",), label=_label, since=_EMPTY, x=_none(*_shape, 2))  # fmt: skip
    _add("fractional_max_pool2d",
         lambda x: [*F.fractional_max_pool2d(x, 3, random_u=0.3, return_mask=True), x * 2],
         gradient=("x",), label=_label, since=_EMPTY, x=_none(*_shape))  # fmt: skip
    _add("lp_pool2d", lambda x: [F.lp_pool2d(x, 2.0, 2), x * 2], gradient=("x",), label=_label,
         since=_EMPTY, x=_none(*_shape))  # fmt: skip

# No window of a kernel fits.
for _groups in (1, 2):
    _add("conv2d",
         lambda x, w, groups=_groups: [F.conv2d(x, w, None, 3, 2, 2, groups), x * 2, w * 2],
         gradient=("x", "w"), label=f"no window of {_groups}", since=_EMPTY,
         x=normal(2, 4, 2, 2), w=normal(6, 4 // _groups, 5, 5))  # fmt: skip
_add("conv3d", lambda x, w: [F.conv3d(x, w, None, 3, 2, 2), x * 2, w * 2],
     gradient=("x", "w"), label="no window", since=_EMPTY,
     x=normal(2, 2, 2, 2, 2), w=normal(4, 2, 5, 5, 5))  # fmt: skip

TABLE.refuse("mode", paddle.mode, r"mode at .*axis 1 has no elements", since=_EMPTY, x=_none(3, 0))
TABLE.refuse("kthvalue", lambda x: paddle.kthvalue(x, 1), r"kthvalue at .*axis 1 has 0 elements",
             since=_EMPTY, x=_none(3, 0))  # fmt: skip

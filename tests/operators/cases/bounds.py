"""Rows at the bounds: slices, windows and places that begin or end outside of an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.operator_case import Array, CaseTable, Since, floats, normal

TABLE = CaseTable()

# Backwards from before the front. Paddle 2 takes the first element there, Paddle 3 none.

for _size, _start, _stop in ((1, -3, None), (5, -8, None), (5, -6, -7), (5, 3, -9)):
    TABLE.add(
        "strided_slice",
        lambda x, cut=slice(_start, _stop, -3): paddle.concat([x[cut], x]),
        label=f"backwards_from_{_start}_to_{_stop}_of_{_size}",
        # Paddle 2 has no gradient of an empty slice.
        gradient=() if _stop == -7 else ("x",),
        x=normal(_size, 2),
    )
    TABLE.add(
        "set_value",
        lambda x, cut=slice(_start, _stop, -3): paddle.static.setitem(x * 1, cut, 7.0),
        label=f"backwards_from_{_start}_to_{_stop}_of_{_size}",
        limitation="what is overwritten has no gradient; backwards, Paddle 3 passes it on",
        x=normal(_size, 2),
    )

# Windows that lie wholly outside of the image: the lowest number, at the place -1.


def _all(*builds: Any) -> Any:
    """The results of all of them."""

    def build(*inputs: Any) -> list[Any]:
        found: list[Any] = []
        for each in builds:
            results = each(*inputs)
            found += results if isinstance(results, (list, tuple)) else [results]
        return found

    return build


def _pool(kind: str, rank: int, *sizes: int, **options: Any) -> Any:
    pool = getattr(F, f"{kind}_pool{rank}d")
    return lambda x: pool(x, *sizes, **options)


_OUTSIDE = ((2, 4, 1), (1, 3, 0), (3, 7, 1), (2, 2, 1))
"""Kernel, stride and padding with which a window of an axis of 5, rounded up, has no element."""

for _rank in (1, 2, 3):
    _op, _image = f"pool{max(_rank, 2)}d", normal(1, 2, *[5] * _rank)
    _build = _all(*[_pool("max", _rank, *sizes, ceil_mode=True) for sizes in _OUTSIDE])
    _masked = [_pool("max", _rank, *s, ceil_mode=True, return_mask=True) for s in _OUTSIDE]
    _label = f"windows_outside_of_{_rank}"
    TABLE.add(_op, _build, label=_label, x=_image)
    TABLE.add(_op, _build, gradient=("x",), label=f"{_label}_trained", x=_image)
    TABLE.add(f"max_{_op}_with_index", _all(*_masked), label=_label, x=_image)
for _rank, _layout in ((2, "NHWC"), (3, "NDHWC")):
    TABLE.add(
        f"pool{_rank}d",
        _pool("max", _rank, 2, 2, 1, ceil_mode=True, data_format=_layout),
        gradient=("x",),
        label="windows_outside_channels_last",
        x=normal(1, *[5] * _rank, 2),
    )

# Maxima of NaN and of infinities.


def _holes(*shape: int, hole: float = np.nan) -> Array:
    image = normal(*shape)
    image[np.random.default_rng(1).random(shape) < 0.4] = hole
    return image


_NONE = floats(-np.inf, -np.inf, np.nan, np.nan, 1.0, np.nan, np.nan, -1.0).reshape(1, 1, 8)
"""Windows of two elements without a number, and with one."""

_LAST_NAN = "after NaN the maximum begins anew, in an order that is XLA's from 28 elements on"

for _label, _image in {
    "nan": _holes(1, 2, 6),
    "infinite": _holes(1, 2, 6, hole=np.inf),
    "no_number": _NONE,
}.items():
    _build = _pool("max", 1, 2)
    TABLE.add("pool2d", _build, label=_label, limitation=_LAST_NAN, x=_image)
    TABLE.add("pool2d", _build, label=f"{_label}_trained", gradient=("x",), x=_image)
    TABLE.add(
        "max_pool2d_with_index",
        _all(
            _pool("max", 1, 2, return_mask=True),
            _pool("adaptive_max", 1, 1),
            _pool("adaptive_max", 1, 3),
            _pool("adaptive_max", 1, 4, return_mask=True),
        ),
        label=_label,
        x=_image,
    )
for _rank in (2, 3):
    _image = _holes(1, 2, *[6] * _rank)
    _image[..., ::2, :] = normal(*_image[..., ::2, :].shape)
    _op = f"pool{_rank}d"
    _build = _all(*[_pool("max", _rank, *sizes) for sizes in ((2,), (3, 2, 1), (2, 2, 1))])
    TABLE.add(_op, _build, label=f"nan_of_{_rank}", x=_image)
    if _rank == 2:
        TABLE.add(_op, _build, label=f"nan_of_{_rank}_trained", gradient=("x",), x=_image)
    TABLE.add(
        f"max_{_op}_with_index",
        _all(*[_pool("adaptive_max", _rank, count) for count in (1, 2, 4)]),
        gradient=("x",),
        label=f"nan_of_{_rank}",
        x=_image,
    )

# A window that is larger than the padded image, by less than the stride, reaches behind it.


def _convolution(rank: int, *options: int) -> Any:
    convolution = getattr(F, f"conv{rank}d")
    return lambda x, w: convolution(x, w, None, *options)


_BEHIND = ((3, 2, 0), (4, 3, 0), (5, 3, 1), (5, 5, 0))
"""Kernel, stride and padding, for axes of 2."""

for _rank in (2, 3):
    _op, _image = f"pool{_rank}d", normal(1, 2, *[2] * _rank)
    TABLE.add(
        _op,
        _all(
            *[_pool("max", _rank, *sizes) for sizes in _BEHIND],
            *[_pool("avg", _rank, *sizes) for sizes in _BEHIND],
            *[_pool("avg", _rank, *sizes, exclusive=False) for sizes in _BEHIND],
            _pool("max", _rank, 7, 4, 0, ceil_mode=True),
        ),
        gradient=("x",),
        label="reaches_behind",
        x=_image,
    )
    TABLE.add(
        f"max_{_op}_with_index",
        _all(*[_pool("max", _rank, *sizes, return_mask=True) for sizes in _BEHIND]),
        label="reaches_behind",
        x=_image,
    )
    for _kernel, *_rest in _BEHIND:
        TABLE.add(
            f"conv{_rank}d",
            _convolution(_rank, *_rest),
            gradient=("x", "w"),
            label=f"reaches_behind_{_kernel}_{'_'.join(map(str, _rest))}",
            x=_image,
            w=normal(3, 2, *[_kernel] * _rank),
        )
TABLE.add(
    "depthwise_conv2d",
    lambda x, w: F.conv2d(x, w, None, 3, groups=2),
    gradient=("x", "w"),
    label="reaches_behind",
    x=normal(1, 2, 2, 2),
    w=normal(2, 1, 4, 4),
)
TABLE.add(
    "conv2d",
    _convolution(2, 3, 0, 2),
    gradient=("x", "w"),
    label="reaches_behind_dilated",
    x=normal(1, 2, 3, 3),
    w=normal(3, 2, 3, 3),
)
TABLE.add(
    "unfold",
    _all(*[lambda x, sizes=sizes: F.unfold(x, *sizes) for sizes in _BEHIND]),
    gradient=("x",),
    label="reaches_behind",
    x=normal(1, 2, 2, 2),
)
TABLE.refuse(
    "unfold", lambda x: F.unfold(x, 4, 1), "no window fits: the kernel", x=normal(1, 2, 2, 2)
)

# Places half way between two pixels go to the even one.


def _half_way(corners: bool) -> Array:
    """Places of an axis of 5, by the centres or by the outer edges of its pixels."""
    pixels = np.arange(-3, 13).astype(np.float32) / 2
    line = pixels / 2 - 1 if corners else (pixels * 2 + 1) / 5 - 1
    return np.asarray(np.stack(np.meshgrid(line, line), -1)[None], np.float32)


for _corners in (True, False):
    for _mode in ("zeros", "border", "reflection"):
        TABLE.add(
            "grid_sample",
            lambda x, grid, mode=_mode, corners=_corners: F.grid_sample(
                x, grid, "nearest", mode, corners
            ),
            gradient=("x", "grid"),
            since=Since("3.2", "a place half way goes away from zero"),
            limitation="a place half way goes to the even pixel; before Paddle 3.2 away from zero",
            label=f"half_way_{_mode}_{'corners' if _corners else 'edges'}",
            x=normal(1, 2, 5, 5),
            grid=_half_way(_corners),
        )

# NaN, and the largest and the smallest of numbers beside it.

_WITH_NAN = floats(
    [np.nan, 1.0, -2.0, 0.5, 3.0],
    [1.0, np.nan, 2.0, np.nan, 0.0],
    [np.nan, np.nan, np.nan, np.nan, np.nan],
    [-3.0, -1.0, -2.0, np.nan, np.inf],
)


def _place_of(op: str, axis: int | None) -> Any:
    found = getattr(paddle, op)
    return lambda x: found(x, axis)


for _op in ("argmax", "argmin"):
    TABLE.add(
        _op,
        _all(*[_place_of(_op, axis) for axis in (None, 0, 1)]),
        label="nan",
        x=_WITH_NAN,
    )
for _op in ("relu", "leaky_relu", "softshrink", "thresholded_relu"):
    for _is_trained in (False, True):
        TABLE.add(
            _op,
            getattr(F, _op),
            gradient=("x",) if _is_trained else (),
            label=f"nan_{'trained' if _is_trained else 'run'}",
            x=np.where(np.isinf(_WITH_NAN), np.float32(4), _WITH_NAN),
        )
TABLE.add(
    "maxout",
    lambda x: F.maxout(x, 2),
    label="nan",
    x=floats([np.nan, 1.0, 2.0, -1.0, -np.inf, -np.inf]).reshape(1, 6, 1, 1),
)
for _alpha in (-2.0, -0.5, 0.5):
    TABLE.add(
        "celu",
        lambda x, alpha=_alpha: F.celu(x, alpha),
        gradient=("x",),
        label=f"alpha_{_alpha}",
        x=floats(-3.0, -1.5, -0.1, 0.0, 0.1, 2.0),
    )
TABLE.add(
    "nanmedian",
    lambda x: paddle.nanmedian(x, axis=1, mode="min"),
    label="no_number",
    since=Since("3.0", "nanmedian has no mode"),
    x=_WITH_NAN,
)

# A parameter that comes through unchanged is fetched as it is before its update.

for _mode, _layout, _sizes in (
    ("linear", "NCW", (6,)),
    ("bilinear", "NCHW", (5, 6)),
    ("bicubic", "NCHW", (5, 6)),
    ("nearest", "NCHW", (5, 6)),
    ("trilinear", "NCDHW", (3, 4, 5)),
):
    TABLE.add(
        f"{_mode}_interp",
        lambda x, mode=_mode, layout=_layout, sizes=_sizes: F.interpolate(
            x, list(sizes), mode=mode, data_format=layout
        ),
        gradient=("x",),
        label="same_size",
        x=normal(1, 2, *_sizes),
    )

"""Cases of reading images at computed places, writing them back, and of grouped channels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, Since, normal, uniform

TABLE = CaseTable()
_add = TABLE.add


def _sampled(x: Any, grid: Any, mode: str, *ways: tuple[str, bool]) -> list[Any]:
    return [
        F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
        for padding, corners in ways
    ]


_WAYS = list(itertools.product(("zeros", "border", "reflection"), (True, False)))
_GRID = uniform(2, 3, 6, 2, low=-1.8, high=1.8)

_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "bilinear", *_WAYS),
    gradient=("x", "grid"),
    x=normal(2, 3, 4, 5),
    grid=_GRID,
)
_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "nearest", *_WAYS),
    gradient=("x", "grid"),
    label="nearest",
    x=normal(2, 3, 4, 5),
    grid=_GRID,
)
_add(
    "grid_sample",
    lambda x, grid: [
        *_sampled(x, grid, "bilinear", ("zeros", False), ("border", True), ("reflection", False)),
        *_sampled(x, grid, "nearest", ("border", True), ("reflection", False)),
    ],
    gradient=("x", "grid"),
    label="volume",
    x=normal(1, 2, 3, 4, 5),
    grid=uniform(1, 2, 3, 4, 3, low=-1.8, high=1.8),
)
_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "nearest", ("zeros", True), ("zeros", False)),
    gradient=("x", "grid"),
    label="volume, nearest",
    since=Since("3.2", "the kernel leaves out points less than half a pixel outside"),
    x=normal(1, 2, 3, 4, 5),
    grid=uniform(1, 2, 3, 4, 3, low=-1.8, high=1.8),
)
_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "bilinear", *_WAYS[::2]),
    gradient=("x", "grid"),
    label="on pixels and at the bounds",
    x=normal(1, 2, 3, 3),
    grid=np.asarray(
        [[[[-1, -1], [0, 0], [1, 1], [1, -1]], [[-2, 0], [0, 2], [2, 2], [3, -3]]]],
        np.float32,
    ),
)
_add(
    "affine_grid",
    lambda theta, solid: [
        F.affine_grid(theta, [2, 3, 4, 5], align_corners=True).reshape([2, 4, 5, 2]),
        F.affine_grid(theta, [2, 3, 4, 5], align_corners=False).reshape([2, 4, 5, 2]),
        F.affine_grid(solid, [2, 3, 2, 3, 4], align_corners=True).reshape([2, 2, 3, 4, 3]),
        F.affine_grid(solid, [2, 3, 2, 3, 4], align_corners=False).reshape([2, 2, 3, 4, 3]),
    ],
    gradient=("theta", "solid"),
    theta=normal(2, 2, 3),
    solid=normal(2, 3, 4),
)
_add(
    "maxout",
    lambda x, y, ties: [F.maxout(x, 2), F.maxout(y, 3, axis=-1), F.maxout(ties, 2)],
    gradient=("x", "y", "ties"),
    x=normal(2, 4, 3, 2),
    y=normal(2, 3, 2, 6),
    ties=np.ones((1, 4, 2, 2), np.float32),
)
_add(
    "unpool",
    lambda x, n: [
        F.max_unpool2d(x, n, 2, stride=2),
        F.max_unpool2d(x, n, 2, stride=2, output_size=[5, 7]),
        F.max_unpool2d(x, n, 3, stride=2, padding=1, output_size=[4, 6]),
    ],
    gradient=("x",),
    x=normal(1, 2, 2, 3),
    n=np.asarray([[[[0, 3, 5], [13, 14, 16]], [[7, 8, 4], [12, 15, 22]]]], np.int32),
)
_add(
    "unpool",
    lambda x, n: F.max_unpool1d(x, n, 2),
    gradient=("x",),
    label="one axis",
    x=normal(1, 2, 3),
    n=np.asarray([[[0, 3, 5], [1, 2, 4]]], np.int32),
)
_add(
    "unpool3d",
    lambda x, n: [
        F.max_unpool3d(x, n, 2, stride=2),
        F.max_unpool3d(x, n, 2, stride=2, output_size=[2, 5, 5]),
    ],
    gradient=("x",),
    x=normal(1, 2, 1, 2, 2),
    n=np.asarray([[[[[0, 3], [13, 30]]], [[[5, 6], [9, 31]]]]], np.int32),
)


def _correlated(x: Any, y: Any, pad: int, furthest: int, stride: int, step: int, size: int) -> Any:
    border = furthest + (size - 1) // 2
    rows, columns = (-(-(dim + 2 * pad - 2 * border) // stride) for dim in x.shape[2:])
    return operator(
        "correlation",
        {
            "input1": x,
            "input2": y,
            "pad_size": pad,
            "kernel_size": size,
            "max_displacement": furthest,
            "stride1": stride,
            "stride2": step,
            # Paddle's kernel does not read it.
            "corr_type_multiply": 1 + stride,
        },
        ("Output",),
        {"input1": "Input1", "input2": "Input2"},
        shape=[x.shape[0], (2 * (furthest // step) + 1) ** 2, rows, columns],
    )[0]


def _alike(x: Array, y: Array, pad: int, furthest: int, stride: int, step: int) -> Array:
    """The sum over pixels that Paddle's kernel for GPUs writes, one displacement at a time."""
    x, y = (np.pad(array, [(0, 0), (0, 0), (pad, pad), (pad, pad)]) for array in (x, y))
    rows = np.arange(furthest, x.shape[2] - furthest, stride)
    columns = np.arange(furthest, x.shape[3] - furthest, stride)
    reach = range(-(furthest // step) * step, furthest + 1, step)
    own = x[:, :, rows][..., columns]
    moved = [
        (own * y[:, :, rows + down][..., columns + right]).mean(1)
        for down in reach
        for right in reach
    ]
    return np.stack(moved, 1)


_PAIR: dict[str, Any] = {"x": normal(1, 2, 4, 3), "y": normal(1, 2, 4, 3, seed=1)}
_add(
    "correlation",
    lambda x, y: [
        _correlated(x, y, 1, 1, 1, 1, 1),
        _correlated(x, y, 0, 1, 1, 1, 1),
        _correlated(x, y, 3, 3, 2, 2, 1),
    ],
    gradient=("x", "y"),
    gpu_only=True,
    oracle=lambda x, y: [
        _alike(x, y, 1, 1, 1, 1),
        _alike(x, y, 0, 1, 1, 1),
        _alike(x, y, 3, 3, 2, 2),
    ],
    **_PAIR,
)
TABLE.refuse(
    "correlation",
    lambda x, y: _correlated(x, y, 2, 2, 1, 1, 3),
    "kernel_size is 3, and Paddle's kernel reads beyond the image with any but 1",
    gpu_only=True,
    **_PAIR,
)
TABLE.refuse(
    "correlation",
    lambda x, y: _correlated(x, y, 1, 4, 1, 1, 1),
    r"an image of \[6, 5\] with its padding has no pixel that is 4 from its borders",
    gpu_only=True,
    **_PAIR,
)

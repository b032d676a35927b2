"""Cases of reading images at computed places, writing them back, and of grouped channels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention

from paddle_ipu.testing.operator_case import CaseTable, Since, normal, uniform

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
    gradient="x grid",
    x=normal(2, 3, 4, 5),
    grid=_GRID,
)
_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "nearest", *_WAYS),
    gradient="x grid",
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
    gradient="x grid",
    label="volume",
    x=normal(1, 2, 3, 4, 5),
    grid=uniform(1, 2, 3, 4, 3, low=-1.8, high=1.8),
)
_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "nearest", ("zeros", True), ("zeros", False)),
    gradient="x grid",
    label="volume, nearest",
    since=Since("3.2", "the kernel leaves out points less than half a pixel outside"),
    x=normal(1, 2, 3, 4, 5),
    grid=uniform(1, 2, 3, 4, 3, low=-1.8, high=1.8),
)
_add(
    "grid_sample",
    lambda x, grid: _sampled(x, grid, "bilinear", *_WAYS[::2]),
    gradient="x grid",
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
    gradient="theta solid",
    theta=normal(2, 2, 3),
    solid=normal(2, 3, 4),
)
_add(
    "maxout",
    lambda x, y, ties: [F.maxout(x, 2), F.maxout(y, 3, axis=-1), F.maxout(ties, 2)],
    gradient="x y ties",
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
    gradient="x",
    x=normal(1, 2, 2, 3),
    n=np.asarray([[[[0, 3, 5], [13, 14, 16]], [[7, 8, 4], [12, 15, 22]]]], np.int32),
)
_add(
    "unpool",
    lambda x, n: F.max_unpool1d(x, n, 2),
    gradient="x",
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
    gradient="x",
    x=normal(1, 2, 1, 2, 2),
    n=np.asarray([[[[[0, 3], [13, 30]]], [[[5, 6], [9, 31]]]]], np.int32),
)

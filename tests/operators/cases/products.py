"""Cases of products of matrices and vectors, and of Einstein sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.cases.one_operator import call
from tests.operators.operator_case import CaseTable, Since, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_add(
    "baddbmm",
    lambda x, y, z: [
        paddle.baddbmm(x, y, z),
        paddle.baddbmm(x, y, z, beta=0.5, alpha=-2.0),
    ],
    gradient=("x", "y", "z"),
    since=Since("3.0", "the function does not exist"),
    x=normal(2, 3, 5),
    y=normal(2, 3, 4, seed=1),
    z=normal(2, 4, 5, seed=2),
)
_add(
    "baddbmm",
    lambda x, y, z: paddle.baddbmm(x, y, z, beta=0.0),
    label="without what is added",
    gradient=("x", "y", "z"),
    since=Since("3.0", "the function does not exist"),
    x=np.full((2, 3, 5), np.nan, np.float32),
    y=normal(2, 3, 4, seed=1),
    z=normal(2, 4, 5, seed=2),
)
_add(
    "linear_v2",
    lambda x, w, t, b: [
        paddle._C_ops.linear_v2(x, w, b, False),
        paddle._C_ops.linear_v2(x, t, b, True),
    ],
    gradient=("x", "w", "t", "b"),
    since=Since("3.3", "the operator does not exist"),
    x=normal(2, 3, 4),
    w=normal(4, 5, seed=1),
    t=normal(5, 4, seed=2),
    b=normal(5, seed=3),
)
_add(
    "matmul_with_flatten",
    lambda x, y, z: [
        paddle._C_ops.matmul_with_flatten(x, y, 2, 1),
        paddle._C_ops.matmul_with_flatten(x, z, 1, 2),
    ],
    gradient=("x", "y", "z"),
    since=Since("3.0", "the operator is mul, which is read as matmul"),
    x=normal(2, 3, 4),
    y=normal(4, 5, seed=1),
    z=normal(3, 4, 5, seed=2),
)
_add(
    "multi_dot",
    lambda a, b, c, d: [
        paddle.linalg.multi_dot([a, b]),
        paddle.linalg.multi_dot([a, b, c]),
        paddle.linalg.multi_dot([a, b, c, d]),
    ],
    gradient=("a", "b", "c", "d"),
    a=normal(2, 9),
    b=normal(9, 3, seed=1),
    c=normal(3, 8, seed=2),
    d=normal(8, 4, seed=3),
)
_add(
    "multi_dot",
    lambda u, m, v: [paddle.linalg.multi_dot([u, m]), paddle.linalg.multi_dot([u, m, v])],
    gradient=("u", "m", "v"),
    label="vectors",
    u=normal(4),
    m=normal(4, 3, seed=1),
    v=normal(3, seed=2),
)
_add(
    "bilinear",
    lambda x, y, w, b: [
        paddle.nn.functional.bilinear(x, y, w, b),
        paddle.nn.functional.bilinear(x, y, w),
    ],
    gradient=("x", "y", "w", "b"),
    x=normal(2, 3),
    y=normal(2, 4, seed=1),
    w=normal(5, 3, 4, seed=2),
    b=normal(1, 5, seed=3),
)
_add(
    "cross",
    lambda x, y, i, j: [paddle.cross(x, y), paddle.cross(x, y, axis=-1), paddle.cross(i, j)],
    gradient=("x", "y"),
    x=normal(2, 3, 3),
    y=normal(2, 3, 3, seed=1),
    i=integers(4, 3, low=-5, dtype="int32"),
    j=integers(4, 3, low=-5, dtype="int32", seed=1),
)
_add(
    "kron",
    lambda x, y, z: [paddle.kron(x, y), paddle.kron(x, z), paddle.kron(z, x)],
    gradient=("x", "y", "z"),
    x=normal(2, 3),
    y=normal(4, 2, seed=1),
    z=normal(2, seed=2),
)
_add(
    "reduce_as",
    lambda x, y, z, whole: [
        paddle.reduce_as(x, y),
        paddle.reduce_as(x, z),
        paddle.reduce_as(x, whole),
    ],
    gradient=("x",),
    since=Since("3.0", "the function does not exist"),
    x=normal(2, 3, 4),
    y=normal(4),
    z=normal(3, 1),
    whole=normal(2, 3, 4, seed=1),
)
_add(
    "reduce_as",
    lambda x, b, y, z, w: [
        paddle.reduce_as(each, paddle.cast(target, each.dtype))
        for each in (x, b)
        for target in (y, z, w)
    ],
    label="integers and booleans",
    since=Since("3.0", "the function does not exist"),
    x=np.asarray([[2147483646, 1], [0, 1]], np.int32),
    b=np.asarray([[True, True], [False, True]]),
    y=np.zeros((), np.float32),
    z=np.zeros((2, 1), np.float32),
    w=np.zeros((2, 2), np.float32),
)
_add(
    "trace",
    lambda x, y, i: [
        paddle.trace(x),
        paddle.trace(x, 1),
        paddle.trace(x, -2),
        paddle.trace(y, -1, 0, -1),
        paddle.trace(i),
    ],
    gradient=("x", "y"),
    x=normal(4, 3),
    y=normal(2, 3, 5, seed=1),
    i=integers(3, 3, dtype="int32"),
)


def _einsum(label: str, *equations: str, **operands: Any) -> None:
    """Each equation over as many of the operands as it names."""
    _add(
        "einsum",
        lambda *given: [paddle.einsum(one, *given[: one.count(",") + 1]) for one in equations],
        gradient=tuple(operands),
        label=label,
        **operands,
    )


_einsum("one operand", "ij->ji", "ij->", "ij->i", "ji", x=uniform(3, 4))
# Paddle lends the operand to this result, which SGD would then change.
_add("einsum", lambda x: paddle.einsum("ij", x), label="nothing to do", x=normal(3, 4))
_einsum("a square matrix", "ii->i", "ii", "ii->", x=normal(3, 3))
_einsum(
    "matrices",
    "ij,jk->ik",
    "ij,jk",
    "ij,jk->ki",
    "ij,jk->",
    "ij,jk->i",
    "ij,jk->ijk",
    "ij,kl->ik",
    x=normal(2, 3),
    y=normal(3, 4, seed=1),
)
_einsum("vectors", "i,i->", "i,j->ij", "i,i->i", "i,j", x=normal(3), y=normal(3, seed=1))
_einsum(
    "attention",
    "bqhd,bkhd->bhqk",
    "bqhd,bkhd->bqhk",
    x=normal(2, 3, 2, 4),
    y=normal(2, 3, 2, 4, seed=1),
)
_einsum(
    "ellipsis",
    "...ij,...jk->...ik",
    "...ij,...jk",
    "...ij,...jk->k...i",
    x=normal(2, 3, 4),
    y=normal(2, 4, 5, seed=1),
)
_einsum(
    "broadcast ellipsis",
    "...ij,...jk->...ik",
    x=normal(2, 1, 3, 4),
    y=normal(2, 5, 4, 2, seed=1),
)
_einsum("ellipsis of one", "...i->...", "...ij->ji...", "i...->...i", x=normal(2, 3, 4))
_einsum(
    "three operands",
    "ij,jk,kl->il",
    "ij,jk,kl->ijl",
    x=normal(2, 3),
    y=normal(3, 4, seed=1),
    z=normal(4, 2, seed=2),
)
TABLE.refuse(
    "einsum",
    lambda x, y: call(
        "einsum",
        [[x, y], "ij,jk->ik"],
        {"Operands": [x, y]},
        {"Out": x.dtype},
        equation="ij,jk->ik",
    )[0],
    r"equation 'ij,jk->ik' is for other operands than 2 with \[0, 0\] axes; give each",
    since=Since("3.0", "Paddle 2.6 refuses the equation"),
    x=floats(2.0).reshape(()),
    y=floats(0.5).reshape(()),
)

"""Rules of gathering, scattering and slicing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from paddle_ipu.popart.op_schema import FLOATS
from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.shape_inference.indexing import expanded_indices
from paddle_ipu.popart.standard_rules.emitter import Emitter, Rule

_REDUCTIONS = {"sum": "add", "add": "add", "mul": "mul", "max": "max", "min": "min",
               "amax": "max", "amin": "min"}  # fmt: skip
"""PopART's and Paddle's names of reductions -> those of ScatterElements since operator set 18."""


def _start(kind: str, dtype: ir.DataType) -> float:
    """What a reduction begins with."""
    if kind in ("add", "mul"):
        return 1 if kind == "mul" else 0
    sign = -1 if kind == "max" else 1
    if dtype in FLOATS:
        return sign * np.inf
    bounds = np.iinfo(dtype.numpy())
    return bounds.min if sign < 0 else bounds.max


def _gather_nd(emit: Emitter) -> Sequence[ir.Value]:
    """``data[indices[..., 0], ..., indices[..., K - 1]]`` for indices [..., K]."""
    data, indices = dims_of(emit.x), dims_of(emit.input(1))
    if indices[-1] == 0:
        return [emit("Expand", [emit.x, emit.int64s(*indices[:-1], *data)])]
    return [emit("GatherND", [emit.x, emit.cast(emit.input(1), np.int64)])]


def _take_along_axis(emit: Emitter) -> Sequence[ir.Value]:
    indices = emit.cast(emit.input(1), np.int64)
    return [emit("GatherElements", [emit.x, indices], axis=emit.axis())]


def scattered(
    emit: Emitter, data: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, kind: str
) -> ir.Value:
    """`updates` brought into `data`; with `kind` "none" the last of several stays."""
    if kind == "none":
        return emit("ScatterElements", [data, indices, updates], axis=axis)
    return emit.later("ScatterElements", [data, indices, updates], axis=axis, reduction=kind)


def _filled(
    emit: Emitter, dims: Sequence[int], value: npt.ArrayLike, dtype: npt.DTypeLike | None = None
) -> ir.Value:
    return emit("Expand", [emit.constant(value, dtype), emit.int64s(*dims)])


def _put_along_axis(emit: Emitter) -> Sequence[ir.Value]:
    x, axis = emit.x, emit.axis()
    places, dims = dims_of(emit.input(1)), dims_of(x)
    indices, updates = emit.cast(emit.input(1), np.int64), emit.input(2)
    if dims_of(updates) != places:
        updates = emit("Expand", [updates, emit.int64s(*places)])
    kind = str(emit.attribute("reduce", "assign"))
    if kind == "assign":
        return [scattered(emit, x, indices, updates, axis, "none")]
    reduction = _REDUCTIONS.get(kind, "add")
    dtype = emit.node.outputs[0].dtype or ir.DataType.FLOAT
    includes = bool(emit.attribute("include_self", 1))
    if not includes:
        start = _filled(emit, places, _start(reduction, dtype))
        x = scattered(emit, x, indices, start, axis, "none")
    total = scattered(emit, x, indices, updates, axis, reduction)
    if kind != "mean":
        return [total]
    ones = _filled(emit, places, 1)
    count = scattered(emit, _filled(emit, dims, int(includes)), indices, ones, axis, "add")
    if not includes:
        # Where nothing is written, one stands for what was there.
        none = emit("Equal", [count, emit.constant(0)])
        count = emit.where(none, emit.constant(1), count)
    mean = emit("Div", [total, count])
    if dtype in FLOATS or not int(emit.attribute("rounds_down", 0)):
        return [mean]
    rest = emit("Sub", [total, emit("Mul", [mean, count])])
    zero, one = (emit.constant(number) for number in (0, 1))
    below = emit("Sub", [mean, one])
    return [emit.where(emit("Less", [rest, zero]), below, mean)]


def _scatter_reduce(emit: Emitter) -> Sequence[ir.Value]:
    data, axis = emit.x, emit.axis()
    dims, given = list(dims_of(data)), dims_of(emit.input(1))
    grouped = int(emit.attribute("group_size", 1)) > 1
    kind = str(emit.attribute("reduction", "sum"))
    shape = expanded_indices(given, len(dims), axis, grouped)
    if not int(emit.attribute("enable_index_broadcast", 1)):
        data = emit(
            "Slice",
            [data, emit.int64s(*[0] * len(dims)), emit.int64s(*shape)],
        )
        dims = list(shape)
    indices = emit.reshape(emit.cast(emit.input(1), np.int64), shape)
    if tuple(dims) != tuple(shape):
        indices = emit("Expand", [indices, emit.int64s(*dims)])
    reduction = _REDUCTIONS.get(kind, "none")
    dtype = emit.node.outputs[0].dtype or ir.DataType.FLOAT
    initial = emit.optional(2)
    if initial is not None:
        return [scattered(emit, initial, indices, data, axis, reduction)]
    whole = list(dims)
    whole[axis] = int(emit.attribute("axis_size"))
    start = 0 if reduction == "none" else _start(reduction, dtype)
    out = scattered(emit, _filled(emit, whole, start), indices, data, axis, reduction)
    if reduction in ("max", "min"):
        ones = _filled(emit, dims, 1, np.int32)
        written = scattered(emit, _filled(emit, whole, 0, np.int32), indices, ones, axis, "none")
        out = emit.where(emit.cast(written, np.bool_), out, emit.constant(0))
    return [out]


def _reverse(emit: Emitter) -> Sequence[ir.Value]:
    axes = list(emit.attribute("dimensions"))
    bounds = [[-1] * len(axes), [np.iinfo(np.int64).min + 1] * len(axes), axes, [-1] * len(axes)]
    return [emit("Slice", [emit.x, *(emit.constant(row, np.int64) for row in bounds)])]


def _slice(emit: Emitter) -> Sequence[ir.Value]:
    starts, ends = emit.attribute("starts"), emit.attribute("ends")
    axes = emit.attribute("axes") or range(len(starts))
    return [emit("Slice", [emit.x, *(emit.int64s(*row) for row in (starts, ends, axes))])]


def _subsample(emit: Emitter) -> Sequence[ir.Value]:
    dims, strides = dims_of(emit.x), emit.attribute("strides")
    rows = [[0] * len(dims), dims, range(len(dims)), strides]
    return [emit("Slice", [emit.x, *(emit.int64s(*row) for row in rows)])]


RULES: Mapping[tuple[str, str], Rule] = {
    ("ai.graphcore", "Reshape"): lambda emit: [emit.reshape(emit.x, emit.attribute("shape"))],
    ("ai.graphcore", "Reverse"): _reverse,
    ("ai.graphcore", "ScatterReduce"): _scatter_reduce,
    ("ai.graphcore", "Slice"): _slice,
    ("ai.graphcore", "Subsample"): _subsample,
    ("ai.paddle_ipu", "GatherNd"): _gather_nd,
    ("ai.paddle_ipu", "PutAlongAxis"): _put_along_axis,
    ("ai.paddle_ipu", "TakeAlongAxis"): _take_along_axis,
}

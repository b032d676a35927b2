"""Rules of ONNX's own operators in forms that PopART takes and other runtimes do not.

onnxruntime has no kernel for some types, and what PopART's BatchNormalization means by further
outputs, the batch's own statistics, other runtimes pass over in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.op_schema import FLOATS, INTS
from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.standard_rules.emitter import Emitter, Rule


def _batch_normalization(emit: Emitter) -> Sequence[ir.Value] | None:
    """(y, running mean, running variance, mean, variance) by the batch's own statistics."""
    if len(emit.node.outputs) == 1:
        return None
    x, dims = emit.x, dims_of(emit.x)
    axes = [0, *range(2, len(dims))]
    per_channel = [1, dims[1], *[1] * (len(dims) - 2)]
    mean = emit("ReduceMean", [x], axes=axes, keepdims=1)
    deviations = emit("Sub", [x, mean])
    variance = emit("ReduceMean", [emit("Mul", [deviations] * 2)], axes=axes, keepdims=1)
    padded = emit("Add", [variance, emit.constant(emit.attribute("epsilon", 1e-5))])
    normal = emit("Div", [deviations, emit("Sqrt", [padded])])
    scale, bias = (emit.reshape(emit.input(at), per_channel) for at in (1, 2))
    y = emit("Add", [emit("Mul", [normal, scale]), bias])
    mean, variance = (emit.reshape(value, [dims[1]]) for value in (mean, variance))
    momentum = emit.attribute("momentum", 0.9)
    old, new = emit.constant(momentum), emit.constant(1 - momentum)
    running = [
        emit("Add", [emit("Mul", [emit.input(at), old]), emit("Mul", [value, new])])
        for at, value in ((3, mean), (4, variance))
    ]
    return [y, *running, mean, variance][: len(emit.node.outputs)]


def _one_hot(emit: Emitter) -> Sequence[ir.Value]:
    indices, depth = (emit.cast(emit.input(at), np.int64) for at in (0, 1))
    kind = np.float32 if emit.input(2).dtype in FLOATS else np.int64
    values = emit.cast(emit.input(2), kind)
    one_hot = emit("OneHot", [indices, depth, values], axis=emit.attribute("axis", -1))
    return [emit.as_result(one_hot)]


_CHOSEN = frozenset({ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16})
"""Types that onnxruntime's Where does not take."""


def _where(emit: Emitter) -> Sequence[ir.Value] | None:
    if emit.input(1).dtype not in _CHOSEN:
        return None
    yes, no = (emit.cast(emit.input(at), np.int32) for at in (1, 2))
    return [emit.as_result(emit.where(emit.x, yes, no))]


def _scatter(emit: Emitter) -> Sequence[ir.Value]:
    inputs = [emit.input(at) for at in range(3)]
    return [emit("ScatterElements", inputs, axis=emit.attribute("axis", 0))]


def _sum(emit: Emitter) -> Sequence[ir.Value] | None:
    """ONNX's Sum has no whole numbers."""
    first, *others = (emit.input(at) for at in range(len(emit.node.inputs)))
    if first.dtype not in INTS or not others:
        return None
    for other in others:
        first = emit("Add", [first, other])
    return [first]


def begins_behind(node: ir.Node) -> bool:
    """Whether a pooling has a window that begins behind the image; other runtimes leave it out."""
    if node.domain or node.op_type not in ("AveragePool", "MaxPool"):
        return False
    emit = Emitter(node)
    dims, results = dims_of(emit.x)[2:], dims_of(node.outputs[0])[2:]
    rank = len(dims)
    strides = emit.attribute("strides", [1] * rank)
    begins = emit.attribute("pads", [0] * rank)[:rank]
    return any(
        (count - 1) * stride >= size + begin
        for size, count, stride, begin in zip(dims, results, strides, begins, strict=True)
    )


RULES: Mapping[tuple[str, str], Rule] = {
    ("", "BatchNormalization"): _batch_normalization,
    ("", "OneHot"): _one_hot,
    ("", "Scatter"): _scatter,
    ("", "Sum"): _sum,
    ("", "Where"): _where,
}

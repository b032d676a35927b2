"""Rules of layers: normalization, recurrence, linear algebra, random numbers, what passes on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.standard_rules.emitter import AttributeValue, Emitter, Rule


def _identity(emit: Emitter) -> Sequence[ir.Value]:
    return [emit("Identity", [emit.x])]


def _group_normalization(emit: Emitter) -> Sequence[ir.Value]:
    """(y, mean [N * groups], 1 / standard deviation [N * groups]) of x [N, C, ...]."""
    x, dims = emit.x, dims_of(emit.x)
    rows = dims[0] * int(emit.attribute("num_groups"))
    grouped = emit.reshape(x, [rows, math.prod(dims) // max(rows, 1)])
    mean = emit("ReduceMean", [grouped], axes=[1], keepdims=1)
    deviations = emit("Sub", [grouped, mean])
    variance = emit("ReduceMean", [emit("Mul", [deviations] * 2)], axes=[1], keepdims=1)
    padded = emit("Add", [variance, emit.constant(emit.attribute("epsilon", 1e-5))])
    inverse = emit("Reciprocal", [emit("Sqrt", [padded])])
    normal = emit.reshape(emit("Mul", [deviations, inverse]), dims)
    per_channel = [1, dims[1], *[1] * (len(dims) - 2)]
    scale, bias = (emit.reshape(emit.input(index), per_channel) for index in (1, 2))
    y = emit("Add", [emit("Mul", [normal, scale]), bias])
    if not (emit.is_used(1) or emit.is_used(2)):
        return [y]
    return [y, emit.reshape(mean, [rows]), emit.reshape(inverse, [rows])]


def _recurrent(emit: Emitter) -> Sequence[ir.Value]:
    """One layer over sequences of given lengths; its inputs are in ONNX's order and layout."""
    kind, _, activation = str(emit.attribute("mode")).partition("_")
    return _by_length(
        emit,
        kind,
        hidden_size=dims_of(emit.input(2))[2],
        direction="reverse" if emit.attribute("reverse", 0) else "forward",
        linear_before_reset=1 if kind == "GRU" else None,
        activations=[activation.title()] if activation else None,
    )


def _onnx_recurrent(emit: Emitter) -> Sequence[ir.Value] | None:
    if emit.optional(4) is None:
        return None
    attributes = {name: each.value for name, each in emit.node.attributes.items()}
    return _by_length(emit, emit.node.op_type, **attributes)


def _by_length(emit: Emitter, kind: str, **attributes: AttributeValue) -> Sequence[ir.Value]:
    """A layer of ONNX that leaves the states of a sequence of no elements as they are.

    onnxruntime gives zeros for them.
    """
    inputs = [emit.optional(at) for at in range(7 if kind == "LSTM" else 6)]
    lengths = inputs[4] = emit.cast(emit.input(4), np.int32)
    every, *last = emit.several(kind, inputs, 3 if kind == "LSTM" else 2, **attributes)
    zero = emit.constant(0, np.int32)
    nothing = emit("Unsqueeze", [emit("Equal", [lengths, zero])], axes=[0, 2])
    states = [
        value if start is None else emit.where(nothing, start, value)
        for value, start in zip(last, inputs[5:], strict=True)
    ]
    return [every, *states]


def _slog_determinant(emit: Emitter) -> Sequence[ir.Value]:
    determinant = emit("Det", [emit.x])
    return [emit("Sign", [determinant]), emit("Log", [emit("Abs", [determinant])])]


def _seed(emit: Emitter) -> float | None:
    """The seed of the numbers, None for ones that differ from run to run."""
    return float(emit.attribute("seed", 0)) or None


def _normal(emit: Emitter) -> Sequence[ir.Value]:
    return [
        emit(
            "RandomNormal",
            [],
            shape=list(emit.attribute("shape") or []),
            mean=float(emit.attribute("mean", 0.0)),
            scale=float(emit.attribute("scale", 1.0)),
            seed=_seed(emit),
        )
    ]


def _uniform_numbers(emit: Emitter, shape: Sequence[int], low: float, high: float) -> ir.Value:
    return emit(
        "RandomUniform", [], shape=list(shape), low=float(low), high=float(high), seed=_seed(emit)
    )


def _uniform(emit: Emitter) -> Sequence[ir.Value]:
    low, high = emit.attribute("low", 0.0), emit.attribute("high", 1.0)
    return [_uniform_numbers(emit, emit.attribute("shape") or [], low, high)]


def _integers(emit: Emitter) -> Sequence[ir.Value]:
    low, high = int(emit.attribute("low")), int(emit.attribute("high"))
    drawn = _uniform_numbers(emit, emit.attribute("shape") or [], low, high)
    return [emit.as_result(emit("Floor", [drawn]))]


def _permutation(emit: Emitter) -> Sequence[ir.Value]:
    """Where random numbers stand once they are sorted."""
    n = int(emit.attribute("n"))
    drawn = _uniform_numbers(emit, [n], 0.0, 1.0)
    return [emit.as_result(emit.several("TopK", [drawn, emit.int64s(n)], 2, axis=0)[1])]


def _multinomial(emit: Emitter) -> Sequence[ir.Value]:
    """Indices drawn in proportion to weights [..., C]: the largest of logarithms plus Gumbel noise.

    Draws with replacement have noise of their own each.
    """
    dims, count = list(dims_of(emit.x)), int(emit.attribute("num_samples", 1))
    logs, last = emit("Log", [emit.x]), len(dims) - 1
    again = bool(emit.attribute("replacement", 0))
    if again:
        dims[last:last] = [count]
        logs = emit("Unsqueeze", [logs], axes=[last])
    tiny = float(np.finfo(np.float32).tiny)
    uniform = _uniform_numbers(emit, dims, tiny, 1.0)
    noise = emit("Neg", [emit("Log", [emit("Neg", [emit("Log", [uniform])])])])
    noisy = emit("Add", [logs, noise])
    if again:
        return [emit.as_result(emit("ArgMax", [noisy], axis=last + 1, keepdims=0))]
    return [emit.as_result(emit.several("TopK", [noisy, emit.int64s(count)], 2, axis=last)[1])]


RULES: Mapping[tuple[str, str], Rule] = {
    **{("", kind): _onnx_recurrent for kind in ("GRU", "LSTM", "RNN")},
    ("ai.graphcore", "Detach"): _identity,
    ("ai.graphcore", "GroupNormalization"): _group_normalization,
    ("ai.graphcore", "Nop"): _identity,
    ("ai.graphcore", "PrintTensor"): _identity,
    ("ai.graphcore", "TensorRemap"): _identity,
    ("ai.paddle_ipu", "Determinant"): lambda emit: [emit("Det", [emit.x])],
    ("ai.paddle_ipu", "Multinomial"): _multinomial,
    ("ai.paddle_ipu", "RandomInteger"): _integers,
    ("ai.paddle_ipu", "RandomPermutation"): _permutation,
    ("ai.paddle_ipu", "Recurrent"): _recurrent,
    ("ai.paddle_ipu", "SeededNormal"): _normal,
    ("ai.paddle_ipu", "SeededUniform"): _uniform,
    ("ai.paddle_ipu", "SlogDeterminant"): _slog_determinant,
}

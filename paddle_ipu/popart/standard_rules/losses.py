"""Rules of losses, forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.standard_rules.emitter import Emitter, Rule

_LEAST = {ir.DataType.FLOAT16: 6.104e-05}
"""The least probability whose logarithm PopART takes, by type; 1e-7 else."""


def _reduced(emit: Emitter, loss: ir.Value, count: ir.Value | None = None) -> ir.Value:
    """`loss` under the attribute ``reduction``; "Mean" divides by `count` where it is given."""
    kind = emit.attribute("reduction", "Mean")
    if kind == "None":
        return loss
    if kind == "Mean" and count is None:
        return emit("ReduceMean", [loss], keepdims=0)
    total = emit("ReduceSum", [loss], keepdims=0)
    return total if kind == "Sum" or count is None else emit("Div", [total, count])


def _picked(emit: Emitter, ignored: int | None) -> tuple[ir.Value, ir.Value | None]:
    """(x[..., label] of each label, whether a label counts; None where all do)."""
    labels, counts = emit.cast(emit.input(1), np.int64), None
    if ignored is not None:
        counts = emit.flipped(emit("Equal", [labels, emit.constant(ignored, np.int64)]))
        # An ignored label may be none of the classes.
        labels = emit.where(counts, labels, emit.constant(0, np.int64))
    last = len(dims_of(emit.x)) - 1
    column = emit("Unsqueeze", [labels], axes=[last])
    gathered = emit("GatherElements", [emit.x, column], axis=last)
    return emit("Squeeze", [gathered], axes=[last]), counts


def _without_ignored(emit: Emitter, loss: ir.Value, counts: ir.Value | None) -> ir.Value:
    return loss if counts is None else emit.where(counts, loss, emit.constant(0.0))


def _nll(emit: Emitter) -> Sequence[ir.Value]:
    picked, counts = _picked(emit, emit.attribute("ignoreIndex"))
    if not emit.attribute("inputIsLogProbability", 0):
        least = emit.constant(_LEAST.get(emit.x.dtype or ir.DataType.FLOAT, 1e-7))
        picked = emit("Log", [emit("Max", [picked, least])])
    loss = _without_ignored(emit, emit("Neg", [picked]), counts)
    if counts is None:
        return [_reduced(emit, loss)]
    number = emit("ReduceSum", [emit.as_result(counts)], keepdims=0)
    return [_reduced(emit, loss, emit("Max", [number, emit.constant(1.0)]))]


def _log_nll(emit: Emitter) -> Sequence[ir.Value]:
    picked, counts = _picked(emit, emit.attribute("ignore_index"))
    return [_without_ignored(emit, emit("Neg", [picked]), counts)]


def _l1(emit: Emitter) -> Sequence[ir.Value]:
    scaled = emit("Mul", [emit("Abs", [emit.x]), emit.constant(emit.attribute("lambda"))])
    return [_reduced(emit, scaled)]


def _cvm(emit: Emitter) -> Sequence[ir.Value]:
    """Show and click, the first two columns, as logarithms, or cut off."""
    width = dims_of(emit.x)[1]

    def columns(start: int, end: int) -> ir.Value:
        return emit("Slice", [emit.x, *(emit.int64s(n) for n in (start, end, 1))])

    rest = columns(2, width)
    if not emit.attribute("use_cvm", 1):
        return [rest]
    one = emit.constant(1.0)
    show, click = (emit("Log", [emit("Add", [columns(at, at + 1), one])]) for at in (0, 1))
    return [emit("Concat", [show, emit("Sub", [click, show]), rest], axis=1)]


RULES: Mapping[tuple[str, str], Rule] = {
    ("ai.graphcore", "IdentityLoss"): lambda emit: [emit("Identity", [_reduced(emit, emit.x)])],
    ("ai.graphcore", "L1"): _l1,
    ("ai.graphcore", "Nll"): _nll,
    ("ai.paddle_ipu", "Cvm"): _cvm,
    ("ai.paddle_ipu", "LogNll"): _log_nll,
}

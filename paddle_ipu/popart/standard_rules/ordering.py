"""Rules of what depends on the order of elements: sorting, running results, medians, searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.op_schema import FLOATS
from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.standard_rules.emitter import Emitter, Rule
from paddle_ipu.popart.standard_rules.indexing import scattered


def _sorted(emit: Emitter, x: ir.Value, axis: int, descending: bool = False) -> Sequence[ir.Value]:
    """(values, int64 places) along an axis; of equal elements the first comes first."""
    size = emit.int64s(dims_of(emit.x)[axis])
    return emit.several("TopK", [x, size], 2, axis=axis, largest=int(descending), sorted=1)


def _sort(emit: Emitter) -> Sequence[ir.Value]:
    descending = bool(emit.attribute("descending", 0))
    values, places = _sorted(emit, emit.x, emit.axis(), descending)
    return [values, emit.as_result(places, 1)]


# -- running results ----------------------------------------------------------------------------

_Step = Callable[[Emitter, Sequence[ir.Value], ir.Value], Sequence[ir.Value]]
"""Given (an emitter, the states, an element), gives the next states."""


def _scan(
    emit: Emitter,
    starts: Sequence[ir.Value],
    step: _Step,
    *,
    reverse: bool = False,
    before: bool = False,
) -> list[ir.Value]:
    """The states after each element of the node's axis, or before it; states have types and dims.

    Args:
        emit: of the node; its axis is gone through.
        starts: the states at the beginning.
        step: one element.
        reverse: from the end.
        before: what is given for an element is without it.
    """
    axis, rest = emit.axis(), list(dims_of(emit.x))
    del rest[axis]
    dims = ir.Shape(rest)
    kinds = [*(value.dtype for value in starts), emit.x.dtype]
    name = f"{emit.node.outputs[0].name}/scan"
    inputs = [
        ir.Value(name=f"{name}/in:{at}", type=ir.TensorType(kind or ir.DataType.FLOAT), shape=dims)
        for at, kind in enumerate(kinds)
    ]
    inside = Emitter(emit.node, f"{name}/of")
    states = [inside("Identity", [value]) for value in step(inside, inputs[:-1], inputs[-1])]
    yielded = inputs[:-1] if before else states
    results = [inside("Identity", [value]) for value in yielded]
    for value, kind in zip((*states, *results), (*kinds[:-1], *kinds[:-1]), strict=True):
        value.type, value.shape = ir.TensorType(kind or ir.DataType.FLOAT), dims
    body = ir.Graph(inputs, [*states, *results], nodes=inside.made, name=name)
    outputs = emit.several(
        "Scan",
        [*starts, emit.x],
        2 * len(starts),
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis] * len(starts),
        scan_input_directions=[int(reverse)],
        scan_output_directions=[int(reverse)] * len(starts),
    )
    return list(outputs[len(starts) :])


def _beginning(emit: Emitter, value: float, dtype: ir.DataType) -> ir.Value:
    """A state that has the same value everywhere."""
    rest = list(dims_of(emit.x))
    del rest[emit.axis()]
    filled = emit.constant(np.full(rest, value, dtype.numpy()), dtype.numpy())
    filled.type, filled.shape = ir.TensorType(dtype), ir.Shape(rest)
    return filled


def _running(start: float, step: _Step) -> Rule:
    def rule(emit: Emitter) -> Sequence[ir.Value]:
        first = _beginning(emit, start, emit.x.dtype or ir.DataType.FLOAT)
        return _scan(
            emit,
            [first],
            step,
            reverse=bool(emit.attribute("reverse", 0)),
            before=bool(emit.attribute("exclusive", 0)),
        )

    return rule


def _log_sum(emit: Emitter, states: Sequence[ir.Value], x: ir.Value) -> Sequence[ir.Value]:
    apart = emit("Exp", [emit("Neg", [emit("Abs", [emit("Sub", [states[0], x])])])])
    more = emit("Log", [emit("Add", [apart, emit.constant(1.0)])])
    return [emit("Add", [emit("Max", [states[0], x]), more])]


def _running_extreme(largest: bool) -> Rule:
    def rule(emit: Emitter) -> Sequence[ir.Value]:
        dtype = emit.x.dtype or ir.DataType.FLOAT
        floating = dtype in FLOATS

        def step(inside: Emitter, states: Sequence[ir.Value], x: ir.Value) -> Sequence[ir.Value]:
            best, place, count = states
            # Of equal ones the later; NaN stays.
            worse = inside("Less", [x, best] if largest else [best, x])
            takes = inside.flipped(worse)
            if floating:
                stays = inside("IsNaN", [best])
                takes = inside("And", [takes, inside.flipped(stays)])
                takes = inside("Or", [takes, inside("IsNaN", [x])])
            next_count = inside("Add", [count, inside.constant(1, np.int32)])
            return [
                inside.where(takes, x, best),
                inside.where(takes, count, place),
                next_count,
            ]

        lowest, highest = -np.inf, np.inf
        if not floating:
            bounds = np.iinfo(dtype.numpy())
            lowest, highest = bounds.min, bounds.max
        starts = [
            _beginning(emit, lowest if largest else highest, dtype),
            *(_beginning(emit, 0, ir.DataType.INT32) for _ in range(2)),
        ]
        values, places, _ = _scan(emit, starts, step)
        return [values, emit.as_result(places, 1)]

    return rule


# -- statistics ---------------------------------------------------------------------------------


def _places(emit: Emitter, size: int) -> ir.Value:
    return emit.constant(np.arange(size), np.int32)


def _mode(emit: Emitter) -> Sequence[ir.Value]:
    """The most frequent element of the last axis, of several the smallest; its last place."""
    x, dims = emit.x, dims_of(emit.x)
    last = len(dims) - 1
    pairs = [emit("Unsqueeze", [x], axes=[at]) for at in (last + 1, last)]
    often = emit.sum(emit.cast(emit("Equal", pairs), np.int32), last + 1)
    most = emit("ReduceMax", [often], axes=[last], keepdims=1)
    values, order = _sorted(emit, x, last)
    best = emit("Equal", [emit("GatherElements", [often, order], axis=last), most])
    first = emit("ArgMax", [emit.cast(best, np.int32)], axis=last, keepdims=1)
    value = emit("GatherElements", [values, first], axis=last)
    same = emit("Equal", [x, value])
    places = emit.where(same, _places(emit, dims[-1]), emit.constant(-1, np.int32))
    place = emit("ReduceMax", [places], axes=[last], keepdims=0)
    return [emit("Squeeze", [value], axes=[last]), emit.as_result(place, 1)]


def _median(emit: Emitter) -> Sequence[ir.Value]:
    """The middle of the last axis, or the mean of the two in the middle, and where they stand."""
    x, dims = emit.x, dims_of(emit.x)
    last, size = len(dims) - 1, dims[-1]
    average, ignores = (bool(emit.attribute(*row)) for row in (("average", 1), ("ignore_nan", 0)))
    floating = x.dtype in FLOATS
    is_nan = emit("IsNaN", [x]) if floating else None
    key = x if is_nan is None else emit.where(is_nan, emit.constant(np.inf), x)
    values, order = _sorted(emit, key, last)
    counted: ir.Value = emit.constant(np.full([*dims[:-1], 1], size), np.int32)
    if ignores and is_nan is not None:
        counted = emit("Sub", [counted, emit.sum(emit.cast(is_nan, np.int32), last, 1)])
    # Clipped by comparisons: Max and Min of operator set 11 take no whole numbers.
    half = emit("Div", [counted, emit.constant(2, np.int32)])
    rest = emit("Sub", [counted, emit("Mul", [half, emit.constant(2, np.int32)])])
    even = emit("Sub", [emit.constant(1, np.int32), rest])
    low, zero, top = emit("Sub", [half, even]), emit.constant(0, np.int32), size - 1
    low = emit.where(emit("Less", [low, zero]), zero, low)
    high = emit.where(
        emit("Less", [emit.constant(top, np.int32), half]), emit.constant(top, np.int32), half
    )
    middle = [emit.cast(at, np.int64) for at in (low, high)]
    left, right = (emit("GatherElements", [values, at], axis=last) for at in middle)
    places = [emit.cast(emit("GatherElements", [order, at], axis=last), np.int32) for at in middle]
    median = left
    if average:
        median = emit("Div", [emit("Add", [left, right]), emit.constant(2)])
    if is_nan is not None:
        gone = emit.sum(emit.cast(is_nan, np.int32), last, 1)
        least = emit.constant(size - 1 if ignores else 0, np.int32)
        empty = emit("Less", [least, gone])
        median = emit.where(empty, emit.constant(np.nan), median)
        nowhere: ir.Value = emit.constant(-1, np.int32)
        if not ignores:
            first = emit("ArgMax", [emit.cast(is_nan, np.int32)], axis=last, keepdims=1)
            nowhere = emit.cast(first, np.int32)
        places = [emit.where(empty, nowhere, place) for place in places]
    where = (
        emit("Concat", places, axis=last) if average else emit("Squeeze", places[:1], axes=[last])
    )
    return [emit("Squeeze", [median], axes=[last]), emit.as_result(where, 1)]


def _search_sorted(emit: Emitter) -> Sequence[ir.Value]:
    """How many of an ordered axis come before each value, equal ones too with ``right``."""
    ordered, values = emit.x, emit.input(1)
    rank = len(dims_of(values))
    wanted = emit("Unsqueeze", [values], axes=[rank])
    if len(dims_of(ordered)) > 1:
        ordered = emit("Unsqueeze", [ordered], axes=[rank - 1])
    if emit.attribute("right", 0):
        before = emit.flipped(emit("Less", [wanted, ordered]))
    else:
        before = emit("Less", [ordered, wanted])
    return [emit.as_result(emit.sum(emit.cast(before, np.int32), rank))]


def _histogram(emit: Emitter) -> Sequence[ir.Value]:
    """How many elements fall into each bin, or the sum of their weights."""
    x, weight = emit.reshape(emit.x, [-1]), emit.optional(1)
    bins = int(emit.attribute("bins", 100))
    dtype = (emit.x.dtype or ir.DataType.FLOAT).numpy()
    if emit.x.dtype not in FLOATS:
        # The product with the number of bins needs more than 32 bits.
        x, dtype = emit.cast(x, np.int64), np.dtype(np.int64)
    low, high = (dtype.type(emit.attribute(name, 0.0)) for name in ("min", "max"))
    least, most = emit.constant(low, dtype), emit.constant(high, dtype)
    if low == high:
        # Bounds that are equal stand for the smallest and the largest element.
        one = emit.constant(1, dtype)
        least, most = (emit(f"Reduce{name}", [x], keepdims=0) for name in ("Min", "Max"))
        flat = emit("Equal", [least, most])
        least, most = (
            emit.where(flat, emit(op_type, [value, one]), value)
            for op_type, value in (("Sub", least), ("Add", most))
        )
    count = emit.constant(bins, dtype)
    width = emit("Sub", [most, least])
    scaled = emit("Div", [emit("Mul", [emit("Sub", [x, least]), count]), width])
    whole = emit.cast(scaled, np.int64)
    whole = emit.where(emit("Less", [whole, emit.int64s(bins)]), whole, emit.int64s(bins - 1))
    outside = emit("Or", [emit("Less", [x, least]), emit("Less", [most, x])])
    if emit.x.dtype in FLOATS:
        outside = emit("Or", [outside, emit("IsNaN", [x])])
    places = emit.where(outside, emit.int64s(bins), whole)
    kind = np.int32 if weight is None else np.float32
    size = int(np.prod(dims_of(emit.x)))
    amounts = emit.constant(np.ones(size), kind) if weight is None else emit.reshape(weight, [-1])
    empty = emit.constant(np.zeros(bins + 1), kind)
    total = scattered(emit, empty, places, amounts, 0, "add")
    total = emit("Slice", [total, emit.int64s(0), emit.int64s(bins)])
    if emit.attribute("density", 0):
        total = emit.cast(total, np.float32)
        share = emit("Div", [total, emit("ReduceSum", [total], keepdims=0)])
        part = emit("Div", [emit.cast(width, np.float32), emit.constant(bins, np.float32)])
        total = emit("Div", [share, part])
    return [emit.as_result(total)]


RULES: Mapping[tuple[str, str], Rule] = {
    ("ai.graphcore", "Sort"): _sort,
    ("ai.paddle_ipu", "CumMax"): _running_extreme(True),
    ("ai.paddle_ipu", "CumMin"): _running_extreme(False),
    ("ai.paddle_ipu", "CumProd"): _running(
        1.0, lambda emit, states, x: [emit("Mul", [states[0], x])]
    ),
    ("ai.paddle_ipu", "Histogram"): _histogram,
    ("ai.paddle_ipu", "LogCumSumExp"): _running(float(np.finfo(np.float32).min), _log_sum),
    ("ai.paddle_ipu", "Median"): _median,
    ("ai.paddle_ipu", "Mode"): _mode,
    ("ai.paddle_ipu", "SearchSorted"): _search_sorted,
}

"""Inference of operators that run subgraphs, or end a run.

A subgraph's inputs have been typed from what its operator is given, by ``popart/subgraphs.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, info_of


def _infos(ctx: InferenceContext, values: Sequence[ir.Value], what: str) -> list[TensorInfo]:
    infos = []
    for value in values:
        info = info_of(value)
        if info is None:
            raise ctx.error(f"the shape of {what} '{value.name}' is not known")
        infos.append(info)
    return infos


def _expect_count(ctx: InferenceContext, what: str, got: int, expected: int) -> None:
    if got != expected:
        raise ctx.error(f"has {got} {what}, expected {expected}")


def _expect_same(
    ctx: InferenceContext, got: Sequence[TensorInfo], expected: Sequence[TensorInfo], what: str
) -> None:
    for number, (first, second) in enumerate(zip(got, expected, strict=True)):
        if (first.dtype, first.dims) != (second.dtype, second.dims):
            raise ctx.error(f"{what} {number} is {first}, expected {second}")


def if_(ctx: InferenceContext) -> list[TensorInfo]:
    """What both branches give: the same types, one for each output."""
    then: ir.Graph = ctx.attributes["then_branch"]
    otherwise: ir.Graph = ctx.attributes["else_branch"]
    if ctx.info(0).nelms() != 1:
        raise ctx.error(f"the condition is {ctx.info(0)}, expected one element")
    for name, branch in (("then_branch", then), ("else_branch", otherwise)):
        _expect_count(ctx, f"outputs of its {name}", len(branch.outputs), ctx.num_outputs)
        _expect_count(ctx, f"inputs of its {name}", len(branch.inputs), 0)
    outputs = _infos(ctx, then.outputs, "output")
    _expect_same(
        ctx, _infos(ctx, otherwise.outputs, "output"), outputs, "output of its else_branch"
    )
    return outputs


def loop(ctx: InferenceContext) -> list[TensorInfo]:
    """The carried tensors' types, then those of what each iteration adds, one row an iteration."""
    body: ir.Graph = ctx.attributes["body"]
    carried = [ctx.info(index) for index in range(2, len(ctx.inputs))]
    rows = ctx.num_outputs - len(carried)
    _expect_count(ctx, "inputs of its body", len(body.inputs), 2 + len(carried))
    _expect_count(ctx, "outputs of its body", len(body.outputs), 1 + ctx.num_outputs)
    outputs = _infos(ctx, body.outputs[1:], "output")
    _expect_same(ctx, outputs[: len(carried)], carried, "output of its body for carried tensor")
    if not rows:
        return carried
    if not ctx.has(0):
        raise ctx.error("stacks outputs of its body and has no maximum trip count, input 0")
    trip_count = ctx.constant_ints(0, "maximum trip count")[0]
    return carried + [
        TensorInfo.of(i.dtype, (trip_count, *i.dims)) for i in outputs[len(carried) :]
    ]


def scan(ctx: InferenceContext) -> list[TensorInfo]:
    """The states' types, then those of what each iteration adds, joined along the output axes."""
    body: ir.Graph = ctx.attributes["body"]
    count = int(ctx.attributes["num_scan_inputs"])
    states = len(ctx.inputs) - count
    if not 1 <= count <= len(ctx.inputs):
        raise ctx.error(f"num_scan_inputs is {count}, expected 1..{len(ctx.inputs)}")
    _expect_count(ctx, "inputs of its body", len(body.inputs), len(ctx.inputs))
    _expect_count(ctx, "outputs of its body", len(body.outputs), ctx.num_outputs)
    axes = ctx.attributes.get("scan_input_axes") or [0] * count
    lengths = set()
    for index, axis in zip(range(states, len(ctx.inputs)), axes, strict=True):
        info = ctx.info(index)
        at = ctx.axis(int(axis), len(info.dims))
        lengths.add(info.dims[at])
    if len(lengths) != 1:
        raise ctx.error(f"its scan inputs have different lengths: {sorted(lengths)}")
    carried = [ctx.info(index) for index in range(states)]
    outputs = _infos(ctx, body.outputs, "output")
    _expect_same(ctx, outputs[:states], carried, "state that its body gives")
    rows = outputs[states:]
    output_axes = ctx.attributes.get("scan_output_axes") or [0] * len(rows)
    (length,) = lengths
    joined = []
    for info, axis in zip(rows, output_axes, strict=True):
        at = ctx.axis(int(axis), len(info.dims) + 1)
        joined.append(TensorInfo.of(info.dtype, (*info.dims[:at], length, *info.dims[at:])))
    return carried + joined


def call(ctx: InferenceContext) -> list[TensorInfo]:
    """What the subgraph gives."""
    callee: ir.Graph = ctx.attributes["callee"]
    for what, got, expected in (
        ("inputs", len(ctx.inputs), len(callee.inputs)),
        ("outputs", ctx.num_outputs, len(callee.outputs)),
    ):
        if got != expected:
            raise ctx.error(
                f"For CallOp '{ctx.op}', number of {what} ({got}) does not match that of the "
                f"callee subgraph ({expected})"
            )
    return _infos(ctx, callee.outputs, "output")


def packed_data_block(ctx: InferenceContext) -> list[TensorInfo]:
    """What the subgraph gives for each sequence, packed: ``[resultSize, *rest]``.

    Inputs: for each input of the subgraph the packed data ``[rows, *rest]``, the first rows of the
    sequences and their lengths; then the first rows and the lengths in the result. The subgraph
    gives ``[callbackBatchSize, length, *rest]``.
    """
    body: ir.Graph = ctx.attributes["callback"]
    most = ctx.attributes["maxSequenceLengths"]
    batch = int(ctx.attributes["callbackBatchSize"])
    data, extra = divmod(len(ctx.inputs) - 2, 3)
    if extra:
        raise ctx.error(
            f"has {len(ctx.inputs)} inputs, expected 3 for each input of its callback (data, "
            "offsets, lengths) and 2 (offsets and lengths of the result)"
        )
    _expect_count(ctx, "inputs of its callback", len(body.inputs), data)
    _expect_count(ctx, "outputs of its callback", len(body.outputs), 1)
    _expect_count(ctx, "maxSequenceLengths", len(most), data)
    sequences = math.prod(ctx.info(1).dims)
    for index in range(len(ctx.inputs)):
        info = ctx.info(index)
        if index < 3 * data and index % 3 == 0:
            ctx.expect_rank(index, 1)
        elif math.prod(info.dims) != sequences:
            raise ctx.error(
                f"input {index} '{ctx.input_id(index)}' is {info}, expected {sequences} elements, "
                "one for each sequence"
            )
    if not 1 <= batch <= sequences:
        raise ctx.error(f"callbackBatchSize is {batch}, expected 1..{sequences}, the sequences")
    (given,) = _infos(ctx, body.outputs, "output")
    if len(given.dims) < 2 or given.dims[0] != batch:
        raise ctx.error(f"its callback gives {given}, expected [{batch}, length, ...]")
    return [TensorInfo.of(given.dtype, (int(ctx.attributes["resultSize"]), *given.dims[2:]))]


def abort(ctx: InferenceContext) -> list[TensorInfo]:
    """(condition): one boolean, or none; there is no output."""
    if ctx.has(0) and ctx.info(0).nelms() != 1:
        raise ctx.error(f"the condition must be one boolean, got {ctx.info(0)}")
    return []

"""Translators of control flow: ``if`` becomes PopART's If, ``while`` its Loop.

A block is emitted through a builder of its own, which names the tensors that the block reads from
outside. If the condition is a constant of the program, the chosen branch is emitted in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.constant_folding import find_folder, fold
from paddle_ipu.ops.context import Array, TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.passes.extract_forward import needed_for

_MOST_ITERATIONS = 2**31 - 1
_LONGEST_SIMULATION = 20_000
_MOST_UNROLLED = 1024


@translator("if", emits=("If", "Reshape"))
def if_(context: TranslationContext) -> Sequence[str | None]:
    """One of two blocks, by a condition of one element.

    Both branches must return the same shapes and dtypes. A branch without results gets a dummy one,
    since If has at least one. A constant condition emits its branch only.
    """
    node = context.node
    condition = context.values(dialect.COND)[0]
    captured = context.values(dialect.CAPTURED)
    branches: tuple[ir.Graph, ir.Graph] = (context.attr(dialect.ELSE), context.attr(dialect.THEN))
    known = context.constants.get(id(condition))
    if known is not None:
        chosen = branches[_truth(context, known)]
        inside = context.nested(context.builder)
        _bind(context, inside, chosen.inputs, captured)
        inside.emit(inside, chosen)
        return [
            _as_result(context, inside, value, result)
            for value, result in zip(chosen.outputs, node.outputs, strict=True)
        ]
    builders = []
    for branch in branches:
        inside = context.nested(context.builder.createSubgraphBuilder())
        _bind(context, inside, branch.inputs, captured)
        inside.emit(inside, branch)
        _yield(inside, branch.outputs)
        if not branch.outputs:
            # PopART's If needs at least one result.
            inside.builder.addOutputTensor(inside.onnx.identity([inside.const(np.int32(0))]))
        builders.append(inside)
    lengths = _array_lengths(context, builders[1], branches[1], builders[0], branches[0])
    _check_branches(context, builders[1], builders[0])
    outputs = context.onnx.logical_if(
        [_scalar(context, condition)],
        len(_yielded(builders[0])),
        builders[0].builder,
        builders[1].builder,
    )
    remaining = iter(output for output in outputs)
    results: list[str | None] = []
    for value, length in zip(node.outputs, lengths, strict=True):
        if length is not None:
            context.arrays[id(value)] = tuple(islice(remaining, length))
        results.append(next(remaining) if length is None else None)
    return results


def _array_lengths(
    context: TranslationContext,
    then: TranslationContext,
    then_block: ir.Graph,
    otherwise: TranslationContext,
    else_block: ir.Graph,
) -> list[int | None]:
    """For each result the length of the array of tensors it is, None for a tensor."""
    lengths = [
        [
            len(inside.arrays[id(value)]) if id(value) in inside.arrays else None
            for value in block.outputs
        ]
        for inside, block in ((then, then_block), (otherwise, else_block))
    ]
    if lengths[0] != lengths[1]:
        raise context.refuse(
            "its branches leave arrays of tensors of different lengths. An IPU program has static "
            "shapes: let both branches write as many."
        )
    return lengths[0]


def _check_branches(
    context: TranslationContext, then: TranslationContext, otherwise: TranslationContext
) -> None:
    pairs = zip(_yielded(then), _yielded(otherwise), strict=True)
    for number, (first, second) in enumerate(pairs):
        kinds = [(then.shape(first), then.dtype(first)),
                 (otherwise.shape(second), otherwise.dtype(second))]  # fmt: skip
        if kinds[0] != kinds[1]:
            raise context.refuse(
                f"result {number} is {_kind(*kinds[0])} of the true branch and {_kind(*kinds[1])} "
                "of the false one. An IPU program has static shapes: let both branches return the "
                "same shape and dtype."
            )


def _yielded(context: TranslationContext) -> list[str]:
    return [str(name) for name in context.builder.getOutputTensorIds()]


def _kind(shape: Sequence[int], dtype: str) -> str:
    return f"{dtype} {list(shape)}"


@dataclass(frozen=True, slots=True)
class _Loop:
    """A ``while`` node, with the loop-invariant values apart from those that change.

    Attributes:
        body: the body; its outputs are the condition, then the carried values.
        values: the carried values, outside the loop.
        captured: values that the body reads from outside.
        carried: indices of the carried values that an iteration changes and that are read.
        kept: indices of the carried values that the body returns unchanged.
    """

    body: ir.Graph
    values: Sequence[ir.Value]
    captured: Sequence[ir.Value]
    carried: Sequence[int]
    kept: Sequence[int]

    @classmethod
    def of(cls, context: TranslationContext) -> _Loop:
        """The loop of the context's node."""
        body: ir.Graph = context.attr(dialect.BODY)
        values = context.values(dialect.CARRIED)
        kept = [
            at for at, _ in enumerate(values) if _origin(body.outputs[1 + at]) is body.inputs[at]
        ]
        # Paddle 2 carries a placeholder without a shape for what only the body writes: unread.
        outputs = context.node.outputs
        carried = [
            at
            for at, _ in enumerate(values)
            if at not in kept and (_is_read(outputs[at]) or _is_read(body.inputs[at]))
        ]
        return cls(body, values, context.values(dialect.CAPTURED), carried, kept)

    def constants(self, context: TranslationContext) -> tuple[list[ir.Value], list[ir.Value]]:
        """(inputs of the body that no iteration changes, the outer values they are bound to)."""
        first = len(self.values)
        inner = [self.body.inputs[at] for at in self.kept] + list(self.body.inputs[first:])
        return inner, [self.values[at] for at in self.kept] + list(self.captured)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _origin(value: ir.Value) -> ir.Value:
    """The value at the start of a chain of copies."""
    node = value.producer()
    while node is not None and node.op_type in ("assign", "share_data"):
        source = node.inputs[0] if node.inputs else None
        if source is None:
            # The copy's own translation says what is wrong with it.
            return value
        value, node = source, source.producer()
    return value


@translator(
    "while", emits=("Loop", "Reshape"),
    limits="carried values keep their shape; in training the trip count must be a constant",
)  # fmt: skip
def while_(context: TranslationContext) -> Sequence[str | None]:
    """A loop over carried values of constant shape.

    If the condition follows from constants, the number of iterations is computed here and the Loop
    has a constant trip count, which training needs. Otherwise the body's condition ends it. A loop
    that writes to arrays of tensors is unrolled.
    """
    node = context.node
    loop = _Loop.of(context)
    condition = context.values(dialect.COND)[0]
    iterations = _trip_count(context, loop, condition)
    if iterations is None and node.meta.get(dialect.DIFFERENTIATED):
        raise context.refuse(
            "the number of iterations depends on values that are computed at run time, or is above "
            f"{_LONGEST_SIMULATION}, and such a loop has no gradient on an IPU. Count in the loop "
            "with a variable that starts at a constant, steps by a constant and is compared with a "
            "constant, or stop the gradient of what the loop returns."
        )
    results: list[str | None] = [None] * len(node.outputs)
    for at in loop.kept:
        results[at] = _as_result(context, context, loop.values[at], node.outputs[at])
    if iterations == 0 or not loop.carried:
        for at in loop.carried:
            results[at] = _as_result(context, context, loop.values[at], node.outputs[at])
        return results
    if any(dialect.is_array(loop.values[at]) for at in loop.carried):
        return _unroll(context, loop, iterations)
    first = [context.tensor(loop.values[at]) for at in loop.carried]
    inside = context.nested(context.builder.createSubgraphBuilder())
    _emit_body(inside, context, loop, first, is_counted=iterations is not None)
    _check_carried(context, inside, loop, first)
    if iterations is None:
        most = context.const(np.asarray(_MOST_ITERATIONS), "int64")
        going = _scalar(context, condition)
    else:
        most = context.const(np.asarray(iterations), "int64")
        going = context.const(np.asarray(True))
    outputs = context.onnx.loop([most, going, *first], len(first), inside.builder)
    for at, output in zip(loop.carried, outputs, strict=True):
        results[at] = output
    return results


def _unroll(context: TranslationContext, loop: _Loop, iterations: int | None) -> list[str | None]:
    """Unrolls a loop that writes to arrays of tensors.

    Raises:
        NotSupported: the number of iterations is computed at run time, or too large.
    """
    if iterations is None or iterations > _MOST_UNROLLED:
        raise context.refuse(
            "it writes to an array of tensors, and its number of iterations "
            + ("is computed at run time. " if iterations is None else f"is {iterations}. ")
            + f"Such a loop is unrolled, up to {_MOST_UNROLLED} iterations: count "
            "from a constant in steps of a constant to a constant, or write into a tensor of the "
            "final shape: paddle.scatter, paddle.put_along_axis."
        )
    body = loop.body
    values = {body.inputs[at]: loop.values[at] for at in loop.carried}
    inner, outer = loop.constants(context)
    wanted = [body.outputs[1 + at] for at in loop.carried]
    nodes = _needed_for(body, [body.outputs[0], *wanted], _unread(body))
    before = context
    for _ in range(iterations):
        inside = context.nested(context.builder)
        _bind(context, inside, inner, outer)
        _bind(before, inside, values.keys(), values.values())
        inside.emit(inside, nodes)
        values = {body.inputs[at]: body.outputs[1 + at] for at in loop.carried}
        before = inside
    results: list[str | None] = [None] * len(context.node.outputs)
    for at in (*loop.carried, *loop.kept):
        value = body.outputs[1 + at] if at in loop.carried else loop.values[at]
        source = before if at in loop.carried else context
        results[at] = _as_result(context, source, value, context.node.outputs[at])
    return results


def _emit_body(
    inside: TranslationContext,
    outside: TranslationContext,
    loop: _Loop,
    first: Sequence[str],
    *,
    is_counted: bool,
) -> None:
    """Emits the body as PopART's Loop reads it.

    Its inputs are the iteration, the condition and the carried values; its outputs the condition
    and the carried values.
    """
    builder, body = inside.builder, loop.body
    builder.addInputTensor("INT64", [], debugContext="iteration")
    builder.addInputTensor("BOOL", [], debugContext="condition")
    for at, tensor in zip(loop.carried, first, strict=True):
        dtype = dialect.POPART_DTYPES[outside.dtype(tensor)]
        inside.tensors[id(body.inputs[at])] = str(
            builder.addInputTensor(dtype, outside.shape(tensor), debugContext="carried")
        )
    _bind(outside, inside, *loop.constants(outside))
    nexts = [body.outputs[1 + at] for at in loop.carried]
    if is_counted:
        inside.emit(inside, _needed_for(body, nexts, _unread(body)))
        builder.addOutputTensor(inside.onnx.identity([inside.const(np.asarray(True))]))
    else:
        inside.emit(inside, _needed_for(body, [body.outputs[0], *nexts], _unread(body)))
        going = _scalar(inside, body.outputs[0])
        builder.addOutputTensor(inside.onnx.identity([going]))
    _yield(inside, nexts)


def _check_carried(
    context: TranslationContext, inside: TranslationContext, loop: _Loop, first: Sequence[str]
) -> None:
    """Raises unless every carried value keeps its shape and dtype."""
    for at, before, after in zip(loop.carried, first, _yielded(inside)[1:], strict=True):
        kinds = ((context.shape(before), context.dtype(before)),
                 (inside.shape(after), inside.dtype(after)))  # fmt: skip
        if kinds[0] != kinds[1]:
            raise context.refuse(
                f"loop variable {at} goes into the body as {_kind(*kinds[0])} and comes out as "
                f"{_kind(*kinds[1])}. An IPU program has static shapes: write into a tensor of the "
                "final shape instead of growing one."
            )


def _trip_count(context: TranslationContext, loop: _Loop, condition: ir.Value) -> int | None:
    """The number of iterations if it follows from constants, else None.

    The nodes that the condition depends on are folded with NumPy, iteration by iteration.
    """
    going = context.constants.get(id(condition))
    if going is None:
        return None
    if not _truth(context, going):
        return 0
    body, inputs = loop.body, {id(value): at for at, value in enumerate(loop.body.inputs)}
    wanted = [body.outputs[0]]
    counters: list[int] = []
    while True:
        nodes = _needed_for(body, wanted)
        read = {id(value) for node in nodes for value in node.inputs} | {id(v) for v in wanted}
        read_inputs = [at for key, at in inputs.items() if key in read and at in loop.carried]
        if read_inputs == counters:
            break
        counters = read_inputs
        wanted = [body.outputs[0], *(body.outputs[1 + at] for at in counters)]
    if any(node.op_type not in dialect.CONSTANT_OPS and find_folder(str(node.op_type)) is None
           for node in nodes):  # fmt: skip
        return None
    known = {
        id(inner): context.constants[id(outer)]
        for inner, outer in zip(*loop.constants(context), strict=True)
        if id(outer) in context.constants
    }
    if any(id(loop.values[at]) not in context.constants for at in counters):
        return None
    counts = {at: context.constants[id(loop.values[at])] for at in counters}
    scratch = context.nested(context.builder)
    for iteration in range(1, _LONGEST_SIMULATION):
        scratch.constants = {**known, **{id(body.inputs[at]): n for at, n in counts.items()}}
        for node in nodes:
            scratch.node = node
            if node.op_type in dialect.CONSTANT_OPS:
                constant = dialect.constant(node.outputs[0])
                assert constant is not None
                scratch.constants[id(node.outputs[0])] = constant
            elif not fold(scratch):
                return None
        going = scratch.constants.get(id(body.outputs[0]))
        if going is None:
            return None
        if not _truth(context, going):
            return iteration
        counts = {at: scratch.constants[id(body.outputs[1 + at])] for at in counters}
    return None


def _needed_for(
    graph: ir.Graph, values: Iterable[ir.Value], roots: Iterable[ir.Node] = ()
) -> list[ir.Node]:
    """The nodes of a block that `values` and `roots` depend on, in the block's order."""
    needed = needed_for([*(value.producer() for value in values), *roots])
    return [node for node in graph if id(node) in needed]


def _unread(graph: ir.Graph) -> list[ir.Node]:
    """The nodes of a block whose results nobody reads: they are kept for their side effects."""
    return [
        node
        for node in graph
        if not any(value.uses() or value.is_graph_output() for value in node.outputs)
    ]


def _bind(
    context: TranslationContext,
    inside: TranslationContext,
    inner: Iterable[ir.Value],
    outer: Iterable[ir.Value],
) -> None:
    """Binds a block's inputs to outer values; constants stay constants."""
    is_apart = inside.builder is not context.builder
    for parameter, value in zip(inner, outer, strict=True):
        constant = context.constants.get(id(value))
        if constant is not None:
            inside.constants[id(parameter)] = constant
            continue
        elements = context.arrays.get(id(value))
        if elements is not None:
            inside.arrays[id(parameter)] = elements
        tensors = [context.tensor(value)] if elements is None else elements
        for tensor in tensors:
            if is_apart and isinstance(tensor, str):
                inside.builder.addInputTensorFromParentGraph(tensor)
        if elements is None:
            inside.tensors[id(parameter)] = str(tensors[0])


def _yield(inside: TranslationContext, values: Iterable[ir.Value]) -> None:
    """Makes values the outputs of a block; each through an Identity, so that the block owns it."""
    for value in values:
        elements = inside.arrays.get(id(value))
        tensors = [inside.tensor(value)] if elements is None else map(inside.element, elements)
        for tensor in tensors:
            inside.builder.addOutputTensor(inside.onnx.identity([tensor]))


def _as_result(
    context: TranslationContext, inside: TranslationContext, value: ir.Value, result: ir.Value
) -> str | None:
    """A value as a result of the node; None if it is a constant or an array, which is recorded."""
    elements = inside.arrays.get(id(value))
    if elements is not None:
        context.arrays[id(result)] = elements
        return None
    constant = inside.constants.get(id(value))
    if constant is None:
        return inside.tensor(value)
    context.constants[id(result)] = constant
    return None


def _truth(context: TranslationContext, condition: Array) -> bool:
    """A constant condition as a bool."""
    if condition.size != 1:
        raise context.refuse(
            f"the condition must have one element, got shape {list(condition.shape)}."
        )
    return bool(condition.reshape(()))


def _scalar(context: TranslationContext, condition: ir.Value) -> str:
    """A condition as the rank-0 BOOL tensor that PopART reads."""
    tensor = context.tensor(condition)
    shape = context.shape(tensor)
    if any(size != 1 for size in shape):
        raise context.refuse(f"the condition must have one element, got shape {shape}.")
    return context.reshape(context.cast(tensor, "bool"), [])

"""Fuses attention, gain softmax(scale Q Kᵀ + mask) V, into one operator with a kernel of its own.

XLA writes the scores of all heads to memory between two products, and Q, K, V and the result once
more with rows and heads exchanged. The kernel of ``kernels/simd/attention.inc`` reads and writes
them where they stand, and keeps the scores near the core.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.attention import AttentionSpec, Strides
from paddle_ipu.xla.lowerings.node_values import (
    STANDARD,
    is_float32,
    needed_tensors,
    permutation,
    static_dims,
)
from paddle_ipu.xla.rewrites.replacement import Replacement
from paddle_ipu.xla.rewrites.views import View, row_major, scaled, view_of

if TYPE_CHECKING:
    from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph


@dataclass(frozen=True, slots=True)
class FusedAttention:
    """Attention by the ids of its tensors.

    Attributes:
        product: that by V, by its own result.
        dropped: results of the operators done in it, but for the last one.
        result: the last one: that of the product by V, or of the transpose behind it.
        inputs: Q, K, V and the mask, None for no mask.
        shape: of the result.
        spec: the work.
    """

    product: str
    dropped: frozenset[str] = field(compare=False)
    result: str
    inputs: tuple[str, str, str, str | None]
    shape: tuple[int, ...]
    spec: AttentionSpec


class FuseAttention:
    """Has a kernel do attention: products of Q, K and V, and the softmax between them."""

    name = "fuse_attention"
    requires = ("unread rows left out",)
    ensures = ("attention fused",)

    def run(self, program: InferenceGraph, /) -> bool:
        """Nothing where softmax is unstable, as the kernel's is not."""
        if not program.allows_kernels or program.precision.unstable_softmax:
            return False
        attentions = fuse(program.graph, program.anchors)
        replacement = Replacement(program.graph)
        for item in attentions:
            replacement.put(
                "Attention",
                item.inputs,
                item.result,
                named_by=item.product,
                dropped=item.dropped,
                attributes={"spec": item.spec, "shape": item.shape},
            )
        return bool(attentions)


def fuse(graph: ir.Graph, kept: Collection[str]) -> list[FusedAttention]:
    """The attentions of a graph that the kernel takes; none where it cannot be used.

    Args:
        graph: the PopART graph.
        kept: tensors that are results, or are looked at.
    """
    if not library.lanes():
        return []
    readers = _Readers(needed_tensors(graph, kept))
    candidates = (_attention(node, readers) for node in graph if _is(node, "Softmax"))
    return [attention for attention in candidates if attention is not None]


@dataclass(frozen=True, slots=True)
class _Readers:
    """Tells who alone reads a tensor."""

    kept: Collection[str]

    def reader(self, value: ir.Value) -> tuple[ir.Node, int] | None:
        """The node that alone reads it and by which input; None where others may."""
        uses = tuple(value.uses())
        if value.name in self.kept or len(uses) != 1:
            return None
        return uses[0].node, uses[0].idx

    def maker(self, value: ir.Value | None, reader: ir.Node) -> ir.Node | None:
        """The node that makes what one node alone reads."""
        if value is None or self.reader(value) is None:
            return None
        uses = tuple(value.uses())
        return value.producer() if uses[0].node is reader else None

    def scaled(self, node: ir.Node) -> tuple[ir.Value, float] | None:
        """What is multiplied and by which constant, where nothing else of the node is looked at."""
        is_seen = any(value.name in self.kept for value in node.outputs)
        return None if is_seen else scaled(node)


def _attention(softmax: ir.Node, readers: _Readers) -> FusedAttention | None:
    powers = softmax.outputs[0]
    dims = static_dims(powers)
    axis = softmax.attributes.get_int("axis", 1)
    if len(dims) not in (3, 4) or min(dims) < 1 or not is_float32(powers):
        return None
    if axis not in (-1, len(dims) - 1):
        return None
    dropped, gain, value = [str(powers.name)], 1.0, powers
    while True:
        reader = readers.reader(value)
        if reader is None:
            return None
        passed = readers.scaled(reader[0])
        if passed is None:
            break
        value, gain = reader[0].outputs[0], gain * passed[1]
        dropped.append(str(value.name))
    values, place = reader
    if place != 0 or not _is(values, "MatMul"):
        return None
    factor, mask = 1.0, None
    node = readers.maker(softmax.inputs[0], softmax)
    while node is not None and not _is(node, "MatMul"):
        dropped.append(str(node.outputs[0].name))
        passed = readers.scaled(node)
        if passed is not None:
            source, own = passed
            factor *= own
        elif _is(node, "Add") and mask is None and factor == 1.0:
            chosen = _mask_of(node, dims, readers)
            if chosen is None:
                return None
            source, mask = chosen
        else:
            return None
        node = readers.maker(source, node)
    if node is None:
        return None
    dropped.append(str(node.outputs[0].name))
    return _fused(node, values, dims, (factor, gain), mask, dropped, readers)


def _mask_of(
    node: ir.Node, dims: tuple[int, ...], readers: _Readers
) -> tuple[ir.Value, ir.Value] | None:
    """(the scores, the mask) of an Add of both."""
    for scores, mask in itertools.permutations(node.inputs):
        if (
            scores is not None
            and mask is not None
            and static_dims(scores) == dims
            and is_float32(mask)
            and _broadcast(static_dims(mask), dims) is not None
            and readers.reader(scores) is not None
            and _leads_to_product(scores)
        ):
            return scores, mask
    return None


def _leads_to_product(value: ir.Value) -> bool:
    node = value.producer()
    while node is not None:
        passed = scaled(node)
        if passed is None:
            return _is(node, "MatMul")
        node = passed[0].producer()
    return False


def _fused(
    scores: ir.Node,
    values: ir.Node,
    dims: tuple[int, ...],
    factors: tuple[float, float],
    mask: ir.Value | None,
    dropped: list[str],
    readers: _Readers,
) -> FusedAttention | None:
    *outer, rows, columns = dims
    query = _read(scores.inputs[0], outer)
    key = _read(scores.inputs[1], outer)
    value, context = _read(values.inputs[1], outer), values.outputs[0]
    depth, width = static_dims(scores.inputs[0])[-1:], static_dims(context)[-1:]
    if query is None or key is None or value is None or min((*depth, *width), default=0) < 1:
        return None
    if static_dims(context) != (*outer, rows, *width) or not is_float32(context):
        return None
    # A row's elements must be neighbours, where there are several.
    if query.strides[-1] > 1 or key.strides[-2] > 1 or value.strides[-1] > 1:
        return None
    result, places = context, tuple(range(len(dims)))
    behind = readers.reader(context)
    if behind is not None and _is(behind[0], "Transpose"):
        order = permutation(behind[0], len(dims))
        if order[-1] == len(dims) - 1:
            dropped.append(str(context.name))
            result = behind[0].outputs[0]
            places = tuple(order.index(axis) for axis in range(len(dims)))
    shape = static_dims(result)
    own = row_major(shape)
    batches, heads = (1, *outer) if len(outer) == 1 else outer
    masked = None if mask is None else _broadcast(static_dims(mask), dims)
    spec = AttentionSpec(
        batches=batches,
        heads=heads,
        rows=rows,
        columns=columns,
        depth=depth[0],
        width=width[0],
        query=_three(query.strides[:-1]),
        key=_three((*key.strides[:-2], key.strides[-1])),
        value=_three(value.strides[:-1]),
        result=_three(tuple(own[place] for place in places)[:-1]),
        offsets=(query.offset, key.offset, value.offset),
        mask=None if masked is None else (*_three(masked[:-1]), masked[-1]),
        threads=library.threads(),
        lanes=library.lanes(),
        scale=factors[0] * query.factor * key.factor,
        gain=factors[1] * value.factor,
    )
    names = [str(item.tensor.name) for item in (query, key, value)]
    return FusedAttention(
        product=str(context.name),
        dropped=frozenset(dropped),
        result=str(result.name),
        inputs=(names[0], names[1], names[2], None if mask is None else str(mask.name)),
        shape=shape,
        spec=spec,
    )


def _read(operand: ir.Value | None, outer: Sequence[int]) -> View | None:
    """An operand [..., rows, elements] of a product, where it lies."""
    dims = static_dims(operand)
    if operand is None or len(dims) != len(outer) + 2 or not is_float32(operand):
        return None
    if any(own not in (1, size) for own, size in zip(dims, outer, strict=False)):
        return None
    return view_of(operand)


def _broadcast(dims: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides by which a smaller array is read as one of `whole`; None where it cannot be."""
    full = (1,) * (len(whole) - len(dims)) + dims
    if len(full) != len(whole) or any(d not in (1, w) for d, w in zip(full, whole, strict=True)):
        return None
    strides = row_major(full)
    return tuple(0 if dim == 1 else stride for dim, stride in zip(full, strides, strict=True))


def _three(strides: tuple[int, ...]) -> Strides:
    """Of an example, a head and a row, where there may be no examples."""
    example, head, row = (0, *strides) if len(strides) == 2 else strides
    return example, head, row


def _is(node: ir.Node, op_type: str) -> bool:
    return node.op_type == op_type and node.domain in STANDARD

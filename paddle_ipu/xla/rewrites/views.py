"""Where an operand lies in the tensor that it is a view of.

Transposes, slices and reshapes that split axes move nothing: a kernel that takes strides reads
through them. Factors on the way are gathered, so that it multiplies once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from paddle_ipu.popart.shape_inference.constants import constant_of
from paddle_ipu.xla.lowerings.node_values import (
    STANDARD,
    gives_its_input,
    is_float32,
    permutation,
    static_dims,
)
from paddle_ipu.xla.rewrites.slice_pushdown import rows_of_slice


@dataclass(frozen=True, slots=True)
class View:
    """A float32 value as elements of another one, times a factor.

    Attributes:
        tensor: the other one.
        strides: of each axis of the value, in elements of `tensor`; 0 where there is one element.
        offset: of the first element.
        factor: by which each is multiplied.
    """

    tensor: ir.Value
    strides: tuple[int, ...]
    offset: int
    factor: float


@dataclass(frozen=True, slots=True)
class _Hop:
    """How the axes of a result lie in the input of the operator that makes it.

    Attributes:
        source: the input.
        axes: for each axis (that of `source`, by how many places a step goes); None where there is
            one element.
        starts: the first place of each axis of `source`.
        factor: by which elements are multiplied.
    """

    source: ir.Value
    axes: tuple[tuple[int, int] | None, ...]
    starts: tuple[int, ...]
    factor: float = 1.0


def view_of(value: ir.Value) -> View:
    """The farthest tensor that a value is a view of; itself if nothing else."""
    dims = static_dims(value)
    tensor, factor, starts = value, 1.0, [0] * len(dims)
    axes = [None if dim == 1 else (axis, 1) for axis, dim in enumerate(dims)]
    while (hop := _hop(tensor)) is not None:
        moved = list(hop.starts)
        for start, place in zip(starts, hop.axes, strict=True):
            if place is not None:
                moved[place[0]] += start * place[1]
        axes = [_after(place, hop) for place in axes]
        tensor, starts, factor = hop.source, moved, factor * hop.factor
    steps = row_major(static_dims(tensor))
    strides = tuple(0 if place is None else steps[place[0]] * place[1] for place in axes)
    offset = sum(start * step for start, step in zip(starts, steps, strict=True))
    return View(tensor, strides, offset, factor)


def _after(place: tuple[int, int] | None, hop: _Hop) -> tuple[int, int] | None:
    if place is None:
        return None
    own = hop.axes[place[0]]
    return None if own is None else (own[0], own[1] * place[1])


def _hop(value: ir.Value) -> _Hop | None:
    node = value.producer()
    if node is None:
        return None
    dims = static_dims(value)
    whole = scaled(node)
    if whole is not None:
        source, factor = whole
        return _Hop(source, tuple((axis, 1) for axis in range(len(dims))), (0,) * len(dims), factor)
    source_ = node.inputs[0] if node.inputs else None
    if source_ is None or node.domain not in STANDARD or not is_float32(source_):
        return None
    if node.op_type == "Transpose":
        places = tuple((axis, 1) for axis in permutation(node, len(dims)))
        return _Hop(source_, places, (0,) * len(dims))
    if node.op_type in ("Reshape", "Squeeze", "Unsqueeze"):
        split = _split(static_dims(source_), dims)
        return None if split is None else _Hop(source_, split, (0,) * len(static_dims(source_)))
    return _part(node, value, source_)


def _part(node: ir.Node, value: ir.Value, source: ir.Value) -> _Hop | None:
    """Of a Slice of one axis, or one result of a Split."""
    rank = len(static_dims(value))
    starts, steps = [0] * rank, [1] * rank
    if node.op_type == "Split":
        axis = node.attributes.get_int("axis", 0) % rank
        before = node.outputs[: node.outputs.index(value)]
        starts[axis] = sum(static_dims(other)[axis] for other in before)
    else:
        rows = rows_of_slice(node)
        if rows is None:
            return None
        starts[rows.axis], steps[rows.axis] = rows.start, rows.step
    return _Hop(source, tuple(enumerate(steps)), tuple(starts))


def _split(
    source: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[tuple[int, int] | None, ...] | None:
    """How axes lie in an array of which they are a reshape; None where one lies in several."""
    if not source or min((*source, *dims)) < 1:
        return None
    cuts = [math.prod(source[: place + 1]) for place in range(len(source))]
    parts: list[tuple[int, int] | None] = []
    for axis, dim in enumerate(dims):
        if dim == 1:
            parts.append(None)
            continue
        # In how many parts the axes up to this one cut the array, and those before it.
        end = math.prod(dims[: axis + 1])
        place = next(p for p, cut in enumerate(cuts) if cut * dim > end)
        limit = cuts[place]
        if end > limit or limit % end:
            return None
        parts.append((place, limit // end))
    return tuple(parts)


def scaled(node: ir.Node) -> tuple[ir.Value, float] | None:
    """(what is multiplied, by which constant) of a Mul or Div by one number, or an Identity."""
    first = node.inputs[0] if node.inputs else None
    if first is not None and gives_its_input(node):
        return first, 1.0
    if first is not None and (node.domain, node.op_type) == ("ai.graphcore", "Scale"):
        return first, node.attributes["scale"].as_float()
    if node.domain not in STANDARD or node.op_type not in ("Mul", "Div"):
        return None
    left, right = node.inputs
    pairs = [(left, right)] if node.op_type == "Div" else [(left, right), (right, left)]
    for source, number in pairs:
        if source is None or number is None or not _is_constant(number):
            continue
        constant = constant_of(number)
        if constant is None or constant.size != 1 or not is_float32(source):
            continue
        factor = float(constant.reshape(()))
        if node.op_type == "Div":
            factor = 1 / factor if factor else math.nan
        if static_dims(source) == static_dims(node.outputs[0]) and math.isfinite(factor):
            return source, factor
    return None


def _is_constant(value: ir.Value) -> bool:
    """Whether it is part of the program, and no weight that a host may set."""
    node = value.producer()
    return node is not None and node.op_type == "Constant" and node.domain in STANDARD


def row_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps, in elements."""
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))

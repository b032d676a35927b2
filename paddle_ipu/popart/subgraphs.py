"""Bodies of the operators that run subgraphs: a copy for each use, typed from what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.tensorinfo import TensorInfo, info_of

FROM_PARENT = "from_parent"
"""In the ``meta`` of a body: ids of tensors of the graph around it that it takes as inputs, and at
which place. They are no inputs of the graph unless the operator is given something for them."""

_BRANCHES = "If"
_TURN, _GOING = TensorInfo("INT64", []), TensorInfo("BOOL", [])
"""What a Loop's body takes where the Loop itself has no trip count or no condition."""


def own_body(op_type: str, inputs: Sequence[ir.Value | None], body: ir.Graph) -> ir.Graph:
    """A copy of a body for one operator.

    Tensors of the graph around it that the body takes as inputs become such where the operator has
    an input for each; else the body reads them where they are, as those of an If always do.

    Args:
        op_type: ``Call``, ``If``, ``Loop``, ``PackedDataBlock`` or ``Scan``.
        inputs: of the operator.
        body: what a subgraph builder made.
    """
    copy = body.clone(allow_outer_scope_values=True)
    taken: Mapping[str, int] = copy.meta.get(FROM_PARENT, {})
    if op_type == _BRANCHES or len(inputs) != len(copy.inputs) + len(taken):
        return copy
    # Bodies in the body that were given something in its place have an input of that name.
    theirs = {value for inner in copy.subgraphs() for value in inner.inputs}
    for name, place in taken.items():
        made = ir.Value(name=name)
        copy.inputs.insert(place, made)
        for node in ir.traversal.RecursiveGraphIterator(copy):
            for at, value in enumerate(node.inputs):
                if value is not None and value.name == name and value not in theirs:
                    node.replace_input_with(at, made)
    return copy


def type_inputs(
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Iterable[ir.Attr],
    body: ir.Graph,
) -> bool:
    """Gives the inputs of a body the types of what its operator is given, as PopART does.

    Types that they had do not count, but for the number of a Loop's turn and its condition.

    Returns:
        Whether one had another type or none.
    """
    changed = False
    infos = [None if value is None else info_of(value) for value in inputs]
    for at, (value, info) in enumerate(
        zip(body.inputs, _given(op_type, infos, attributes), strict=False)
    ):
        own = info_of(value)
        kept = own is not None and op_type == "Loop" and at < 2
        if info is None or own == info or kept:
            continue
        value.type, value.shape = ir.TensorType(info.dtype), ir.Shape(info.dims)
        changed = True
    return changed


def _given(
    op_type: str, infos: Sequence[TensorInfo | None], attributes: Iterable[ir.Attr]
) -> Sequence[TensorInfo | None]:
    """The types of what an operator gives its body, None where that is not known yet."""
    if op_type == _BRANCHES:
        return []
    if op_type == "Loop":
        turn, going, *carried = (*infos, None, None)[: max(len(infos), 2)]
        return [turn or _TURN, going or _GOING, *carried]
    plain = {attribute.name: attribute.value for attribute in attributes}
    if op_type == "Scan":
        return _slices(infos, plain)
    if op_type == "PackedDataBlock":
        batch = int(plain["callbackBatchSize"])
        return [
            None if info is None else TensorInfo.of(info.dtype, (batch, int(most), *info.dims[1:]))
            for info, most in zip(infos[:-2:3], plain["maxSequenceLengths"], strict=False)
        ]
    return infos


def _slices(
    infos: Sequence[TensorInfo | None], attributes: Mapping[str, Any]
) -> list[TensorInfo | None]:
    """A Scan's states, and one slice of each of its other inputs.

    Raises:
        popart_exception: an input does not have the axis to slice.
    """
    count = int(attributes["num_scan_inputs"])
    states = max(len(infos) - count, 0)
    axes = attributes.get("scan_input_axes") or [0] * count
    slices: list[TensorInfo | None] = list(infos[:states])
    for info, axis in zip(infos[states:], axes, strict=False):
        rank = 0 if info is None else len(info.dims)
        if info is None:
            slices.append(None)
            continue
        if not -rank <= axis < rank:
            raise popart_exception(
                f"Scan: axis {axis} is out of range for a tensor of rank {rank}, which one of its "
                f"scan inputs is: expected {-rank}..{rank - 1}"
            )
        at = axis % rank
        slices.append(TensorInfo.of(info.dtype, info.dims[:at] + info.dims[at + 1 :]))
    return slices

"""Nodes that passes insert into a graph."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu.dialect import dialect

_PLACE = ("ipu_index", "ipu_stage", "op_role")


def new_node(
    op_type: str,
    operands: Sequence[ir.Value],
    result: ir.Value,
    near: ir.Node | None = None,
    attributes: Sequence[ir.Attr] = (),
) -> ir.Node:
    """An operator with the placement, the source line and the layer of another one.

    Args:
        op_type: phi's name.
        operands: ``x``, or ``x`` and ``y``.
        result: the result; its name becomes the node's.
        near: the node whose IPU, pipeline stage, role, source line and layer are copied.
        attributes: further attributes.
    """
    copied = [] if near is None else [near.attributes[k] for k in _PLACE if k in near.attributes]
    node = ir.Node(
        dialect.DOMAIN,
        op_type,
        operands,
        [*attributes, *copied],
        outputs=[result],
        name=result.name,
    )
    node.meta[dialect.CALLSTACK] = () if near is None else near.meta.get(dialect.CALLSTACK, ())
    node.meta[dialect.LAYER] = "" if near is None else dialect.layer_of(near)
    node.meta[dialect.INPUT_NAMES] = ("x", "y")[: len(operands)]
    return node

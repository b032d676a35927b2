"""A dialect graph as plain values, without names, to compare what two readers made."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect

_OF_ONE_READER = frozenset({"op_role", "mkldnn_data_type", "onednn_data_type"})
"""Attributes that Paddle's translation loses, or makes up."""


def form(graph: ir.Graph) -> list[tuple[Any, ...]]:
    """(operator, operands, attributes, results) of every node but the constants.

    An operand is (its name, where it comes from): an input's name, the number of a node and of
    its result, or the value of a constant.
    """
    places: dict[int, Any] = {id(value): value.name for value in graph.inputs}
    rows: list[tuple[Any, ...]] = []
    for node in graph:
        if node.op_type in ("full", "full_int_array"):
            places[id(node.outputs[0])] = (
                node.op_type,
                dialect.attribute(node, "dtype"),
                _rounded(dialect.attribute(node, "value")),
            )
            if any(True for _ in node.outputs[0].uses()):
                continue
        for at, value in enumerate(node.outputs):
            places[id(value)] = (len(rows), at)
        operands = [
            (name, None if value is None else places[id(value)])
            for name, value in dialect.operands(node)
        ]
        attributes = {
            name: _rounded(found.value)
            for name, found in node.attributes.items()
            if name not in _OF_ONE_READER and not _is_plain(name, found.value)
        }
        results = [
            None if value.type is None else (dialect.dtype_name(value), dialect.dims_of(value))
            for value in node.outputs
        ]
        rows.append((node.op_type, operands, attributes, results))
    return rows


def _is_plain(name: str, value: Any) -> bool:
    """Segments of one each, which Paddle's translation writes around a single tensor."""
    return name == "input_segments" and set(value) == {1}


def _rounded(value: Any) -> Any:
    """Numbers as float32 holds them, lists as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(_rounded(item) for item in value)
    return float(f"{value:.6g}") if isinstance(value, float) else value

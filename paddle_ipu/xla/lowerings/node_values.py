"""What nodes and tensors of a PopART graph say of themselves, as plain Python values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.annotations import PARTIALS_TYPE
from paddle_ipu.popart.program import read_by_subgraphs
from paddle_ipu.popart.schema import schema_of_node
from paddle_ipu.popart.shape_inference.constants import constant_of
from paddle_ipu.xla.precision.half import NARROW

STANDARD = ("", "ai.onnx")
"""Domains of ONNX's operators."""

POPARTS = (*STANDARD, "ai.graphcore")
"""Domains of PopART's operators: ONNX's and its own."""

ATTRIBUTES = "paddle_ipu.attributes"
"""Where the ``meta`` of a node that a pass has made has attributes that are no ONNX values."""

RANDOM_INDEX = "paddle_ipu.random_index"
"""Where the ``meta`` of a node has its number among those that draw, if not that of its place."""


def constants(node: ir.Node) -> dict[int, np.ndarray[Any, Any]]:
    """Initializers, and what follows from them, at the inputs that must be constant.

    Training may change those of floats.
    """
    schema = schema_of_node(node)
    by_index: dict[int, np.ndarray[Any, Any]] = {}
    for index in () if schema is None else schema.constant_inputs:
        value = node.inputs[index] if index < len(node.inputs) else None
        constant = None if value is None else constant_of(value)
        if constant is not None:
            by_index[index] = constant
    return by_index


def bounds(node: ir.Node) -> frozenset[int]:
    """Inputs that say how far the operator goes."""
    schema = schema_of_node(node)
    constant_inputs = () if schema is None else schema.constant_inputs
    return frozenset((*constant_inputs, 0) if node.op_type == "Loop" else constant_inputs)


def partials(node: ir.Node) -> str | None:
    """What ``Builder.setPartialsType`` has written, in capitals."""
    attribute = node.attributes.get(PARTIALS_TYPE)
    return None if attribute is None else str(attribute.value).upper()


def gives_its_input(node: ir.Node) -> bool:
    """Whether its result is its input in an inference session; a dropout's mask is not read."""
    is_standard = node.domain in STANDARD and node.op_type in ("Identity", "Dropout")
    is_shaped = (node.domain, node.op_type) == ("ai.graphcore", "ShapedDropout")
    return (is_standard or is_shaped) and not any(value.uses() for value in node.outputs[1:])


def permutation(node: ir.Node, rank: int) -> tuple[int, ...]:
    """Of the axes, by a Transpose."""
    perm = node.attributes.get("perm")
    return tuple(reversed(range(rank))) if perm is None else tuple(int(i) for i in perm.as_ints())


def attributes(node: ir.Node) -> dict[str, Any]:
    """Its attributes but for subgraphs and what PopART records on any node."""
    plain: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        # What PopART records on any node, but for the settings of its collective operators.
        recorded = name.startswith("__") and not name.startswith("__collective")
        if recorded or attribute.type == ir.AttributeType.GRAPH:
            continue
        value = attribute.value
        plain[name] = value.numpy() if isinstance(value, ir.TensorProtocol) else value
    plain.update(node.meta.get(ATTRIBUTES, {}))
    return plain


def needed_tensors(graph: ir.Graph, kept: Collection[str]) -> set[str]:
    """`kept`, with what the graph gives and its subgraphs read: tensors that have to be there."""
    inner = (value for node in graph for value in read_by_subgraphs(node))
    return {*kept, *(str(value.name) for value in (*graph.outputs, *inner))}


def static_dims(value: ir.Value | None) -> tuple[int, ...]:
    """The static shape; nothing where it is not known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return ()
    return tuple(int(dim) for dim in value.shape.numpy())


def is_float32(value: ir.Value | None) -> bool:
    """Whether it is a tensor of float32."""
    return value is not None and value.dtype is ir.DataType.FLOAT


def is_computed_in_float32(*values: ir.Value | None) -> bool:
    """Whether all are tensors of float32, or all of one type that is computed in float32."""
    kinds = {None if value is None else value.dtype for value in values}
    return len(kinds) == 1 and kinds <= {ir.DataType.FLOAT, *NARROW}


def is_float(array: Any) -> bool:
    """Whether an array, or a number, is a floating-point one."""
    dtype = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
    return bool(jnp.issubdtype(dtype, jnp.floating))

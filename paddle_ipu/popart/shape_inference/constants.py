"""Values that are known while the graph is built: constants and what follows from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

_MAX_FOLDED_ELEMENTS = 1024


def constant_of(value: ir.Value) -> np.ndarray[Any, Any] | None:
    """The value of a constant, an initializer or small shape arithmetic, or None."""
    if value.const_value is not None:
        return value.const_value.numpy()
    node = value.producer()
    if node is None or node.domain:
        return None
    if node.op_type == "Shape":
        shape = node.inputs[0].shape if node.inputs[0] is not None else None
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            return None
        return np.array(list(shape), dtype=np.int64)
    if node.op_type not in ("Identity", "Cast", "Concat", "Gather", "Squeeze", "Unsqueeze"):
        return None
    if value.shape is None or int(np.prod(value.shape.numpy())) > _MAX_FOLDED_ELEMENTS:
        return None
    inputs = [None if item is None else constant_of(item) for item in node.inputs]
    if any(item is None for item in inputs):
        return None
    return _fold(node, [item for item in inputs if item is not None], value)


def _fold(
    node: ir.Node, inputs: list[np.ndarray[Any, Any]], value: ir.Value
) -> np.ndarray[Any, Any]:
    if node.op_type == "Cast":
        assert value.dtype is not None
        return inputs[0].astype(value.dtype.numpy())
    if node.op_type == "Concat":
        return np.concatenate(inputs, axis=node.attributes["axis"].as_int())
    if node.op_type == "Gather":
        return np.take(inputs[0], inputs[1], axis=node.attributes["axis"].as_int())
    assert value.shape is not None
    return inputs[0].reshape(value.shape.numpy())

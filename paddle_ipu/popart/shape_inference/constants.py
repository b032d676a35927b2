"""Values that are known while the graph is built: constants and what follows from shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]

_MAX_FOLDED_ELEMENTS = 1024


_FOLDED = ("Identity", "Cast", "Concat", "Gather", "Squeeze", "Unsqueeze")


def constant_of(value: ir.Value) -> Array | None:
    """The value of a constant, an initializer or small shape arithmetic, or None."""
    known: dict[ir.Value, Array | None] = {}
    # Each value is looked at once: shape arithmetic may be deep, and may read a value again.
    waiting = [value]
    while waiting:
        last = waiting[-1]
        operands = _operands(last)
        if last in known:
            waiting.pop()
        elif operands is None:
            known[last] = _written(last)
        elif unknown := [each for each in operands if each not in known]:
            waiting.extend(unknown)
        else:
            arrays = [array for each in operands if (array := known[each]) is not None]
            known[last] = _fold(last, arrays) if len(arrays) == len(operands) else None
    return known[value]


def _operands(value: ir.Value) -> list[ir.Value] | None:
    """What a value is computed from where it may be folded, else None."""
    node = value.producer()
    if value.const_value is not None or node is None or node.domain or node.op_type not in _FOLDED:
        return None
    if value.shape is None or int(np.prod(value.shape.numpy())) > _MAX_FOLDED_ELEMENTS:
        return None
    operands = [each for each in node.inputs if each is not None]
    return operands if len(operands) == len(node.inputs) else None


def _written(value: ir.Value) -> Array | None:
    """A value that the graph has without computing anything."""
    node, array = value.producer(), value.const_value
    if array is not None:
        # The array of a weight that differs between replicas has an entry for each group of them.
        is_one = node is not None or value.shape == array.shape
        return array.numpy() if is_one else None
    if node is None or node.domain or node.op_type != "Shape":
        return None
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    return np.array(list(shape), dtype=np.int64)


def _fold(value: ir.Value, inputs: list[Array]) -> Array:
    node = value.producer()
    assert node is not None
    if node.op_type == "Cast":
        assert value.dtype is not None
        return inputs[0].astype(value.dtype.numpy())
    if node.op_type == "Concat":
        return np.concatenate(inputs, axis=node.attributes["axis"].as_int())
    if node.op_type == "Gather":
        return np.take(inputs[0], inputs[1], axis=node.attributes["axis"].as_int())
    assert value.shape is not None
    return inputs[0].reshape(value.shape.numpy())

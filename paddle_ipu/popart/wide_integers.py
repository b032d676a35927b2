"""64-bit integers on a device of 32 bits: what does not fit is an error, not another number."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.schema import schema_of_node

Array = np.ndarray[Any, Any]

_NARROW = {np.dtype(np.int64): np.dtype(np.int32), np.dtype(np.uint64): np.dtype(np.uint32)}
# Their results are known while a graph is built, wherever their inputs are.
_FOLDED = frozenset({"Identity", "Cast", "Concat", "Gather", "Squeeze", "Unsqueeze"})


def fits(array: Array) -> bool:
    """Whether the device has every number of an array; only 64-bit integers may not fit."""
    narrow = _NARROW.get(array.dtype)
    if narrow is None or not array.size:
        return True
    limits = np.iinfo(narrow)
    return bool(limits.min <= array.min() and array.max() <= limits.max)


def check_fits(array: Array, tensor: str, where: str = "") -> None:
    """Raises unless the device has every number of a constant or a weight.

    Raises:
        popart_exception: there is one beyond 32 bits.
    """
    if fits(array):
        return
    narrow = _NARROW[array.dtype]
    raise popart_exception(
        f"{where}Tensor {tensor} holds {array.min()}..{array.max()}, which the device's "
        f"{narrow.name.upper()} cannot hold; there are no 64-bit integers. Use smaller values"
    )


def narrowed(array: Array, dtype: str, initializer: ir.Value | None) -> Array:
    """An initial value in the device's element type.

    What only says how far a Slice or a Loop goes may be as large as it likes, and is clipped.

    Raises:
        popart_exception: a number that does not fit 32 bits.
    """
    if fits(array):
        return array.astype(dtype, copy=False)
    if initializer is None or not _is_a_bound(initializer):
        check_fits(array, str(initializer.name if initializer is not None else ""))
    limits = np.iinfo(np.dtype(dtype))
    return np.clip(array, limits.min, limits.max).astype(dtype)


def _is_a_bound(value: ir.Value) -> bool:
    """Whether operators take a tensor as a constant, or as the maximum trip count of a loop."""
    for node, index in value.uses():
        schema = schema_of_node(node)
        if schema is not None and index in schema.constant_inputs:
            continue
        if node.op_type == "Loop" and index == 0:
            continue
        if node.op_type not in _FOLDED or not _is_a_bound(node.outputs[0]):
            return False
    return bool(value.uses())

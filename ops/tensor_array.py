"""Translators of arrays of tensors, which exist at compile time only.

An index must be a constant of the program. It is one in a loop whose trip count is constant: such a
loop is unrolled if it writes to an array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.context import Array, Element, TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


def _keep(context: TranslationContext, elements: Sequence[Element]) -> list[str | None]:
    """Records the node's result as an array of `elements`."""
    context.arrays[id(context.node.outputs[0])] = tuple(elements)
    return [None]


def _index(context: TranslationContext) -> int | None:
    """Operand ``i``; None if it is computed at run time."""
    return int(context.static("i").reshape(())) if context.is_constant("i") else None


@translator("create_array", emits=())
def create_array(context: TranslationContext) -> list[str | None]:
    """An empty array."""
    return _keep(context, ())


@translator("array_write", emits=(), limits="the index must be constant, up to the array's length")
def array_write(context: TranslationContext) -> list[str | None]:
    """The array with ``x`` at index ``i``, which may be the next one."""
    elements, at = list(context.array("array")), _index(context)
    if at is None:
        raise context.refuse(
            "the index is computed at run time, and with it how long the array becomes. Count with "
            "a variable that starts at a constant and steps by a constant, or write into a tensor "
            "of the final shape: paddle.scatter, paddle.put_along_axis."
        )
    if not 0 <= at <= len(elements):
        raise context.refuse(
            f"index {at} is not within the array or next to its {len(elements)} element(s); write "
            "the elements in order."
        )
    (value,) = context.values("x")
    constant = context.constants.get(id(value))
    elements[at : at + 1] = [context.tensor(value) if constant is None else constant]
    return _keep(context, elements)


@translator("array_read", emits=("Concat", "Gather", "Unsqueeze", "Reshape"))
def array_read(context: TranslationContext) -> str | Array:
    """The element at ``i``; by an index of run time a Gather from the stacked elements."""
    elements, at = context.array("array"), _index(context)
    if at is None:
        stacked = _joined(context, elements, 0, stack=True)
        return context.onnx.gather([stacked, context.reshape(context.input("i"), [])], 0)
    if not 0 <= at < len(elements):
        raise context.refuse(f"index {at} is not in the array, which has {len(elements)} elements.")
    return elements[at]


@translator("array_length", emits=())
def array_length(context: TranslationContext) -> Array:
    """The number of elements."""
    return np.asarray([len(context.array("x"))], np.int64)


@translator("array_pop", emits=(), limits="the array may not be empty")
def array_pop(context: TranslationContext) -> list[str | None]:
    """The array without the element at ``index``, and that element."""
    elements, at = list(context.array("array")), int(context.attr("index", -1))
    if not -len(elements) <= at < len(elements):
        raise context.refuse(f"index {at} is not in the array, which has {len(elements)} elements.")
    popped = elements.pop(at)
    return [*_keep(context, elements), context.element(popped)]


@translator(
    "array_to_tensor",
    emits=("Concat", "Unsqueeze"),
    limits="elements have one shape beside the axis",
)
def array_to_tensor(context: TranslationContext) -> list[str | None]:
    """The elements concatenated or stacked along ``axis``, and their sizes in that axis."""
    elements = context.array("x")
    axis, stack = int(context.attr("axis", 0)), bool(context.attr("use_stack", 0))
    joined = _joined(context, elements, axis, stack)
    written_as(context, 1, "int32")
    if stack and axis in (-1, context.rank(joined) - 1):
        return [joined, None]
    sizes = [context.shape(context.element(each))[axis] for each in elements]
    return [joined, context.const(np.asarray(sizes, np.int32))]


def _joined(
    context: TranslationContext, elements: Sequence[Element], axis: int, stack: bool
) -> str:
    """The elements as one tensor.

    Raises:
        NotSupported: there are none, or their shapes do not fit.
    """
    tensors = [context.element(each) for each in elements]
    shapes = [context.shape(tensor) for tensor in tensors]
    if not tensors:
        raise context.refuse("the array is empty; write to it first.")
    axis %= len(shapes[0]) + stack
    for number, shape in enumerate(shapes):
        first = list(shapes[0])
        if not stack:
            first[axis : axis + 1] = shape[axis : axis + 1]
        if shape != first:
            raise context.refuse(
                f"element {number} has shape {shape} and element 0 {shapes[0]}: they cannot become "
                f"one tensor along axis {axis}. Write elements of one shape, or join them apart."
            )
    if stack:
        tensors = [context.onnx.unsqueeze([tensor], [axis]) for tensor in tensors]
    return context.onnx.concat(tensors, axis)

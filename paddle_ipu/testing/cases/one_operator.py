"""Writes one operator by name into the program under construction, PIR or ProgramDesc.

For operators that Paddle's public API does not reach on a machine without the device they are
for, or not in every version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import paddle


def _is_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_tensor, value))
    return hasattr(value, "stop_gradient")


def operator(
    name: str,
    arguments: Mapping[str, Any],
    outputs: str,
    slots: Mapping[str, str] | None = None,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    **only_of_program_desc: Any,
) -> list[Any]:
    """Appends operator `name` and returns its results, lists laid out flat.

    Args:
        name: of the operator, in phi and in ProgramDescs.
        arguments: in PIR's order, by phi's names; None for an operand left out.
        outputs: result slots of a ProgramDesc, separated by blanks; ``State*2`` is a list of two.
        slots: phi name -> slot or attribute of a ProgramDesc, where they differ.
        shape: of the first result, where Paddle has no kernel to ask; that of the first operand
            by default.
        dtype: of the results of a ProgramDesc; that of the first operand by default.
        only_of_program_desc: attributes that PIR's operator does not have.
    """
    if paddle.framework.in_pir_mode():
        results = getattr(paddle._C_ops, name)(*arguments.values())
        return _flat(results if isinstance(results, (list, tuple)) else [results])
    from paddle.base.layer_helper import LayerHelper

    slots = slots or {}
    helper = LayerHelper(name)
    given = {slots.get(k, k): v for k, v in arguments.items() if v is not None}
    inputs = {slot: value for slot, value in given.items() if _is_tensor(value)}
    attributes = {slot: value for slot, value in given.items() if slot not in inputs}
    first = next(iter(inputs.values()))
    tensor = first[0] if isinstance(first, (list, tuple)) else first
    dtype = dtype or tensor.dtype
    made = {}
    for output in outputs.split():
        slot, _, count = output.partition("*")
        made[slot] = [
            helper.create_variable_for_type_inference(dtype) for _ in range(int(count or 1))
        ]
    helper.append_op(
        type=name, inputs=inputs, outputs=made, attrs={**attributes, **only_of_program_desc}
    )
    result = _flat(made.values())[0]
    if not result.shape:
        result.desc.set_shape(list(tensor.shape if shape is None else shape))
    return _flat(made.values())


def _flat(results: Any) -> list[Any]:
    found: list[Any] = []
    for result in results:
        found.extend(result if isinstance(result, (list, tuple)) else [result])
    return found

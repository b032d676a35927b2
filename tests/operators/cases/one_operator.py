"""Writes one operator by name into the program under construction, PIR or ProgramDesc.

For operators that Paddle's public API does not reach on a machine without the device they are
for, or not in every version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import paddle


def append(
    kind: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **attributes: Any
) -> list[Any]:
    """Appends a ProgramDesc operator and returns its results, in the order of their slots.

    Args:
        inputs: slot -> variable, a list of them, or None for one left out.
        outputs: slot -> dtype.
    """
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper(kind)
    made = {
        slot: helper.create_variable_for_type_inference(dtype) for slot, dtype in outputs.items()
    }
    given = {slot: value for slot, value in inputs.items() if value is not None}
    helper.append_op(type=kind, inputs=given, outputs=made, attrs=attributes)
    return list(made.values())


def either(
    in_pir: Callable[[], Any],
    kind: str,
    inputs: Mapping[str, Any],
    result_dtype: Any,
    out: str = "Out",
    **attributes: Any,
) -> Any:
    """What `in_pir` makes in a PIR program; in a ProgramDesc result `out` of operator `kind`."""
    if paddle.framework.in_pir_mode():
        return in_pir()
    return append(kind, inputs, {out: result_dtype}, **attributes)[0]


def call(
    kind: str,
    arguments: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy: str = "",
    **attributes: Any,
) -> list[Any]:
    """Writes one operator into the program under construction and gives its results.

    Args:
        kind: the phi name.
        arguments: of the function of that name in ``paddle._C_ops``, for a PIR program.
        inputs: slot -> variable, a list of them or None, for a ProgramDesc.
        outputs: slot -> dtype; the results come in this order from a ProgramDesc.
        legacy: the ProgramDesc operator, where it has another name.
        attributes: of the ProgramDesc operator.
    """
    if paddle.framework.in_pir_mode():
        results = getattr(paddle._C_ops, kind)(*arguments)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        if any(isinstance(result, bool) for result in results):
            # Paddle gives True for a result it takes for optional.
            results = list(results[0].get_defining_op().results())
        return results
    return append(legacy or kind, inputs, outputs, **attributes)


def _is_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_tensor, value))
    return hasattr(value, "stop_gradient")


def operator(
    name: str,
    arguments: Mapping[str, Any],
    outputs: Sequence[str],
    slots: Mapping[str, str] | None = None,
    lists: Mapping[str, int] | None = None,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    **only_of_program_desc: Any,
) -> list[Any]:
    """Appends operator `name` and returns its results, lists laid out flat.

    Args:
        name: of the operator, in phi and in ProgramDescs.
        arguments: in PIR's order, by phi's names; None for an operand left out.
        outputs: result slots of a ProgramDesc.
        slots: phi name -> slot or attribute of a ProgramDesc, where they differ.
        lists: result slot -> how many members its list has.
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
    made = {
        slot: [
            helper.create_variable_for_type_inference(dtype)
            for _ in range((lists or {}).get(slot, 1))
        ]
        for slot in outputs
    }
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

"""One operator by its name, for those that Paddle's public API does not reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import paddle


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
    from paddle.base.layer_helper import LayerHelper

    kind = legacy or kind
    helper = LayerHelper(kind)
    made = {
        slot: helper.create_variable_for_type_inference(dtype) for slot, dtype in outputs.items()
    }
    given = {slot: value for slot, value in inputs.items() if value is not None}
    helper.append_op(type=kind, inputs=given, outputs=made, attrs=attributes)
    return list(made.values())

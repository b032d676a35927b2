"""Uses of mathematical operators that Paddle's public API does not reach, or not in every version.

Like ``by_operator``: each function writes one operator into the program under construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import paddle


def _written(
    kind: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **attributes: Any
) -> list[Any]:
    """Appends a ProgramDesc operator; `outputs` are slots with their dtypes, in order."""
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper(kind)
    made = {
        slot: helper.create_variable_for_type_inference(dtype) for slot, dtype in outputs.items()
    }
    helper.append_op(type=kind, inputs=inputs, outputs=made, attrs=attributes)
    return list(made.values())


def l1_norm(x: Any) -> Any:
    """The sum of absolute values."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.l1_norm(x)
    return _written("l1_norm", {"X": x}, {"Out": x.dtype})[0]


def squared_l2_norm(x: Any) -> Any:
    """The sum of squares."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.squared_l2_norm(x)
    return _written("squared_l2_norm", {"X": x}, {"Out": x.dtype})[0]


def norm(x: Any, axis: int, epsilon: float) -> list[Any]:
    """Vectors along an axis scaled to length 1, and their lengths."""
    if paddle.framework.in_pir_mode():
        return list(paddle._C_ops.norm(x, axis, epsilon, False))
    outputs = {"Out": x.dtype, "Norm": x.dtype}
    return _written("norm", {"X": x}, outputs, axis=axis, epsilon=epsilon, is_test=False)


def number_count(numbers: Any, upper_range: int) -> Any:
    """How often each number below `upper_range` occurs."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.number_count(numbers, upper_range)
    return _written(
        "number_count", {"numbers": numbers}, {"Out": numbers.dtype}, upper_range=upper_range
    )[0]


def logcumsumexp(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The logarithm of running sums of exponentials, from either end, with or without each own."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.logcumsumexp(x, axis, False, exclusive, reverse)
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return _written("logcumsumexp", {"X": x}, {"Out": x.dtype}, **attributes)[0]


def cumsum(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Running sums from either end, with or without each own element."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.cumsum(x, axis, False, exclusive, reverse)
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return _written("cumsum", {"X": x}, {"Out": x.dtype}, **attributes)[0]

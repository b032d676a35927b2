"""Uses of operators that Paddle's public API does not reach, or not in every version.

Each function writes one operator into the program under construction: a PIR program by the call
that Paddle's own functions make, a ProgramDesc by the operator's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import paddle


def _append(
    kind: str,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    dtype: Any,
    **attributes: Any,
) -> list[Any]:
    """Appends a ProgramDesc operator and returns its outputs, in the order of their slots."""
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper(kind)
    made = {slot: helper.create_variable_for_type_inference(dtype) for slot in outputs}
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
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper(kind)
    made = helper.create_variable_for_type_inference(result_dtype)
    helper.append_op(type=kind, inputs=inputs, outputs={out: made}, attrs=attributes)
    return made


def shape(x: Any) -> Any:
    """The shape as int32, which ``paddle.shape`` gives on Paddle 2.6 only."""
    return paddle._C_ops.shape(x) if paddle.framework.in_pir_mode() else paddle.shape(x)


def mean_all(x: Any) -> Any:
    """The mean of all elements, which ``paddle.mean`` writes with another operator."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.mean_all(x)
    (mean,) = _append("mean", {"X": x}, ["Out"], x.dtype)
    return mean


def cross_entropy(
    x: Any, label: Any, use_softmax: bool = True, ignore_index: int = -100, axis: int = -1
) -> list[Any]:
    """Cross entropy with hard labels [..., 1]: the probabilities and the losses."""
    if paddle.framework.in_pir_mode():
        return list(
            paddle._C_ops.cross_entropy_with_softmax(
                x, label, False, use_softmax, True, ignore_index, axis
            )
        )
    return _append(
        "softmax_with_cross_entropy",
        {"Logits": x, "Label": label},
        ["Softmax", "Loss"],
        x.dtype,
        soft_label=False,
        use_softmax=use_softmax,
        numeric_stable_mode=True,
        ignore_index=ignore_index,
        axis=axis,
    )


def normalized_sigmoid_cross_entropy(x: Any, label: Any, ignore_index: int) -> Any:
    """Binary cross entropy of logits, divided by how many labels are not ignored."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.sigmoid_cross_entropy_with_logits(x, label, None, True, ignore_index)
    (loss,) = _append(
        "sigmoid_cross_entropy_with_logits",
        {"X": x, "Label": label},
        ["Out"],
        x.dtype,
        normalize=True,
        ignore_index=ignore_index,
    )
    return loss


def kldiv_loss(x: Any, target: Any, reduction: str) -> Any:
    """The Kullback-Leibler divergence with the operator's own reduction."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.kldiv_loss(x, target, reduction, False)
    (loss,) = _append(
        "kldiv_loss", {"X": x, "Target": target}, ["Loss"], x.dtype, reduction=reduction
    )
    return loss

"""Uses of operators that Paddle's public API does not reach, or not in every version.

Each function writes one operator into the program under construction: a PIR program by the call
that Paddle's own functions make, a ProgramDesc by the operator's name.
"""

from __future__ import annotations

from typing import Any

import paddle

from tests.operators.cases.one_operator import append


def shape(x: Any) -> Any:
    """The shape as int32, which ``paddle.shape`` gives on Paddle 2.6 only."""
    return paddle._C_ops.shape(x) if paddle.framework.in_pir_mode() else paddle.shape(x)


def mean_all(x: Any) -> Any:
    """The mean of all elements, which ``paddle.mean`` writes with another operator."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.mean_all(x)
    (mean,) = append("mean", {"X": x}, {"Out": x.dtype})
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
    return append(
        "softmax_with_cross_entropy",
        {"Logits": x, "Label": label},
        {"Softmax": x.dtype, "Loss": x.dtype},
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
    (loss,) = append(
        "sigmoid_cross_entropy_with_logits",
        {"X": x, "Label": label},
        {"Out": x.dtype},
        normalize=True,
        ignore_index=ignore_index,
    )
    return loss


def kldiv_loss(x: Any, target: Any, reduction: str) -> Any:
    """The Kullback-Leibler divergence with the operator's own reduction."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.kldiv_loss(x, target, reduction, False)
    (loss,) = append(
        "kldiv_loss", {"X": x, "Target": target}, {"Loss": x.dtype}, reduction=reduction
    )
    return loss


def l1_norm(x: Any) -> Any:
    """The sum of absolute values."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.l1_norm(x)
    return append("l1_norm", {"X": x}, {"Out": x.dtype})[0]


def squared_l2_norm(x: Any) -> Any:
    """The sum of squares."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.squared_l2_norm(x)
    return append("squared_l2_norm", {"X": x}, {"Out": x.dtype})[0]


def norm(x: Any, axis: int, epsilon: float) -> list[Any]:
    """Vectors along an axis scaled to length 1, and their lengths."""
    if paddle.framework.in_pir_mode():
        return list(paddle._C_ops.norm(x, axis, epsilon, False))
    outputs = {"Out": x.dtype, "Norm": x.dtype}
    return append("norm", {"X": x}, outputs, axis=axis, epsilon=epsilon, is_test=False)


def number_count(numbers: Any, upper_range: int) -> Any:
    """How often each number below `upper_range` occurs."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.number_count(numbers, upper_range)
    return append(
        "number_count", {"numbers": numbers}, {"Out": numbers.dtype}, upper_range=upper_range
    )[0]


def logcumsumexp(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """The logarithm of running sums of exponentials, from either end, with or without each own."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.logcumsumexp(x, axis, False, exclusive, reverse)
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return append("logcumsumexp", {"X": x}, {"Out": x.dtype}, **attributes)[0]


def cumsum(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Running sums from either end, with or without each own element."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.cumsum(x, axis, False, exclusive, reverse)
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return append("cumsum", {"X": x}, {"Out": x.dtype}, **attributes)[0]

"""Why an operator's result is NaN or infinite: its operands, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from paddle_ipu.verification.ranges import HALF_LARGEST

Array = np.ndarray[Any, Any]
Operands = Mapping[str, Array]
Cause = tuple[str, str]
"""(what its operands are, what to do)."""

_LOGS = frozenset({"log", "log2", "log10"})
_ROOTS = frozenset({"sqrt", "rsqrt"})
_LOG_ADVICE = (
    "Keep its operand above 0: log(x + 1e-6), clip(x, 1e-6), or log_softmax and "
    "cross_entropy in place of log of softmax."
)
_HALF_ADVICE = (
    "Scale it down before this operator (weights, inputs, or a factor such as 1/sqrt(size)), or "
    "keep the operator in float32."
)


def forward_cause(operator: str, operands: Operands, in_half: bool, in_full: Array | None) -> Cause:
    """The cause of what is not finite in an operator's result.

    Args:
        operands: by the operator's names for them.
        in_half: the result is float16.
        in_full: the result on the other side, where that computes in float32.
    """
    kind = operator.removesuffix("_")
    name = _not_finite(operands)
    if name:
        return (
            f"Its operand {name} holds infinities: infinity minus infinity, or 0 times infinity, "
            "is NaN.",
            "See the first infinity.",
        )
    if in_half and in_full is not None and in_full.size and np.isfinite(in_full).all():
        largest = float(np.abs(np.asarray(in_full, np.float64)).max())
        if largest > HALF_LARGEST:
            return (
                f"It overflows half: in float32 its result goes up to {largest:.4g}, half ends at "
                f"{HALF_LARGEST:g}.",
                _HALF_ADVICE,
            )
    rule = _RULES.get(kind)
    cause = None if rule is None else rule(operands, in_half)
    if cause is not None:
        return cause
    if in_half:
        return (
            f"It overflows half, which ends at {HALF_LARGEST:g}. {_magnitudes(operands)}",
            _HALF_ADVICE,
        )
    advice = "Keep the magnitudes down, or keep its operands in the range it is for."
    return _magnitudes(operands), advice


def backward_cause(
    operator: str, operands: Operands, in_half: bool, in_full: Array | None, scale: float
) -> Cause:
    """The cause of what is not finite in the gradient of an operator's operand.

    Args:
        in_full: the gradient on the other side, without the loss scale.
        scale: the loss scale.
    """
    known = derivative_cause(operator, operands)
    if known is not None:
        return known
    if in_half and in_full is not None and in_full.size and np.isfinite(in_full).all():
        largest = float(np.abs(np.asarray(in_full, np.float64)).max()) * scale
        if largest > HALF_LARGEST:
            return (
                f"It overflows half: times the loss scale {scale:g} the gradient goes up to "
                f"{largest:.4g}, half ends at {HALF_LARGEST:g}.",
                "Lower the loss scale.",
            )
    advice = "Lower the loss scale and the learning rate, or clip what goes in."
    return _magnitudes(operands), advice


def derivative_cause(operator: str, operands: Operands) -> Cause | None:
    """Why an operator's derivative is infinite for its operands; None where it is not."""
    kind = operator.removesuffix("_")
    x = operands.get("x")
    if x is None or not x.size:
        return None
    zeros, negative = int((x == 0).sum()), int((x < 0).sum())
    if kind in _LOGS and zeros:
        return (
            f"The derivative of {kind} is infinite at 0, which {_count(zeros, x)} are; a where "
            "behind it does not stop that: 0 times infinity is NaN.",
            _LOG_ADVICE,
        )
    if kind in _ROOTS and (zeros or negative):
        return (
            f"{kind} has no derivative at 0 and below: of its operand's {x.size} elements {zeros} "
            f"are 0 and {negative} negative. A where behind it does not stop that: 0 times "
            "infinity is NaN.",
            "Keep it above 0 before the operator: clip it, or choose with a where in front of it.",
        )
    if kind in ("norm", "p_norm", "frobenius_norm") and not x.any():
        return "The norm of zeros has no derivative.", "Add a small number under the root."
    if kind in ("pow", "elementwise_pow") and zeros:
        return (
            f"Powers below 1 have an infinite derivative at 0, which {_count(zeros, x)} are.",
            "Keep the base away from 0.",
        )
    if kind in ("divide", "elementwise_div"):
        return _division(operands, False)
    return None


# -- rules ---------------------------------------------------------------------------------------


def _log(operands: Operands, in_half: bool) -> Cause | None:
    x = operands.get("x")
    if x is None:
        return None
    zeros, negative = int((x == 0).sum()), int((x < 0).sum())
    if not zeros and not negative:
        return None
    what = [f"{zeros} are 0"] if zeros else []
    what += [f"{negative} are negative"] if negative else []
    return f"Of its operand's {x.size} elements {' and '.join(what)}.", _LOG_ADVICE


def _root(operands: Operands, in_half: bool) -> Cause | None:
    x = operands.get("x")
    if x is None or not (x <= 0).any():
        return None
    negative, zeros = int((x < 0).sum()), int((x == 0).sum())
    return (
        f"Of its operand's {x.size} elements {negative} are negative and {zeros} are 0.",
        "Keep it above 0: rounding makes a small variance negative; clip it, or add an epsilon.",
    )


def _division(operands: Operands, in_half: bool) -> Cause | None:
    y = operands.get("y")
    if y is None or not (y == 0).any():
        return None
    epsilon = " An epsilon below 6e-8 is 0 in half." if in_half else ""
    return (
        f"It divides by 0: {_count(int((y == 0).sum()), y)} of the divisor are.{epsilon}",
        "Add an epsilon to the divisor, or clip it.",
    )


def _exp(operands: Operands, in_half: bool) -> Cause | None:
    x = operands.get("x")
    limit = 11.09 if in_half else 88.72
    if x is None or not x.size or float(x.max()) < limit:
        return None
    return (
        f"Its operand goes up to {float(x.max()):.4g}; "
        f"exp overflows {'half' if in_half else 'float32'} from {limit} on.",
        "Subtract the largest element first, as softmax and logsumexp do.",
    )


def _power(operands: Operands, in_half: bool) -> Cause | None:
    x = operands.get("x")
    if x is None or not (x <= 0).any():
        return None
    return (
        f"Of its operand's {x.size} elements {int((x < 0).sum())} are negative and "
        f"{int((x == 0).sum())} are 0: a broken or negative power of these is not finite.",
        "Keep the base above 0.",
    )


_RULES: Mapping[str, Callable[[Operands, bool], Cause | None]] = {
    **dict.fromkeys((*_LOGS, "log1p"), _log),
    **dict.fromkeys(_ROOTS, _root),
    **dict.fromkeys(("divide", "elementwise_div", "reciprocal"), _division),
    **dict.fromkeys(("exp", "expm1"), _exp),
    **dict.fromkeys(("pow", "elementwise_pow"), _power),
}


def _not_finite(operands: Operands) -> str:
    return next(
        (name for name, array in operands.items() if array.size and not np.isfinite(array).all()),
        "",
    )


def _count(count: int, array: Array) -> str:
    return f"{count} of {array.size} elements"


def _magnitudes(operands: Operands) -> str:
    """The magnitudes of what an operator reads."""
    parts = [
        f"{name} up to {float(np.abs(np.asarray(array, np.float64)).max()):.4g}"
        for name, array in operands.items()
        if array.size
    ]
    return f"It was given {', '.join(parts)}." if parts else ""

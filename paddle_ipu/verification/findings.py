"""What may keep a loss from going down; a run confirms each finding before it is reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from paddle_ipu.verification.contents import DIVERGES, Finding, StepRow
from paddle_ipu.verification.examination import Examination, gradient_ranges
from paddle_ipu.verification.not_finite import all_finite
from paddle_ipu.verification.ranges import best_scale, scale_table
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.run_history import RunHistory, follow
from paddle_ipu.verification.sides import Array, Case

_LOST = 0.1
"""Share of gradient values lost to half from which on it is reported."""
_GROWTH = 0.5
"""Of the first loss: what it may go up by before the learning rate is suspected."""
_GAIN = 30.0
_DRIFT = 0.05


def learning_rate(case: Case, side: str, steps: int, history: list[StepRow]) -> Finding | None:
    """Whether the loss, which does not go down, goes down with a tenth of the learning rate.

    Args:
        case: what is verified.
        side: what the IPU side computes in.
        steps: how many runs there were.
        history: of these runs.
    """
    optimizer = case.forward.optimizer
    losses = [row.loss for row in history]
    if optimizer is None or optimizer.learning_rate_name not in case.state:
        return None
    if len(losses) < 2 or losses[0] is None or not np.isfinite(losses[0]):
        return None
    first, last = losses[0], losses[-1]
    if last is not None and np.isfinite(last) and last - first <= _GROWTH * abs(first):
        return None
    name = optimizer.learning_rate_name
    rate = float(case.state[name].reshape(-1)[0])
    for divisor in (10.0, 100.0, 1000.0):
        lower = replace(case, state={**case.state, name: case.state[name] / np.float32(divisor)})
        tried = follow(lower, side, case.fetches_of_history(), steps).steps
        went = np.asarray([row.loss for row in tried], np.float64)
        end = went[-1]
        if end < first and bool((went - first <= _GROWTH * abs(first)).all()):
            return Finding(
                "The learning rate is too large",
                f"in {steps} steps the loss goes from {first:.4g} to {last:.4g}, with updates "
                f"of {_largest_update(history):.2g} times the weights' norm; with the rate "
                f"{rate / divisor:g} in place of {rate:g} it goes to {end:.4g}.",
                f"Lower it to about {rate / divisor:g}, warm it up, or clip gradients by norm.",
            )
    return None


def _largest_update(history: list[StepRow]) -> float:
    return max((row.update for row in history if np.isfinite(row.update)), default=np.inf)


def precision(report: VerificationReport, other: RunHistory) -> Finding | None:
    """Whether what is not finite in half is finite beside it."""
    if report.finite:
        return None
    arrays = [array for values in other.results.values() for array in values]
    where = "in float32" if report.against == "fp32" else "as compiled"
    if all_finite([*arrays, *other.variables.values()]):
        return Finding(
            "Half precision is the cause",
            f"{where} the same {report.steps} step(s) give neither NaN nor infinity.",
            "",
        )
    return Finding(
        "Half precision is not the cause",
        f"{where} the same {report.steps} step(s) give NaN or infinity, too.",
        "",
    )


def lost_gradients(case: Case, examined: Examination) -> Finding | None:
    """Whether gradients in half are lost to underflow that a loss scale would keep."""
    if not examined.in_half or not case.training:
        return None
    ranges = gradient_ranges(case, examined)
    best = best_scale(ranges)
    if best is None or best <= case.loss_scale:
        return None
    now, then = scale_table(ranges, [case.loss_scale, best])
    if now.underflow < _LOST or then.underflow > now.underflow / 2:
        return None
    stopped = [
        parameter
        for raw, parameter in case.forward.gradients.items()
        if not np.any(examined.got[raw][0]) and np.any(_full(examined, raw))
    ]
    still = (
        f" The gradient of {', '.join(stopped[:3])}{' and others' if len(stopped) > 3 else ''} is "
        "0 altogether: it does not learn."
        if stopped
        else ""
    )
    return Finding(
        "Gradients underflow half",
        f"with the loss scale {case.loss_scale:g}, {now.underflow:.0%} of the gradient values that "
        f"are not 0 become 0 and {now.subnormal:.0%} lose bits; with {best:g} it is "
        f"{then.underflow:.1%} and {then.subnormal:.1%}.{still}",
        f"Set loss_scaling to {best:g}: ipu_strategy.set_options({{'loss_scaling': {best:g}}}), or "
        "scale dynamically with paddle.static.amp.decorate.",
    )


def _full(examined: Examination, raw: str) -> Array:
    arrays = examined.expected.get(raw)
    return np.zeros(1) if arrays is None else arrays[0]


def lost_digits(report: VerificationReport) -> Finding | None:
    """The operator whose result is first too far off, where it makes much of little errors."""
    first = next((row for row in report.operators if row.verdict == DIVERGES), None)
    if report.against == "cpu" or first is None:
        return None
    if first.gain < _GAIN or not _DRIFT < first.result.drift < np.inf:
        return None
    return Finding(
        "Digits cancel",
        f"{first.place()} is off by {first.result.drift:.1%} of its norm, {first.gain:.0f} times "
        "as much as what it reads.",
        "Compute it in float32, or subtract what is common (a mean, a maximum) before rounding.",
    )

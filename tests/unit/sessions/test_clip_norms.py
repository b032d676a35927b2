"""Clips of PopART's SGD: what they bound, against the equations in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from tests.unit.sessions.session_programs import (
    B,
    Linear,
    W,
    micro_batches,
    options,
    run,
    train,
    weights,
)
from tests.unit.sessions.test_sgd import COMBINED, SEPARATE, gradients_of, sgd, steps_of

LR, LIMIT = 0.05, 0.7


def clipped(form: Any, groups: list[Any], **numbers: float) -> Any:
    made = sgd(form, numbers, lr=LR)
    made.clip_norm_settings = groups
    return made


class Bare:
    """A weight."""

    def __init__(self, w: Any) -> None:
        self.w, self.v = w.astype(np.float64), np.zeros(w.shape)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("form", [None, SEPARATE, COMBINED], ids=["plain", "separate", "combined"])
def test_a_clip_of_all_weights(form: Any, mean: bool) -> None:
    """Without momentum the gradient is clipped as it arrives: scaled, and not yet averaged."""
    everything = [popart.ClipNormSettings.clipAllWeights(LIMIT)]
    numbers = {"ls": 4.0} | ({} if form is None else {"mm": 0.9})
    kind = popart.ReductionType.Mean if mean else popart.ReductionType.Sum
    settings = options(2, accumulationAndReplicationReductionType=kind)
    session = train(Linear(), clipped(form, everything, **numbers), settings=settings)
    w, b = Bare(W), Bare(B)
    share = 2 if mean else 1
    for x in steps_of(2):
        run(session, {"x": x})
        scaled = gradients_of(x, w, b, 4.0)  # type: ignore[arg-type]
        arriving = [sum(scaled[name]) for name in ("w", "b")]
        taken = []
        for each, g in zip((w, b), arriving, strict=True):
            g = g / (4.0 * share)
            if form is COMBINED:
                each.v = each.v + g
            elif form is SEPARATE:
                each.v = 0.9 * each.v + g
            taken.append(g if form is None else each.v)
        felt = arriving if form is None else taken
        norm = np.sqrt(sum((array**2).sum() for array in felt))
        for each, step in zip((w, b), taken, strict=True):
            each.w = each.w - LR * LIMIT / max(LIMIT, norm) * step
            # The velocity itself stays as it is.
            each.v = 0.9 * each.v if form is COMBINED else each.v
        for name, each, got in zip(("w", "b"), (w, b), weights(session, "w", "b"), strict=True):
            np.testing.assert_allclose(got, each.w, rtol=2e-5, err_msg=name)
        if form is not None:
            np.testing.assert_allclose(weights(session, "Accl___w")[0], w.v, rtol=2e-5)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("mean", [False, True])
def test_a_clip_of_the_velocities_that_replicas_add_up(mean: bool, nesterov: bool) -> None:
    kind = popart.ReductionType.Mean if mean else popart.ReductionType.Sum
    settings = options(
        2,
        enableReplicatedGraphs=True,
        replicatedGraphCount=2,
        accumulationAndReplicationReductionType=kind,
    )
    made = sgd(COMBINED, {"mm": 0.9}, nesterov, lr=LR)
    made.clip_norm_settings = [popart.ClipNormSettings.clipAllWeights(LIMIT)]
    session = train(Linear(), made, settings=settings)
    x = micro_batches(4).reshape(2, 2, 3, 2)
    run(session, {"x": x})
    w, b = Bare(W), Bare(B)
    g = gradients_of(x.reshape(4, 3, 2), w, b, 1.0)  # type: ignore[arg-type]
    added = {name: sum(gradient) for name, gradient in g.items()}
    # PopART's gradients have the factor replicas for a sum, 1 / micro-batches for a mean.
    share = 0.5 if mean else 2.0
    step = {name: gradient * share for name, gradient in added.items()}
    if nesterov:
        step = {name: 2.0 * added[name] + 0.9 * gradient for name, gradient in step.items()}
    norm = np.sqrt(sum((gradient**2).sum() for gradient in step.values()))
    assert norm > LIMIT
    for name, each, got in zip(("w", "b"), (w, b), weights(session, "w", "b"), strict=True):
        expected = each.w - LR / 2.0 * step[name] * LIMIT / norm
        np.testing.assert_allclose(got, expected, rtol=2e-5, err_msg=name)


def test_groups_are_clipped_apart() -> None:
    clip = popart.ClipNormSettings.clipWeights
    session = train(Linear(), clipped(None, [clip(["w"], LIMIT), clip(["b"], 100.0)]))
    x = steps_of(count=1)
    run(session, {"x": x[0]})
    g = gradients_of(x[0], Bare(W), Bare(B), 1.0)  # type: ignore[arg-type]
    got_w, got_b = weights(session, "w", "b")
    (g_w,), (g_b,) = g["w"], g["b"]
    np.testing.assert_allclose(got_w, W - LR * g_w * LIMIT / np.linalg.norm(g_w), rtol=1e-5)
    np.testing.assert_allclose(got_b, B - LR * g_b, rtol=1e-5)


def test_a_clip_of_what_is_not_trained() -> None:
    clip = [popart.ClipNormSettings.clipWeights(["x"], LIMIT)]
    with pytest.raises(popart.popart_exception, match="Could not find a varupdate op for tensor x"):
        train(Linear(), clipped(None, clip))


def test_a_clip_in_a_pipeline_needs_a_schedule() -> None:
    settings = options(2, enablePipelining=True)
    made = clipped(None, [popart.ClipNormSettings.clipAllWeights(LIMIT)])
    with pytest.raises(
        popart.popart_exception,
        match=r"Incompatible accumulateOuterFragmentSchedule used with gradient clipping, .*Serial",
    ):
        train(Linear(), made, settings=settings)

"""Reductions over all axes, some, and none of them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from tests.unit.sessions.session_programs import builder, device, flow, infer, run

VALUES = np.linspace(0.5, 3.0, 24, dtype=np.float32).reshape(2, 3, 4)

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reducesum": np.sum,
    "reducemean": np.mean,
    "reducemax": np.max,
    "reducemin": np.min,
    "reduceprod": np.prod,
    "reducesumsquare": lambda x, **how: np.sum(x * x, **how),
    "reducel1": lambda x, **how: np.sum(np.abs(x), **how),
    "reducel2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "reducelogsum": lambda x, **how: np.log(np.sum(x, **how)),
    "reducelogsumexp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes(name: str, keepdims: int) -> None:
    """None of them in an empty list, all of them where the argument is left out."""
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", list(VALUES.shape)), "x")
    reduce = getattr(make.aiOnnxOpset11, name)
    forms: dict[str, tuple[int, ...] | None] = {
        reduce([x], [], keepdims): (),
        reduce([x], None, keepdims): None,
        reduce([x], keepdims=keepdims): None,
        reduce([x], [-1, 0], keepdims): (0, 2),
        reduce([x], range(2), keepdims): (0, 1),
        reduce([x], (1,), keepdims): (1,),
    }
    got = run(infer(make.model, dict.fromkeys(forms, "All")), {"x": VALUES})
    for result, axes in forms.items():
        wanted = REDUCTIONS[name](VALUES, axis=axes, keepdims=bool(keepdims))
        assert make.getTensorShape(result) == list(wanted.shape)
        assert got[result].shape == wanted.shape
        np.testing.assert_allclose(got[result], wanted, rtol=2e-6)


def test_a_median_over_no_axis() -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", list(VALUES.shape)), "x")
    values, at = make.aiGraphcore.reducemedian([x], [], 0)
    everything, _ = make.aiGraphcore.reducemedian([x], None, 0)
    got = run(infer(make.model, dict.fromkeys((values, at, everything), "All")), {"x": VALUES})
    np.testing.assert_array_equal(got[values], VALUES)
    np.testing.assert_array_equal(got[at], np.zeros(VALUES.shape))
    assert got[everything] == np.sort(VALUES.ravel())[11]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients_over_no_axis(name: str) -> None:
    """The slope of each element by itself, by central differences."""
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", list(VALUES.shape)), "x")
    w = make.addInitializedInputTensor(np.ones((), np.float32), "w")
    scaled = make.aiOnnxOpset11.mul([x, w])
    reduced = getattr(make.aiOnnxOpset11, name)([scaled], [], 0)
    loss = make.aiGraphcore.identityloss([reduced], popart.ReductionType.Sum)
    gradient = popart.reservedGradientPrefix() + scaled
    session = popart.TrainingSession(
        make.model, flow(1, {gradient: "All"}), loss, popart.ConstSGD(0.1), device()
    )
    session.prepareDevice()
    session.weightsFromHost()
    function, step, wide = REDUCTIONS[name], 1e-5, VALUES.astype(np.float64)
    wanted = (function(wide + step, axis=()) - function(wide - step, axis=())) / (2 * step)
    np.testing.assert_allclose(run(session, {"x": VALUES})[gradient], wanted, rtol=1e-5)

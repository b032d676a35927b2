"""A session's step on arrays does what its step with a ``PyStepIO`` does."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_runtime_error
from tests.unit.sessions.session_programs import (
    MOMENTUM,
    B,
    Linear,
    W,
    X,
    device,
    flow,
    infer,
    micro_batches,
    options,
    run,
    train,
    weights,
)


def test_anchors_stay_as_they_are_and_can_only_be_read() -> None:
    program = Linear()
    session = infer(program.builder.model, {program.out: "All"})
    result = session.runArrays({"x": X})[program.out]
    np.testing.assert_allclose(result, X @ W + B, rtol=1e-6)
    kept = result.copy()
    session.runArrays({"x": X + 1})
    np.testing.assert_array_equal(result, kept)
    assert not result.flags.writeable


def test_an_anchored_weight_stays_as_it_was_when_steps_change_it() -> None:
    program = Linear()
    session = train(program, popart.SGD(MOMENTUM), {"w": "Final"}, settings=options(1))
    x = micro_batches(1)
    first = session.runArrays({"x": x})["w"]
    kept = first.copy()
    session.runArrays({"x": x})
    np.testing.assert_array_equal(first, kept)
    assert np.abs(weights(session, "w")[0] - kept).max() > 0


@pytest.mark.parametrize("kind", ["All", "Final", "Sum"])
def test_training_goes_the_same_way(kind: str) -> None:
    program, other = Linear(), Linear()
    anchors = {program.out: kind, program.loss: kind}
    x = micro_batches(6)
    by_step_io = train(program, popart.SGD(MOMENTUM), anchors, batches=2, settings=options(3))
    by_arrays = train(other, popart.SGD(MOMENTUM), anchors, batches=2, settings=options(3))
    for _ in range(2):
        expected = run(by_step_io, {"x": x})
        # Rows may be cut into axes in any way.
        results = by_arrays.runArrays({"x": x.reshape(2, 3, -1)})
        assert results.keys() == expected.keys()
        for name, array in expected.items():
            assert results[name].shape == array.shape
            np.testing.assert_array_equal(results[name], array)
    np.testing.assert_array_equal(weights(by_arrays, "w")[0], weights(by_step_io, "w")[0])


def test_inputs_are_missing_or_of_another_size() -> None:
    program = Linear()
    session = infer(program.builder.model, {program.out: "All"})
    with pytest.raises(popart_runtime_error, match="No tensor x is among the inputs of a run"):
        session.runArrays({})
    with pytest.raises(popart_runtime_error, match="x has 2 elements, a run takes 6"):
        session.runArrays({"x": X[:1]})


def test_a_session_has_to_be_prepared() -> None:
    program = Linear()
    anchors = flow(1, {program.out: "All"})
    session = popart.InferenceSession(program.builder.model, anchors, device())
    with pytest.raises(popart_runtime_error, match=r"Devicex::prepare\(\) must be called before"):
        session.runArrays({"x": X})

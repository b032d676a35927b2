"""What runs of a session do: random numbers, floating-point checks, kept programs."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import NumericalError, popart_exception
from tests.unit.sessions.session_programs import (
    MOMENTUM,
    builder,
    infer,
    options,
    run,
    train,
    weights,
)

# Random numbers


class Dropping:
    """``loss = sum(dropout(w) + 0 * dropout(w))``: two masks, seen in both outputs."""

    def __init__(self, ratio: float = 0.25) -> None:
        make = self.builder = builder()
        onnx_ops = make.aiOnnxOpset11
        self.x = make.addInputTensor("FLOAT", [4000], "x")
        self.w = make.addInitializedInputTensor(np.ones(4000, np.float32), "w")
        product = onnx_ops.mul([self.x, self.w])
        self.first, self.mask = onnx_ops.dropout([product], 2, ratio)
        self.second = onnx_ops.dropout([product], 1, ratio)[0]
        none = make.aiGraphcore.scale([self.second], 0.0)
        total = onnx_ops.add([self.first, none])
        self.loss = make.aiGraphcore.identityloss([total], popart.ReductionType.Sum)


def test_dropout_is_the_identity_in_inference() -> None:
    program = Dropping()
    anchors = {program.first: "All", program.mask: "All"}
    x = np.arange(4000, dtype=np.float32)
    got = run(infer(program.builder.model, anchors), {"x": x})
    np.testing.assert_array_equal(got[program.first], x)
    assert got[program.mask].all()


def test_dropout_in_training() -> None:
    program = Dropping()
    anchors = dict.fromkeys((program.first, program.second, program.mask, "Gradient___w"), "All")
    session = train(
        program, popart.SGD({"defaultLearningRate": (1e-6, True)}), anchors, batches=2,
        settings=options(2),
    )  # fmt: skip
    x = np.ones((2, 2, 4000), np.float32)
    session.setRandomSeed(7)
    got = run(session, {"x": x})
    first, second, mask = got[program.first], got[program.second], got[program.mask]
    # Four standard deviations of the mean of 16000 draws.
    np.testing.assert_allclose(mask.mean(), 0.75, atol=4 * np.sqrt(0.75 * 0.25 / 16000))
    np.testing.assert_allclose(first[mask], 1 / 0.75, rtol=1e-4)
    assert not first[~mask].any()
    np.testing.assert_array_equal(got["Gradient___w"] != 0, mask)
    np.testing.assert_allclose(got["Gradient___w"][mask], 1 / 0.75, rtol=1e-6)
    masks = [*mask.reshape(4, -1), *(second.reshape(4, -1) != 0)]
    again = run(session, {"x": x})
    masks += [*again[program.mask].reshape(4, -1)]
    for index, one in enumerate(masks):
        for other in masks[index + 1 :]:
            # Independent masks agree where both keep or both drop: 0.75^2 + 0.25^2 of the time.
            np.testing.assert_allclose((one == other).mean(), 0.625, atol=0.04)
    session.setRandomSeed(7)
    np.testing.assert_array_equal(run(session, {"x": x})[program.mask], mask)
    seed = session.getRandomSeed()
    following = run(session, {"x": x})[program.mask]
    np.testing.assert_array_equal(following, again[program.mask])
    session.setRandomSeed(seed)
    np.testing.assert_array_equal(run(session, {"x": x})[program.mask], following)
    session.setRandomSeed(7 + 2**32)
    assert not np.array_equal(run(session, {"x": x})[program.mask], mask)
    for wrong in (-1, 2**64):
        with pytest.raises(popart_exception, match="a random seed is a number from 0 to"):
            session.setRandomSeed(wrong)


def test_sessions_without_a_seed_differ() -> None:
    program = Dropping()
    x = np.ones(4000, np.float32)
    masks = [
        run(train(program, popart.SGD({}), {program.mask: "All"}), {"x": x})[program.mask]
        for _ in range(2)
    ]
    assert not np.array_equal(*masks)


# Floating-point checks


class Logarithm:
    """``loss = sum(log(x w))``, which is not finite where x is 0."""

    def __init__(self) -> None:
        make = self.builder = builder()
        x = make.addInputTensor("FLOAT", [2], "x")
        self.w = make.addInitializedInputTensor(np.ones(2, np.float32), "w")
        product = make.aiOnnxOpset11.mul([x, self.w], "product")
        self.out = make.aiOnnxOpset11.log([product], "logarithm")
        self.loss = make.aiGraphcore.identityloss([self.out], popart.ReductionType.Sum)


@pytest.mark.parametrize(("batches", "micro"), [(1, 1), (3, 1), (1, 3), (2, 3)])
def test_checks_name_the_node_and_leave_weights_as_they_were(batches: int, micro: int) -> None:
    program = Logarithm()
    optimizer = popart.SGD({**MOMENTUM, "defaultLearningRate": (1e-3, True)})
    session = train(
        program, optimizer, batches=batches, settings=options(micro, enableFloatingPointChecks=True)
    )
    x = np.ones((batches * micro, 2), np.float32)
    run(session, {"x": x})
    before = weights(session, "w", "Accl___w")
    bad = batches * micro - 1
    x[bad, 1] = 0
    with pytest.raises(
        NumericalError, match=rf"operator Log \(logarithm\) gave NaN or .* in micro-batch {bad}\."
    ) as caught:
        run(session, {"x": x})
    assert caught.value.node == "logarithm"
    for old, new in zip(before, weights(session, "w", "Accl___w"), strict=True):
        np.testing.assert_array_equal(new, old)
    x[bad, 1] = 1
    run(session, {"x": x})
    assert not np.array_equal(weights(session, "w")[0], before[0])


def test_checks_of_an_update() -> None:
    optimizer = popart.SGD({"defaultLearningRate": (3e38, True)})
    session = train(Logarithm(), optimizer, settings=options(2, enableFloatingPointChecks=True))
    with pytest.raises(NumericalError, match="a gradient or an updated weight gave NaN") as caught:
        run(session, {"x": np.ones((2, 2), np.float32)})
    assert caught.value.node is None


def test_checks_in_inference_and_none_without_the_option() -> None:
    program = Logarithm()
    zero = {"x": np.zeros(2, np.float32)}
    settings = options(enableFloatingPointChecks=True)
    with pytest.raises(NumericalError, match="operator Log"):
        run(infer(program.builder.model, {program.out: "All"}, settings=settings), zero)
    got = run(infer(program.builder.model, {program.out: "All"}), zero)
    assert np.isneginf(got[program.out]).all()

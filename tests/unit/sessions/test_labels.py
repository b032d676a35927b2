"""Labels that are no class, in programs for PopART: what its Nll computes, by NumPy's formulas."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import IndexRangeError

CLASSES = 4
LABELS = np.array([0, 7, 3, -2, 2, 1], np.int32)
LOGITS = np.random.default_rng(3).normal(size=(LABELS.size, CLASSES)).astype(np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def warnings_of(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


class Case:
    """A program of one loss: ``weights -> probabilities -> Nll``."""

    def __init__(
        self,
        logarithms: bool = False,
        reduction: str = "Sum",
        ignored: int | None = None,
        dtype: str = "float32",
        fed: bool = False,
    ) -> None:
        self.builder = builder = popart.Builder()
        self.array = LOGITS.astype(dtype)
        info = popart.TensorInfo("FLOAT16" if dtype == "float16" else "FLOAT", LOGITS.shape)
        self.weights = (
            builder.addInputTensor(info, "x")
            if fed
            else builder.addInitializedInputTensor(self.array, "x")
        )
        self.fed = {self.weights: self.array} if fed else {}
        self.labels = builder.addInputTensor("INT32", [LABELS.size], "labels")
        kind = builder.aiOnnx.logsoftmax if logarithms else builder.aiOnnx.softmax
        self.probabilities = kind([self.weights], axis=1)
        arguments = {} if ignored is None else {"ignoreIndex": ignored}
        self.loss = builder.aiGraphcore.nllloss(
            [self.probabilities, self.labels],
            getattr(popart.ReductionType, reduction),
            inputIsLogProbability=logarithms,
            **arguments,
        )

    def train(self, labels: Any = LABELS, patterns: Any = None, steps: int = 1) -> tuple[Any, Any]:
        """The loss, and the gradient of the weights."""
        session = popart.TrainingSession(
            self.builder.getModelProto(),
            popart.DataFlow(steps, [self.loss], popart.AnchorReturnType("Final")),
            self.loss,
            popart.ConstSGD(1.0),
            popart.DeviceManager().createIpuModelDevice({}),
            patterns=patterns or popart.Patterns(),
        )
        anchors = session.initAnchorArrays()
        session.prepareDevice()
        session.weightsFromHost()
        session.run(popart.PyStepIO({self.labels: np.stack([labels] * steps)}, anchors))
        weights = {self.weights: np.empty_like(self.array)}
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(weights))
        return anchors[self.loss], self.array - weights[self.weights]

    def infer(self, labels: Any = LABELS) -> Any:
        """The loss, twice in the same session."""
        session = popart.InferenceSession(
            self.builder.getModelProto(),
            popart.DataFlow(1, [self.loss], popart.AnchorReturnType("All")),
            popart.DeviceManager().createIpuModelDevice({}),
        )
        anchors = session.initAnchorArrays()
        session.prepareDevice()
        session.weightsFromHost()
        for _ in range(2):
            session.run(popart.PyStepIO({self.labels: labels, **self.fed}, anchors))
        return anchors[self.loss]


def picked(probabilities: Any, epsilon: float) -> Any:
    """The loss of each label."""
    inside = (LABELS >= 0) & (LABELS < CLASSES)
    p = np.where(inside, probabilities[np.arange(LABELS.size), LABELS % CLASSES], 0)
    return -np.log(np.maximum(p, epsilon))


def one_hot() -> Any:
    return (LABELS[:, None] == np.arange(CLASSES)).astype(np.float32)


def reduced(reduction: str, losses: Any, counted: Any) -> Any:
    losses = losses * counted
    if reduction == "NoReduction":
        return losses
    return losses.sum() / (counted.sum() if reduction == "Mean" else 1)


@pytest.mark.parametrize("ignored", [None, 7, 3])
@pytest.mark.parametrize("reduction", ["Sum", "Mean", "NoReduction"])
@pytest.mark.parametrize("fed", [False, True])
def test_the_loss_is_that_of_a_probability_of_zero(
    reduction: str, ignored: int | None, fed: bool
) -> None:
    loss = Case(reduction=reduction, ignored=ignored, fed=fed).infer()
    counted = np.ones(LABELS.size) if ignored is None else (ignored != LABELS).astype(float)
    np.testing.assert_allclose(
        loss, reduced(reduction, picked(softmax(LOGITS), 1e-7), counted), rtol=1e-5
    )


def test_half_has_the_larger_smallest_probability() -> None:
    loss = Case(reduction="NoReduction", dtype="float16").infer()
    np.testing.assert_allclose(loss, picked(softmax(LOGITS), 6.104e-05), rtol=3e-3)


@pytest.mark.parametrize("ignored", [None, 7])
@pytest.mark.parametrize("reduction", ["Sum", "Mean"])
def test_the_joined_gradient_has_no_right_class(reduction: str, ignored: int | None) -> None:
    loss, gradient = Case(reduction=reduction, ignored=ignored).train()
    counted = np.ones(LABELS.size) if ignored is None else (ignored != LABELS).astype(float)
    np.testing.assert_allclose(
        loss, reduced(reduction, picked(softmax(LOGITS), 1e-7), counted), rtol=1e-5
    )
    expected = (softmax(LOGITS) - one_hot()) * counted[:, None]
    scale = counted.sum() if reduction == "Mean" else 1
    np.testing.assert_allclose(gradient, expected / scale, rtol=1e-4, atol=1e-6)


def test_without_the_pattern_such_a_row_has_no_gradient() -> None:
    patterns = popart.Patterns()
    patterns.SoftMaxGradDirect = False
    excluding, reading = Case(), Case()
    excluding.builder.excludePatterns(excluding.loss, ["SoftmaxGradDirect"])
    builder = reading.builder
    squares = builder.aiGraphcore.l1loss([reading.probabilities], 1.0, popart.ReductionType.Sum)
    reading.loss = builder.aiOnnx.sum([reading.loss, squares])
    expected = (softmax(LOGITS) - one_hot()) * (one_hot().sum(1, keepdims=True) > 0)
    for _, gradient in (Case().train(patterns=patterns), excluding.train(), reading.train()):
        # The sum of probabilities has a gradient of 0.
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_of_logarithms_such_a_label_counts_nothing() -> None:
    loss, gradient = Case(logarithms=True).train()
    inside = (LABELS >= 0) & (LABELS < CLASSES)
    expected = -np.log(softmax(LOGITS)[inside, LABELS[inside]]).sum()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(
        gradient, (softmax(LOGITS) - one_hot()) * inside[:, None], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("fed", [False, True])
def test_labels_that_are_no_class_are_told_once(fed: bool, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "popart"):
        Case(fed=fed).infer()
    (message,) = warnings_of(caplog)
    assert message.startswith("operator Nll")
    assert "got label -2 and 1 more out of range in one run, expected 0 to 3" in message
    assert "tensor 'labels', has the loss of a probability of 0, 16.1, as on an IPU." in message
    assert "name one that counts nothing as ignoreIndex. This is told once." in message


def test_a_training_tells_of_the_gradient_and_of_all_batches(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "popart"):
        Case().train(steps=3)
    (message,) = warnings_of(caplog)
    assert "got label -2 and 5 more" in message
    assert "16.1, as on an IPU, and the gradient of a row without a right class." in message


def test_valid_and_ignored_labels_are_not_told_of(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "popart"):
        Case(ignored=-2).train(np.where(LABELS == 7, -2, LABELS))
        Case(fed=True).infer(LABELS % CLASSES)
    assert not warnings_of(caplog)


def test_inside_a_subgraph_it_is_the_same(caplog: Any) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", LOGITS.shape, "x")
    labels = builder.addInputTensor("INT32", [LABELS.size], "labels")
    body = builder.createSubgraphBuilder()
    body.addInputTensor("INT32", [], "turn")
    going = body.addInputTensor("BOOL", [], "going")
    total = body.addInputTensor("FLOAT", [], "total")
    for outer in (x, labels):
        body.addInputTensorFromParentGraph(outer)
    loss = body.aiGraphcore.nllloss(
        [body.aiOnnx.softmax([x], axis=1), labels], popart.ReductionType.Sum
    )
    body.addOutputTensor(body.aiOnnx.identity([going]))
    body.addOutputTensor(body.aiOnnx.add([total, loss]))
    turns = builder.aiOnnx.constant(np.array(2, np.int32))
    start = builder.aiOnnx.constant(np.array(True))
    zero = builder.aiOnnx.constant(np.array(0, np.float32))
    (out,) = builder.aiOnnx.loop([turns, start, zero], 1, body)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [out], popart.AnchorReturnType("All")),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    anchors = session.initAnchorArrays()
    session.prepareDevice()
    with caplog.at_level(logging.WARNING, "popart"):
        for _ in range(2):
            session.run(popart.PyStepIO({x: LOGITS, labels: LABELS}, anchors))
    expected = 2 * picked(softmax(LOGITS), 1e-7).sum()
    np.testing.assert_allclose(anchors[out], expected, rtol=1e-5)
    (message,) = warnings_of(caplog)
    assert "got label -2, and perhaps more, out of range" in message


def test_an_index_that_a_gather_has_not_is_refused_beside_it(caplog: Any) -> None:
    case = Case()
    rows = case.builder.aiOnnx.gather([case.probabilities, case.labels])
    case.loss = case.builder.aiOnnx.sum(
        [case.loss, case.builder.aiGraphcore.l1loss([rows], 1.0, popart.ReductionType.Sum)]
    )
    with pytest.raises(IndexRangeError, match="operator Gather got index 7"):
        case.train(np.where(LABELS < 0, 0, LABELS))

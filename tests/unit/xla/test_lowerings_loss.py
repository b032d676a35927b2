"""Losses: values from their formulas, gradients from Paddle's CPU kernels."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - the name everyone uses
import pytest

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.registry import LoweringContext, find_lowering

LOGITS = np.random.default_rng(2).normal(size=(2, 3, 5)).astype(np.float32)
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
LABELS = np.array([[0, 4, 1], [1, 2, 3]], np.int32)
EACH = -np.log(np.take_along_axis(PROBABILITIES, LABELS[..., None], -1)[..., 0])


def graphcore(lowered: Any, op_type: str, **attributes: Any) -> Any:
    return lowered(op_type, attributes, domain="ai.graphcore")


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("Mean", EACH.mean()), ("Sum", EACH.sum()), ("None", EACH), (None, EACH.mean())],
)
def test_nll(lowered: Any, reduction: str | None, expected: Any) -> None:
    attributes = {} if reduction is None else {"reduction": reduction}
    out = graphcore(lowered, "Nll", **attributes)(PROBABILITIES, LABELS)
    assert out.shape == np.shape(expected)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    of_logs = graphcore(lowered, "Nll", inputIsLogProbability=1, **attributes)
    np.testing.assert_allclose(of_logs(np.log(PROBABILITIES), LABELS), expected, rtol=1e-6)


def test_nll_ignores_a_class(lowered: Any) -> None:
    kept = LABELS != 1
    for reduction, expected in {
        "Mean": EACH[kept].mean(),
        "Sum": EACH[kept].sum(),
        "None": EACH * kept,
    }.items():
        out = graphcore(lowered, "Nll", reduction=reduction, ignoreIndex=1)(PROBABILITIES, LABELS)
        np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_nll_with_everything_ignored_is_zero(lowered: Any) -> None:
    nll = graphcore(lowered, "Nll", ignoreIndex=-100)
    labels = np.full((2, 3), -100, np.int32)
    assert nll(PROBABILITIES, labels) == 0
    assert not nll.gradients(PROBABILITIES, labels)[0].any()


def test_nll_clamps_the_probability(lowered: Any) -> None:
    labels = np.zeros(1, np.int32)
    nll = graphcore(lowered, "Nll")
    zero = np.array([[0, 1]], np.float32)
    np.testing.assert_allclose(nll(zero, labels), -np.log(1e-7), rtol=1e-6)
    np.testing.assert_allclose(nll.gradients(zero, labels)[0], [[-1e10, 0]], rtol=1e-6)
    half = lowered("Nll", domain="ai.graphcore", dtypes=("float16", None))(zero, labels)
    np.testing.assert_allclose(half, -np.log(6.104e-05), rtol=1e-6)


def test_nll_rejects_an_unknown_reduction(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="unknown reduction 'Max'; expected 'Mean', 'Sum' or"):
        graphcore(lowered, "Nll", reduction="Max")(PROBABILITIES, LABELS)


def test_log_nll_is_the_loss_of_each_label(lowered: Any, same_as_paddle: Any) -> None:
    def function(x: Any, labels: Any) -> Any:
        return F.nll_loss(x, labels.astype("int64"), ignore_index=2, reduction="none")

    rule = lowered("LogNll", {"ignore_index": 2}, domain="ai.paddle_ipu")
    same_as_paddle(rule, function, np.log(PROBABILITIES[0]), np.array([2, 0, 4], np.int32))
    np.testing.assert_allclose(
        lowered("LogNll", domain="ai.paddle_ipu")(np.log(PROBABILITIES), LABELS), EACH, rtol=1e-6
    )


def test_log_nll_ignores_labels_outside_the_classes(lowered: Any) -> None:
    rule = lowered("LogNll", {"ignore_index": -100}, domain="ai.paddle_ipu")
    labels = np.array([-100, 3, -100], np.int32)
    out = rule(np.log(PROBABILITIES[0]), labels)
    assert out[0] == out[2] == 0 and out[1] > 0
    gradient = rule.gradients(np.log(PROBABILITIES[0]), labels)[0]
    expected = np.zeros((3, 5))
    expected[1, 3] = -1
    np.testing.assert_array_equal(gradient, expected)


def test_cross_entropy_from_log_softmax_has_paddles_gradient(lowered: Any) -> None:
    log_softmax, nll = lowered("LogSoftmax"), lowered("LogNll", domain="ai.paddle_ipu")
    logits, labels = LOGITS[0] * 20, LABELS[0]

    def loss(x: Any) -> Any:
        log_probabilities = log_softmax._rule(log_softmax._context, [x], {"axis": -1})
        return nll._rule(nll._context, [log_probabilities, labels], {}).sum()

    tensor = paddle.to_tensor(logits, stop_gradient=False)
    expected = F.cross_entropy(tensor, paddle.to_tensor(labels), reduction="sum")
    (gradient,) = paddle.grad([expected], [tensor])
    np.testing.assert_allclose(jax.jit(loss)(logits), expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        jax.jit(jax.grad(loss))(logits), gradient.numpy(), rtol=1e-5, atol=1e-6
    )


def test_the_gradient_of_a_loss_is_no_scatter(lowered: Any) -> None:
    nll = lowered("LogNll", domain="ai.paddle_ipu")
    program = jax.make_jaxpr(jax.grad(lambda x: nll._rule(nll._context, [x, LABELS], {}).sum()))(
        LOGITS
    )
    assert "scatter" not in str(program)


@pytest.mark.parametrize(
    ("reduction", "function"), [("Mean", np.mean), ("Sum", np.sum), ("None", np.asarray)]
)
def test_identity_loss(lowered: Any, reduction: str, function: Any) -> None:
    rule = graphcore(lowered, "IdentityLoss", reduction=reduction)
    np.testing.assert_allclose(rule(LOGITS), function(LOGITS), rtol=1e-5)
    scale = 1 / LOGITS.size if reduction == "Mean" else 1
    np.testing.assert_allclose(rule.gradients(LOGITS)[0], np.full(LOGITS.shape, scale), rtol=1e-6)


def test_l1(lowered: Any) -> None:
    x = np.array([[-2, 0], [1, -0.0]], np.float32)
    for reduction, expected in {"Mean": 0.375, "Sum": 1.5, "None": np.abs(x) / 2}.items():
        rule = lowered("L1", {"lambda": 0.5, "reduction": reduction}, domain="ai.graphcore")
        np.testing.assert_allclose(rule(x), expected)
    np.testing.assert_array_equal(
        lowered("L1", {"lambda": 0.5, "reduction": "Sum"}, domain="ai.graphcore").gradients(x)[0],
        [[-0.5, 0], [0.5, 0]],
    )
    with pytest.raises(LoweringError, match="must have at least one axis, got a scalar"):
        lowered("L1", {"lambda": 1.0}, domain="ai.graphcore")(np.float32(1))


def test_nll_of_a_softmax_gives_its_gradient_to_the_logits() -> None:
    """softmax - onehot, times the loss scale, over the labels counted: no 1 / p in between."""
    labels = np.array([[0, 4, 1], [1, 2, 3]], np.int32)
    scale, counted = 512.0, labels != 1
    logits = LOGITS.copy()
    logits[0, 0, 0] = -30.0  # its 1 / p is beyond float32's clamp, and far beyond half

    def loss(x: Any) -> Any:
        context = LoweringContext(
            "ai.graphcore", "Nll", "node", True, lambda: jax.random.key(0), logits=[x, None]
        )
        rule = find_lowering("ai.graphcore", "Nll")
        assert rule is not None
        return scale * rule(context, [jax.nn.softmax(x), labels], {"ignoreIndex": 1})

    value, gradient = jax.value_and_grad(loss)(logits)
    shifted = np.exp(logits.astype(np.float64))
    probabilities = shifted / shifted.sum(-1, keepdims=True)
    picked = np.take_along_axis(probabilities, labels[..., None], -1)[..., 0]
    each = -np.log(np.maximum(picked, 1e-7))
    np.testing.assert_allclose(value, scale * each[counted].mean(), rtol=1e-5)
    onehot = np.eye(5)[labels]
    expected = scale * (probabilities - onehot) * counted[..., None] / counted.sum()
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-4)

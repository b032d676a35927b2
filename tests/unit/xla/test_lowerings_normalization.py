"""Normalisation: values from NumPy in float64, gradients from Paddle's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle.nn.functional as F  # noqa: N812 - the name everyone uses
import pytest

from paddle_ipu.errors import LoweringError

GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(2, 3, (3, 6, 4, 5)).astype(np.float32)
SCALE, BIAS = (GENERATOR.normal(size=6).astype(np.float32) for _ in range(2))
MEAN = GENERATOR.normal(size=6).astype(np.float32)
VARIANCE = GENERATOR.uniform(0.5, 2, 6).astype(np.float32)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization(lowered: Any, same_as_paddle: Any, groups: int) -> None:
    rule = lowered(
        "GroupNormalization",
        {"num_groups": groups, "epsilon": 1e-4},
        domain="ai.graphcore",
        num_outputs=3,
    )
    same_as_paddle(
        rule,
        lambda x, s, b: F.group_norm(x, groups, 1e-4, s, b),
        X,
        SCALE,
        BIAS,
        rtol=1e-4,
        atol=1e-4,
    )
    _, mean, inverse = rule(X, SCALE, BIAS)
    grouped = X.astype(np.float64).reshape(3 * groups, -1)
    np.testing.assert_allclose(mean, grouped.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(grouped.var(1) + 1e-4), rtol=1e-5)


def test_layer_normalization(lowered: Any, same_as_paddle: Any) -> None:
    x = GENERATOR.normal(1, 2, (8, 6)).astype(np.float32)
    rule = lowered("GroupNormalization", {"num_groups": 1}, domain="ai.graphcore", num_outputs=3)
    same_as_paddle(
        rule, lambda x, s, b: F.layer_norm(x, 6, s, b, 1e-5), x, SCALE, BIAS, rtol=1e-4, atol=1e-5
    )


def test_a_large_mean_does_not_cancel(lowered: Any) -> None:
    x = (1e4 + GENERATOR.normal(size=(4, 512))).astype(np.float32)
    ones, zeros = np.ones(512, np.float32), np.zeros(512, np.float32)
    rule = lowered("GroupNormalization", {"num_groups": 1}, domain="ai.graphcore", num_outputs=3)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(rule(x, ones, zeros)[0], expected, atol=2e-3)


def test_half_precision_has_float32_statistics(lowered: Any) -> None:
    x = np.full((2, 4), 3e4, np.float16)
    x[:, ::2] = -3e4
    half = np.ones(4, np.float16)
    rule = lowered("GroupNormalization", {"num_groups": 1}, domain="ai.graphcore", num_outputs=3)
    y, mean, inverse = rule(x, half, half * 0)
    assert y.dtype == np.float16 and mean.dtype == inverse.dtype == np.float32
    np.testing.assert_allclose(y, x / np.float16(3e4), rtol=1e-3)


def test_groups_must_divide_the_channels(lowered: Any) -> None:
    rule = lowered("GroupNormalization", {"num_groups": 4}, domain="ai.graphcore", num_outputs=3)
    with pytest.raises(LoweringError, match="6 channels do not divide into 4 groups"):
        rule(X, SCALE, BIAS)


@pytest.mark.parametrize("shape", [(3, 6), (3, 6, 4), (3, 6, 4, 5)])
def test_batch_normalization_in_inference(lowered: Any, same_as_paddle: Any, shape: Any) -> None:
    x = X.reshape(-1)[: int(np.prod(shape))].reshape(shape)
    same_as_paddle(
        lowered("BatchNormalization", {"epsilon": 1e-3}, constant=[3, 4]),
        lambda x, s, b: F.batch_norm(
            x, *map(_tensor, (MEAN, VARIANCE)), s, b, training=False, epsilon=1e-3
        ),
        x,
        SCALE,
        BIAS,
        constants=[MEAN, VARIANCE],
        rtol=1e-4,
        atol=1e-5,
    )


def _tensor(value: Any) -> Any:
    import paddle

    return paddle.to_tensor(value)


def test_batch_normalization_in_training(lowered: Any, same_as_paddle: Any) -> None:
    rule = lowered("BatchNormalization", {"momentum": 0.8}, num_outputs=5, constant=[3, 4])
    same_as_paddle(
        rule,
        lambda x, s, b: F.batch_norm(x, *map(_tensor, (MEAN, VARIANCE)), s, b, training=True),
        X,
        SCALE,
        BIAS,
        constants=[MEAN, VARIANCE],
        rtol=1e-4,
        atol=1e-4,
    )
    _, run_mean, run_variance, mean, variance = rule(X, SCALE, BIAS, MEAN, VARIANCE)
    axes = (0, 2, 3)
    np.testing.assert_allclose(mean, X.mean(axes), rtol=1e-5)
    np.testing.assert_allclose(variance, X.var(axes), rtol=1e-5)
    np.testing.assert_allclose(run_mean, 0.8 * MEAN + 0.2 * X.mean(axes), rtol=1e-5)
    np.testing.assert_allclose(run_variance, 0.8 * VARIANCE + 0.2 * X.var(axes), rtol=1e-5)


def test_graphcore_batch_normalization_has_an_unbiased_running_variance(lowered: Any) -> None:
    for unbiased in (None, 0, 1):
        attributes = {} if unbiased is None else {"unbiased_variance": unbiased}
        rule = lowered(
            "BatchNormalization", attributes, domain="ai.graphcore", num_outputs=5, constant=[3, 4]
        )
        batch = X.var((0, 2, 3), ddof=0 if unbiased == 0 else 1)
        _, _, running, _, saved = rule(X, SCALE, BIAS, MEAN, VARIANCE)
        np.testing.assert_allclose(running, 0.9 * VARIANCE + 0.1 * batch, rtol=1e-5)
        np.testing.assert_allclose(saved, X.var((0, 2, 3)), rtol=1e-5)


def test_batch_normalization_refuses_other_forms(lowered: Any) -> None:
    with pytest.raises(LoweringError, match=r"1 output \(inference\) or 5 \(training\), got 3"):
        lowered("BatchNormalization", num_outputs=3)(X, SCALE, BIAS, MEAN, VARIANCE)


def test_instance_normalization(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(
        lowered("InstanceNormalization"),
        lambda x, s, b: F.instance_norm(x, weight=s, bias=b),
        X,
        SCALE,
        BIAS,
        rtol=1e-4,
        atol=1e-4,
    )

"""Dropout: identity outside training, the right rate, scale, mask and gradient inside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import onnx_ir as ir
import pytest

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.step.graph import LoweredGraph

X = np.random.default_rng(0).uniform(1, 2, (100, 200)).astype(np.float32)


def test_dropout_keeps_and_scales(lowered: Any) -> None:
    for ratio in (0.1, 0.5, 0.9):
        out, mask = lowered("Dropout", {"ratio": ratio}, num_outputs=2)(X)
        assert mask.dtype == np.bool_
        # Five standard deviations of the mean of 20000 draws.
        assert abs(mask.mean() - (1 - ratio)) < 5 * np.sqrt(ratio * (1 - ratio) / X.size)
        np.testing.assert_allclose(out, np.where(mask, X / (1 - ratio), 0), rtol=1e-6)


def test_dropout_ratio_defaults_to_a_half(lowered: Any) -> None:
    assert 0.45 < (lowered("Dropout")(X) == 0).mean() < 0.55


def test_dropout_has_the_same_mask_backward(lowered: Any) -> None:
    rule = lowered("Dropout", {"ratio": 0.25}, num_outputs=2)
    _, mask = rule(X)
    np.testing.assert_allclose(rule.gradients(X)[0], mask / 0.75, rtol=1e-6)


def test_dropout_follows_its_key(lowered: Any) -> None:
    first, again, other = (lowered("Dropout", seed=seed)(X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("case", [{"training": False}, {"attributes": {"ratio": 0.0}}])
def test_dropout_is_the_identity(lowered: Any, case: Any) -> None:
    out, mask = lowered("Dropout", num_outputs=2, **case)(X)
    np.testing.assert_array_equal(out, X)
    assert mask.all() and mask.shape == X.shape
    shaped = {"training": case.get("training", True)}
    attributes = {"shape": [1, 200], **case.get("attributes", {})}
    out = lowered("ShapedDropout", attributes, domain="ai.graphcore", **shaped)(X)
    np.testing.assert_array_equal(out, X)


def test_shaped_dropout_drops_whole_columns(lowered: Any) -> None:
    rule = lowered("ShapedDropout", {"shape": [1, 200], "ratio": 0.5}, domain="ai.graphcore")
    dropped = rule(X) == 0
    assert (dropped.all(0) | ~dropped.any(0)).all()
    assert 0.3 < dropped.mean() < 0.7


def test_half_precision_is_kept(lowered: Any) -> None:
    assert lowered("Dropout")(X.astype(np.float16)).dtype == np.float16


@pytest.mark.parametrize("ratio", [1.0, -0.1])
def test_a_ratio_out_of_range(lowered: Any, ratio: float) -> None:
    with pytest.raises(LoweringError, match="at least 0 and less than 1, got"):
        lowered("Dropout", {"ratio": ratio})(X)


def test_an_operator_that_is_not_registered_as_random_has_no_key() -> None:
    node: Any = SimpleNamespace(name="draw", domain="ai.onnx", op_type="Add", random_index=None)
    graph = LoweredGraph(ir.Graph([], [], nodes=[], opset_imports={"": 11}))
    with pytest.raises(LoweringError, match=r"ai.onnx.Add \(draw\) draws random numbers"):
        graph.random_key(jax.random.key(0), node)

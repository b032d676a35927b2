"""Comparisons and logic against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes


@pytest.mark.parametrize(
    ("op_type", "function"),
    [("Equal", np.equal), ("Less", np.less), ("Greater", np.greater)],
)
@settings(max_examples=8)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), data=st.data())
def test_comparisons(lowered: Any, op_type: str, function: Any, shapes: Any, data: Any) -> None:
    dtype = data.draw(st.sampled_from([np.float32, np.int32]))
    generator = np.random.default_rng(0)
    first, second = (generator.integers(0, 3, s).astype(dtype) for s in shapes.input_shapes)
    out = lowered(op_type)(first, second)
    assert out.dtype == np.bool_
    np.testing.assert_array_equal(out, function(first, second))


def test_comparisons_with_nan(lowered: Any) -> None:
    x = np.array([np.nan, 1], np.float32)
    for op_type, expected in {"Equal": [0, 1], "Less": [0, 0], "Greater": [0, 0]}.items():
        assert lowered(op_type)(x, x).tolist() == expected


@pytest.mark.parametrize(
    ("domain", "op_type", "function"),
    [
        ("ai.onnx", "And", np.logical_and),
        ("ai.onnx", "Or", np.logical_or),
        ("ai.paddle_ipu", "LogicalXor", np.logical_xor),
    ],
)
def test_logic(lowered: Any, domain: str, op_type: str, function: Any) -> None:
    first, second = np.array([True, True, False, False]), np.array([True, False, True, False])
    rule = lowered(op_type, domain=domain)
    np.testing.assert_array_equal(rule(first, second), function(first, second))
    folded = rule.constants(first, second)
    assert isinstance(folded, np.ndarray) and (folded == function(first, second)).all()


def test_not(lowered: Any) -> None:
    assert lowered("Not")(np.array([True, False])).tolist() == [False, True]


def test_bitwise(lowered: Any) -> None:
    first, second = np.array([12, 10], np.int32), np.array([10, 6], np.int32)
    for op_type, expected in {
        "BitwiseAnd": first & second,
        "BitwiseOr": first | second,
        "BitwiseXor": first ^ second,
        "BitwiseXnor": ~(first ^ second),
    }.items():
        out = lowered(op_type, domain="ai.graphcore")(first, second)
        np.testing.assert_array_equal(out, expected)
    out = lowered("BitwiseNot", domain="ai.graphcore")(first)
    np.testing.assert_array_equal(out, ~first)


def test_nan_and_infinity(lowered: Any) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0], np.float32)
    assert lowered("IsNaN")(x).tolist() == [True, False, False, False]
    assert lowered("IsInf")(x).tolist() == [False, True, True, False]
    assert lowered("IsInf", {"detect_negative": 0})(x).tolist() == [False, True, False, False]
    assert lowered("IsInf", {"detect_positive": 0})(x).tolist() == [False, False, True, False]

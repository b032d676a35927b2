"""Translators of shapes, axes and broadcasts against NumPy, on shapes drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import (
    array_shapes,
    mutually_broadcastable_shapes,
    valid_tuple_axes,
)

from tests.operators.built_case import build_case
from tests.operators.operator_case import OperatorCase, normal
from tests.operators.run_case import run_on_ipu_model

_FEW = settings(max_examples=6, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def _agree(build: Callable[..., Any], expected: list[np.ndarray], **inputs: np.ndarray) -> None:
    results = run_on_ipu_model(build_case(OperatorCase("any", build, inputs)))
    for got, wanted in zip(results.values(), expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@_FEW
@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
def test_binary_operators_broadcast_as_numpy(shapes: Any) -> None:
    x, y = normal(*shapes.input_shapes[0]), normal(*shapes.input_shapes[1], seed=1)
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    _agree(
        lambda a, b: [a + b, a * b, paddle.maximum(a, b), paddle.less_than(a, b)],
        [x + y, x * y, np.maximum(x, y), x < y],
        a=x,
        b=y,
    )


@_FEW
@given(st.data())
def test_reductions_take_axes_as_numpy(data: st.DataObject) -> None:
    x = normal(*data.draw(array_shapes(max_dims=4, max_side=4)))
    axes = data.draw(valid_tuple_axes(x.ndim, min_size=1))
    keep = data.draw(st.booleans())
    listed = list(axes)
    _agree(
        lambda a: [
            paddle.sum(a, listed, keepdim=keep),
            paddle.max(a, listed, keepdim=keep),
            paddle.mean(a, listed, keepdim=keep),
        ],
        [
            x.sum(axes, keepdims=keep),
            x.max(axes, keepdims=keep),
            x.mean(axes, keepdims=keep),
        ],
        a=x,
    )


@_FEW
@given(st.data())
def test_slices_cut_as_numpy(data: st.DataObject) -> None:
    x = normal(*data.draw(array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=5)))
    steps = st.sampled_from([1, 2, -1])
    cuts = []
    for size in x.shape:
        step = data.draw(steps)
        start = data.draw(st.integers(0, size - 1))
        end = data.draw(st.integers(start + 1, size) if step > 0 else st.none())
        cuts.append(slice(start, end, step))
    index = tuple(cuts)
    _agree(lambda a: a[index] + 0.0, [x[index]], a=x)


@_FEW
@given(st.data())
def test_reshapes_and_transposes_as_numpy(data: st.DataObject) -> None:
    x = normal(*data.draw(array_shapes(min_dims=1, max_dims=4, max_side=4)))
    order = data.draw(st.permutations(range(x.ndim)))
    at = data.draw(st.integers(0, x.ndim))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    _agree(
        lambda a: [
            paddle.transpose(a, order),
            paddle.reshape(a, [*x.shape[:at], -1]),
            paddle.unsqueeze(a, at),
            paddle.concat([a, a], axis),
            paddle.flip(a, [axis]),
        ],
        [
            x.transpose(order),
            x.reshape([*x.shape[:at], -1]),
            np.expand_dims(x, at),
            np.concatenate([x, x], axis),
            np.flip(x, axis),
        ],
        a=x,
    )

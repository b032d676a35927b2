"""Operators of the domain ai.paddle_ipu by themselves, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest

import paddle_ipu.xla.lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.errors import popart_exception
from paddle_ipu.popart import Builder
from paddle_ipu.xla.lowerings.registry import LoweringContext, find_lowering


def _take(data: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    rule = find_lowering("ai.paddle_ipu", "TakeAlongAxis")
    assert rule is not None
    context = LoweringContext(
        "ai.paddle_ipu", "TakeAlongAxis", "node", False, lambda: jax.random.key(0)
    )
    call: Callable[..., jax.Array] = jax.jit(lambda x, n: rule(context, [x, n], {"axis": axis}))
    return np.asarray(call(data, indices))


def test_take_along_axis_is_numpys() -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    indices = np.asarray([[0, 3], [1, 1], [2, 0]], np.int32)
    np.testing.assert_array_equal(
        _take(data, indices, -1), np.take_along_axis(data, indices, axis=-1)
    )


def test_take_along_axis_counts_from_the_end_and_cuts_the_other_axes() -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(_take(data, np.asarray([[-1, 0]], np.int32), 0), [[8, 1]])


@pytest.mark.parametrize("dims", [[4, 4], [3], [3, 4, 1]])
def test_take_along_axis_checks_the_indices(dims: list[int]) -> None:
    builder = Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    data = builder.addInputTensor("FLOAT", [3, 4])
    indices = builder.addInputTensor("INT32", dims)
    with pytest.raises(popart_exception, match=r"must have the rank of data .* but axis 1"):
        builder.aiPaddleIpuOpset1.takealongaxis([data, indices], 1)

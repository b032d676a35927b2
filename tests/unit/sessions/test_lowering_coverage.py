"""The operator table against the table of lowerings: nothing is missing on either side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.schema import all_schemas
from paddle_ipu.xla import lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.xla.lowerings.registry import lowered_operators
from tests.unit.sessions.session_programs import builder, infer, run


def test_every_operator_of_the_table_has_a_lowering() -> None:
    rows = {(row.domain, row.op_type) for row in all_schemas() if row.implemented}
    assert not rows - set(lowered_operators()), "rows of popart/operators/ without a lowering"


def test_every_lowering_is_of_an_operator_of_the_table() -> None:
    rows = {(row.domain, row.op_type) for row in all_schemas()}
    assert not set(lowered_operators()) - rows, "lowered, without a row in popart/operators/"


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("reshape", {"shape": [0, -1]}, X.reshape(2, 12)),
        ("slice", {"ends": [2, 100], "starts": [1, -3], "axes": [1, 2]}, X[:, 1:2, 1:]),
        ("slice", {"ends": [2, 2], "starts": [1, 0], "axes": []}, X[1:2, :2]),
        ("tensorremap", {"remap_type": int(popart.TensorRemapType.Fwd)}, X),
        ("shapeddropout", {"shape": [3, 1], "ratio": 0.25}, X),
    ],
)
def test_operators_of_graphcore_with_attributes(
    method: str, arguments: dict[str, Any], expected: Any
) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", list(X.shape), "x")
    y = getattr(make.aiGraphcore, method)(x if method == "reshape" else [x], **arguments)
    assert make.getTensorShape(y) == list(expected.shape)
    np.testing.assert_array_equal(run(infer(make.model, {y: "All"}), {"x": X})[y], expected)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("reshape", {"shape": [5, -1]}, "cannot reshape .* of 24 elements"),
        ("slice", {"ends": [2], "starts": [1, 0], "axes": []}, "differ in length"),
        ("shapeddropout", {"shape": [2, 2, 3, 4]}, r"^ShapedDropout: incompatible input"),
        ("shapeddropout", {"shape": [3, 1], "ratio": 1.0}, "ratio value 1.0 is not valid"),
    ],
)
def test_attributes_that_do_not_fit(method: str, arguments: dict[str, Any], message: str) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", list(X.shape), "x")
    with pytest.raises(popart_exception, match=message):
        getattr(make.aiGraphcore, method)(x if method == "reshape" else [x], **arguments)


def test_normalisations() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", list(X.shape), "x")
    scale, bias, mean, var = (
        make.addInitializedInputTensor(np.array(values, np.float32), name)
        for name, values in {
            "scale": [1, 2, 3], "bias": [0, 1, -1], "mean": [8, 10, 12], "var": [1, 4, 9],
        }.items()
    )  # fmt: skip
    instance = make.aiOnnxOpset11.instancenormalization([x, scale, bias], 1e-3)
    batch = make.aiGraphcore.batchnormalization([x, scale, bias, mean, var], 1, 1e-3)[0]
    got = run(infer(make.model, {instance: "All", batch: "All"}), {"x": X})
    row = np.array([1, 2, 3], np.float32)[:, None]
    offset = np.array([0, 1, -1], np.float32)[:, None]
    own = (X - X.mean(2, keepdims=True)) / np.sqrt(X.var(2, keepdims=True) + 1e-3)
    np.testing.assert_allclose(got[instance], own * row + offset, rtol=1e-5, atol=1e-6)
    fixed = (X - [[8], [10], [12]]) / np.sqrt(np.array([[1], [4], [9]]) + 1e-3)
    np.testing.assert_allclose(got[batch], fixed * row + offset, rtol=1e-5, atol=1e-6)
    with pytest.raises(popart_exception, match=r"the bias must have shape \[3\], got"):
        wrong = make.addInitializedInputTensor(np.zeros(2, np.float32))
        make.aiOnnxOpset11.instancenormalization([x, scale, wrong])

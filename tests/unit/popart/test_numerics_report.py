"""NumericsReport against the norms of the differences, and its refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception


def _save(path: Path, **weights: Any) -> str:
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    first = arrays[0]
    y = helper.make_tensor_value_info("y", first.data_type, list(first.dims))
    node = helper.make_node("Identity", [first.name], ["y"])
    graph = helper.make_graph([node], "graph", [], [y], arrays)
    opset = helper.make_opsetid("", 11)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=6), path)
    return str(path)


def test_the_relative_error_of_two_updates(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a0, a1, b0, b1 = rng.standard_normal((4, 3, 5)).astype(np.float32)
    steps = np.arange(3)
    files = [
        _save(tmp_path / f"{number}.onnx", w=array, v=array * 2, steps=steps)
        for number, array in enumerate((a0, a1, b0, b1))
    ]
    report = popart.NumericsReport(*files)
    of_a, of_b = (a1 - a0).astype(np.float64), (b1 - b0).astype(np.float64)
    norm_a, norm_b = np.linalg.norm(of_a), np.linalg.norm(of_b)
    expected = np.linalg.norm(of_a - of_b) ** 2 / (norm_a * norm_b)
    found = report.getRelativeErrors()
    assert set(found) == {"w", "v"}
    np.testing.assert_allclose([found["w"], found["v"]], expected, rtol=1e-5)
    text = report.report("w")
    numbers = [float(part.split("=")[1]) for part in text.split("  and  ")]
    np.testing.assert_allclose(numbers, [expected, norm_a * norm_b, norm_a, norm_b], rtol=1e-5)
    assert report.fullReport() == f"\nv : \n{report.report('v')}\nw : \n{text}"
    with pytest.raises(popart_exception, match="No report available for steps. There are w, v"):
        report.report("steps")


def test_weights_that_did_not_move_have_no_error(tmp_path: Path) -> None:
    files = [_save(tmp_path / f"{number}.onnx", w=np.ones(3, np.float32)) for number in range(4)]
    assert popart.NumericsReport(
        A0=files[0], A1=files[1], B0=files[2], B1=files[3]
    ).getRelativeErrors() == {"w": 0.0}


@pytest.mark.parametrize(
    ("weights", "what"),
    [
        ({"w": np.ones(2, np.float32), "v": np.ones(1)}, "different number of initializers: .* 2$"),
        ({"v": np.ones(2, np.float32)}, "do not correspond between TensorProtos: .* lacks 'w'"),
        ({"w": np.ones(3, np.float32)}, r"infos differ: 'w' is float32 \[2\] in .*, float32 \[3\]"),
    ],
)
def test_other_weights_are_refused(tmp_path: Path, weights: Any, what: str) -> None:
    path = _save(tmp_path / "a.onnx", w=np.ones(2, np.float32))
    other = _save(tmp_path / "b.onnx", **weights)
    with pytest.raises(popart_exception, match=what):
        popart.NumericsReport(path, path, path, other)


def test_files_that_cannot_be_compared(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    with pytest.raises(popart_exception, match="none is not a regular file. Give the file of"):
        popart.NumericsReport(missing, missing, missing, missing)
    half = _save(tmp_path / "half.onnx", w=np.ones(2, np.float16))
    with pytest.raises(popart_exception, match="report for floating-point type float16 of 'w'"):
        popart.NumericsReport(half, half, half, half)

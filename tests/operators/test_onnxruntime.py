"""Exported graphs with operators of ai.onnx only give the same numbers in onnxruntime."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.registry import Row, translated_operators
from tests.operators.built_case import build_case, lacks
from tests.operators.operator_case import Array, OperatorCase
from tests.operators.operator_cases import cases_by_operator
from tools.program_forms.default_translation import DefaultTranslation, translate_by_default

# A dev extra, which an environment made before it was one lacks.
onnxruntime = pytest.importorskip("onnxruntime")

_ERRORS = onnxruntime.capi.onnxruntime_pybind11_state

pytestmark = [pytest.mark.usefixtures("static_mode"), pytest.mark.thorough]

BY_OPERATOR = cases_by_operator()
CASES_OF_AN_OPERATOR = 2
RELATIVE = 1e-5

_FLOATS_ONLY = "ONNX's Max, Min, Sum, Clip and Pow of opset 11 take floating-point numbers only"
NOT_THERE = {
    "add_n": _FLOATS_ONLY,
    "clip": _FLOATS_ONLY,
    "fmax": _FLOATS_ONLY,
    "fmin": _FLOATS_ONLY,
    "maximum": _FLOATS_ONLY,
    "minimum": _FLOATS_ONLY,
    "one_hot": "onnxruntime has no kernel of OneHot for these types",
}
"""Operators some of whose cases onnxruntime does not load, and why."""


_OPEN = {"reduce_as-integers and booleans": "a sum beyond int32 goes round, as in Paddle"}
_OPEN_TO_NAN = ("argmax", "argmin", "maxout", "relu")


def _only_onnx(row: Row) -> bool:
    return bool(row.emits) and not any("." in name for name in row.emits)


def _is_settled(case: OperatorCase) -> bool:
    """Whether ONNX says what comes out: of NaN among numbers it says nothing."""
    floats = [array for array in case.inputs.values() if array.dtype.kind == "f"]
    return case.op not in _OPEN_TO_NAN or not any(np.isnan(x).any() for x in floats)


def _cases(row: Row) -> list[OperatorCase]:
    """Those with numbers to compare, that the installed Paddle can build."""
    return [
        case
        for case in BY_OPERATOR.get(row.name, ())
        if not (lacks(case) or case.check is not None or case.gpu_only or case.name in _OPEN)
        and _is_settled(case)
    ][:CASES_OF_AN_OPERATOR]


ROWS = [row for row in translated_operators() if _only_onnx(row) and _cases(row)]


def _lowered(case: OperatorCase) -> tuple[DefaultTranslation, dict[str, Array]]:
    """The case forward, as a PopART program, and its feeds by tensor id."""
    built = build_case(dataclasses.replace(case, gradient=()))
    names = list(built.feed)
    lowered = translate_by_default(
        built.program, names, list(built.fetches.values()), built.parameters.__getitem__
    )
    ids = lowered.translation.feeds
    return lowered, {ids[name]: built.feed[name] for name in names if name in ids}


def _by_onnxruntime(model: bytes, names: list[str], feeds: dict[str, Array]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    types = {item.name: item.type for item in session.get_inputs()}
    kinds = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
    cast = {
        name: array.astype(kinds.get(types[name], types[name][len("tensor(") : -1]))
        for name, array in feeds.items()
        if name in types
    }
    results: list[Any] = session.run(names, cast)
    return results


def _by_the_ipu_model(model: bytes, names: list[str], feeds: dict[str, Array]) -> list[Array]:
    session = popart.InferenceSession(
        model,
        popart.DataFlow(1, names, popart.AnchorReturnType("All")),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    device = {
        name: array.astype(session.getInfo(name).data_type_lcase()) for name, array in feeds.items()
    }
    session.run(popart.PyStepIO(device, arrays))
    return [arrays[name] for name in names]


def _compare(case: OperatorCase) -> bool:
    """Compares the case's outputs; False where its program has operators of other domains."""
    lowered, feeds = _lowered(case)
    builder = lowered.translation.builder
    # A program without operators is no model of ONNX.
    if not len(builder.model.graph) or any(node.domain for node in builder.model.graph):
        return False
    names = builder.getOutputTensorIds()
    model = builder.getModelProto()
    theirs = _by_onnxruntime(model, names, feeds)
    for name, mine, other in zip(
        names, _by_the_ipu_model(model, names, feeds), theirs, strict=True
    ):
        assert mine.shape == other.shape, (case.name, name)
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, other, err_msg=f"{case.name} {name}")
            continue
        finite = np.isfinite(other)
        np.testing.assert_array_equal(mine[~finite], other[~finite], err_msg=case.name)
        mine, other = mine.astype(np.float64), other.astype(np.float64)
        error = np.linalg.norm((mine[finite] - other[finite]).ravel())
        norm = float(np.linalg.norm(other[finite].ravel()))
        assert error <= RELATIVE * max(norm, 1e-3), (case.name, name, error / max(norm, 1e-30))
    return True


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_onnxruntime_gives_the_same(row: Row) -> None:
    refused, compared = [], 0
    for case in _cases(row):
        try:
            compared += _compare(case)
        except (_ERRORS.Fail, _ERRORS.InvalidGraph, _ERRORS.NotImplemented) as error:
            refused.append(f"{case.name}: {error}")
    if not compared and not refused:
        pytest.skip("no case has operators of ai.onnx only")
    assert bool(refused) == (row.name in NOT_THERE), refused

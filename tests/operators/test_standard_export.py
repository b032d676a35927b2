"""Every row of the operator case table as a file of ONNX's own operators, run by onnxruntime.

What it gives is compared with Paddle's CPU executor; what ONNX has no operator for is refused by
name, and listed in `onnx_limits`.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import paddle_ipu
from paddle_ipu.errors import NotSupported
from tests.operators.built_case import BuiltCase, build_case, lacks
from tests.operators.onnx_limits import NOT_IN_ONNX, is_settled
from tests.operators.operator_case import Array, OperatorCase
from tests.operators.operator_cases import cases_by_operator
from tests.operators.run_case import run_on_cpu

# A dev extra, which an environment made before it was one lacks.
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = [pytest.mark.usefixtures("static_mode"), pytest.mark.thorough]

RELATIVE = 1e-5
BY_OPERATOR = cases_by_operator()

BEHIND = {f"{kind}Pool (a window begins behind the image)" for kind in ("Average", "Max")}

OPEN = {
    "grid_sample-half_way_reflection_edges": "ONNX rounds to a pixel first, and then reflects",
    "pool2d-no_number": "the maximum of minus infinities is that, not the lowest number",
    "mean-empty": "onnxruntime's ReduceMean of no elements is 0",
    "prod-64 bits": "onnxruntime multiplies int64 as floating-point numbers",
    r"(pool|max_pool|fractional_max_pool)\dd.*-of .*\b0 x .*|roi_(align|pool)-of no image":
        "onnxruntime takes no windows or boxes of images without elements",
    r"conv\dd-no window.*": "onnxruntime takes no image that is smaller than the window",
    "(max|min|amax|amin)-NaN": "onnxruntime's maximum of numbers and NaN may be a number",
    "slogdet(_v2)?-not finite|deformable_conv-infinities at the edge":
        "of infinities, ONNX's operators multiply some by 0 that Paddle's kernel leaves out",
}  # fmt: skip
"""Names of cases, as regular expressions, whose numbers are other ones there, and why."""


def _cases(operator: str) -> list[OperatorCase]:
    """Those whose numbers follow from the inputs, or from random numbers of ONNX's own."""
    return [
        case
        for case in BY_OPERATOR[operator]
        if is_settled(case) and not (lacks(case) or _is_open(case) or _trains(case))
    ]


def _is_open(case: OperatorCase) -> bool:
    return any(re.fullmatch(name, case.name) for name in OPEN)


def _trains(case: OperatorCase) -> bool:
    """Whether its check is one of training or of dropout, which a model at rest leaves out."""
    return case.check is not None and bool(case.gradient or "dropout" in case.name)


def _refused(error: NotSupported) -> set[str]:
    """The operators that a refusal names."""
    listed = str(error).partition("no operators for ")[2].partition(", and standard_only")[0]
    return {name.rpartition(".")[2] for name in listed.split(", ")}


def _by_onnxruntime(path: Path, feed: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})
    return results


def _expected(case: OperatorCase, built: BuiltCase) -> list[Array]:
    if case.oracle is None:
        return [np.asarray(array) for array in run_on_cpu(built).values()]
    found = case.oracle(*case.inputs.values())
    return [np.asarray(each) for each in (found if isinstance(found, (list, tuple)) else [found])]


def _same(case: OperatorCase, got: Array, expected: Array) -> None:
    assert got.shape == expected.shape and got.dtype == expected.dtype, case.name
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected, err_msg=case.name)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite], err_msg=case.name)
    error = np.linalg.norm((got[finite].astype(np.float64) - expected[finite]).ravel())
    norm = float(np.linalg.norm(expected[finite].astype(np.float64).ravel()))
    assert error <= RELATIVE * max(norm, 1e-3), (case.name, error / max(norm, 1e-30))


@pytest.mark.parametrize("operator", [name for name in BY_OPERATOR if _cases(name)])
def test_onnxruntime_gives_paddles_numbers(operator: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for case in _cases(operator):
        built = build_case(dataclasses.replace(case, gradient=()))
        fetches = list(built.fetches.values())
        names = [f"output:{at}" for at in range(len(fetches))]
        try:
            report = paddle_ipu.export(
                built.program, path, list(built.feed), fetches,
                output_names=names, standard_only=True,
            )  # fmt: skip
        except NotSupported as error:
            assert _refused(error) and _refused(error) <= NOT_IN_ONNX | BEHIND, case.name
            continue
        assert not report.not_standard
        got = _by_onnxruntime(path, dict(built.feed))
        if case.check is not None:
            case.check(got)
            continue
        for one, other in zip(got, _expected(case, built), strict=True):
            _same(case, one, other)

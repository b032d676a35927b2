"""The form of a PopART program: blind to names, and to nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle
import pytest

from tests.operators.built_case import lacks
from tests.operators.operator_case import OperatorCase, Since, normal
from tools.program_forms.__main__ import main
from tools.program_forms.named_program import NamedProgram, form_of
from tools.program_forms.program_form import Form

pytestmark = pytest.mark.usefixtures("static_mode")


def _program(
    optimizer: Callable[[], Any] | None = None, *, prefix: str = "a", units: int = 3
) -> NamedProgram:
    """tanh(x @ w + b) summed, with `prefix` before the names of its parameters."""
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        x = paddle.static.data("x", [2, 4])
        w = paddle.create_parameter([4, units], "float32", name=f"{prefix}.w")
        b = paddle.create_parameter([units], "float32", name=f"{prefix}.b")
        loss = paddle.sum(paddle.tanh(paddle.matmul(x, w) + b))
        if optimizer is not None:
            optimizer().minimize(loss)
    return NamedProgram(program, ["x"], [loss], training=optimizer is not None)


PROGRAMS = {"tanh": _program}


def _adam(**settings: Any) -> Form:
    return form_of(_program(lambda: paddle.optimizer.Adam(0.1, **settings)))


def test_the_form_names_operators_types_and_connections() -> None:
    form = form_of(_program())
    assert form["operators"] == [
        "MatMul(feed x, weight 0){} -> float32[2, 3]",
        "Add(0, weight 1){} -> float32[2, 3]",
        "Tanh(1){} -> float32[2, 3]",
        "ReduceSum(2){axes=[0, 1], keepdims=0} -> float32[]",
    ]
    assert form["fetches"] == ["3"]
    assert form["feeds"] == {"x": "float32[2, 4]"}
    assert form["weights"] == ["float32[4, 3]", "float32[3]"]
    assert form["unread"] == {}
    assert "optimizer" not in form


def test_names_make_no_difference() -> None:
    assert form_of(_program(prefix="a")) == form_of(_program(prefix="b"))


def test_a_shape_makes_a_difference() -> None:
    assert form_of(_program()) != form_of(_program(units=5))


@pytest.mark.parametrize(
    "settings",
    [
        {"beta1": 0.8},
        {"weight_decay": paddle.regularizer.L2Decay(0.1)},
        {"grad_clip": paddle.nn.ClipGradByNorm(1.0)},
    ],
)
def test_the_optimizers_settings_make_a_difference(settings: dict[str, Any]) -> None:
    assert _adam() == _adam()
    assert _adam() != _adam(**settings)


def test_the_optimizer_is_told_by_weight() -> None:
    form = _adam(beta1=0.75)
    assert form["loss"] == form["fetches"][0] == "3"
    assert form["optimizer"]["updates"].keys() == {"weight 0", "weight 1"}
    update = form["optimizer"]["updates"]["weight 0"]
    assert update["rule"] == "adam"
    assert update["settings"]["beta1"] == 0.75
    assert update["states"] == ["beta1_pow", "beta2_pow", "moment1", "moment2"]


def test_a_table_of_ones_own_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tools.program_forms.__main__"
    monkeypatch.setattr(f"{module}.OWN", PROGRAMS, raising=False)
    out = tmp_path / "forms.json"
    assert main(["--out", str(out), "--programs", f"{module}:OWN"]) == 0
    written = json.loads(out.read_text())
    assert written == {"paddle": paddle.__version__, "programs": {"tanh": form_of(_program())}}


@pytest.mark.parametrize(
    ("version", "holds"), [("2.6.2", False), ("3.0.0", False), ("3.1.1", True), ("3.10.0", True)]
)
def test_a_case_may_begin_with_a_version(version: str, holds: bool) -> None:
    assert Since("3.1", "the kernel rounds").holds(version) is holds


def test_what_is_lacking_is_told() -> None:
    def case(version: str) -> OperatorCase:
        since = Since(version, "the kernel rounds")
        return OperatorCase("round", paddle.round, {"x": normal(2)}, since=since)

    assert lacks(case("2.0")) == ""
    assert lacks(case("99.0")) == f"Paddle {paddle.__version__}: the kernel rounds before 99.0"

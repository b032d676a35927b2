"""Conditions and blocks that no IPU program can have are refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import pir, pir_json, programs
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import build

NN = paddle.static.nn
PIR = not paddle.__version__.startswith("2.")


@contextmanager
def _program_desc() -> Iterator[Any]:
    """A ProgramDesc under construction, with Paddle's own conditional blocks and loops."""
    if PIR:
        from paddle.pir_utils import OldIrGuard

        with OldIrGuard(), _program_under_construction() as program:
            yield program
    else:
        with _program_under_construction() as program:
            yield program


@contextmanager
def _program_under_construction() -> Iterator[Any]:
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        yield program


def _append(program: Any, kind: str, inputs: dict[str, Any], **attributes: Any) -> None:
    """Appends an operator whose block writes variable ``written``, which nothing else writes."""
    around = program.global_block()
    written = around.create_var(name="written", shape=[2, 3], dtype="float32")
    scope = around.create_var(name="scope", type=paddle.base.core.VarDesc.VarType.STEP_SCOPES)
    block = program._create_block()
    block.append_op(type="assign", inputs={"X": [around.var("x")]}, outputs={"Out": [written]})
    program._rollback()
    around.append_op(
        type=kind,
        inputs=inputs,
        outputs={"Out": [written], "Scope" if "Cond" in inputs else "StepScopes": [scope]},
        attrs={"sub_block": block, **attributes},
    )


def test_a_block_that_runs_where_its_inputs_are_not_empty_is_refused() -> None:
    with _program_desc() as program:
        x = paddle.static.data("x", [2, 3], "float32")
        _append(program, "conditional_block", {"Cond": [x], "Input": []}, is_scalar_condition=False)
        with pytest.raises(
            NotSupported,
            match=r"conditional_block.* runs its block where its inputs are not empty, .*static.nn",
        ):
            programs.read(program)


def test_a_variable_that_one_branch_writes_needs_a_value_before() -> None:
    with _program_desc() as program:
        condition = paddle.static.data("p", [1], "bool")
        paddle.static.data("x", [2, 3], "float32")
        _append(
            program,
            "conditional_block",
            {"Cond": [condition], "Input": []},
            is_scalar_condition=True,
        )
        with pytest.raises(
            NotSupported, match="only one branch writes 'written', which has no value before. Give"
        ):
            programs.read(program)


def test_a_variable_that_a_loop_writes_needs_a_value_before() -> None:
    with _program_desc() as program:
        condition = paddle.static.data("p", [1], "bool")
        x = paddle.static.data("x", [2, 3], "float32")
        _append(program, "while", {"X": [x], "Condition": [condition]}, is_test=True)
        with pytest.raises(
            NotSupported, match="while.* writes 'written', which has no value before the loop. Give"
        ):
            programs.read(program)


@pytest.mark.skipif(not PIR, reason="Paddle 2 has no PIR programs")
def test_a_branch_that_returns_nothing_is_refused(static_program: Any, tmp_path: Path) -> None:
    from paddle.base import core

    x = paddle.static.data("x", [2, 3], "float32")
    NN.cond(paddle.sum(x) > 0, lambda: x + 1.0, lambda: x * 2.0)
    path = tmp_path / "model.json"
    core.serialize_pir_program(static_program, str(path), True, True, True)
    document = json.loads(path.read_bytes())
    (block,) = document["program"]["regions"][0]["blocks"]
    (cond,) = [op for op in block["ops"] if op["#"] == "1.if"]
    leave = cond["regions"][0]["blocks"][0]["ops"][-1]
    assert leave["#"].endswith("yield")
    leave["I"] = [{"%": 0}]
    with pytest.raises(NotSupported, match="returns nothing in the place of a tensor. Return a"):
        pir.read(pir_json.parse(json.dumps(document).encode()))


def test_a_condition_of_several_elements_is_refused() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2], "float32")
        return ["x"], {"out": NN.cond(x > 0, lambda: x + 1.0, lambda: x * 2.0)}, None

    message = refused(
        NotSupported, r"the condition must have one element, got shape \[2\]", build(make),
        is_training=False, micro_batch_size=2,
    )  # fmt: skip
    assert "if" in message and __file__ in message


def test_a_constant_condition_of_several_elements_is_refused() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [2], "float32")
        condition = paddle.full([2], True, "bool")
        return ["x"], {"out": NN.cond(condition, lambda: x + 1.0, lambda: x * 2.0)}, None

    refused(
        NotSupported, r"the condition must have one element, got shape \[2\]", build(make),
        is_training=False,
    )  # fmt: skip

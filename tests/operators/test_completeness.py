"""The tables agree: translators, their cases, PopART's schema and the lowerings."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import paddle_ipu.xla.lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.registry import Row, translated_operators
from paddle_ipu.popart.schema import PADDLE_IPU, all_schemas, schema_of
from paddle_ipu.popart.standard_operators import RULES
from paddle_ipu.xla.lowerings.registry import find_lowering
from tests.operators.built_case import lacks
from tests.operators.onnx_limits import NOT_IN_ONNX
from tests.operators.operator_cases import CASES, REFUSED, cases_by_operator
from tests.operators.run_case import emitted_operators
from tools import generate_docs

ROWS = translated_operators()
BY_OPERATOR = cases_by_operator()


def _popart_operators(row: Row) -> Iterator[tuple[str, str]]:
    for name in (*row.emits, "Constant"):
        domain, _, op_type = name.rpartition(".")
        yield f"ai.{domain or 'onnx'}", op_type


def test_every_translator_has_a_case_and_every_case_a_translator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {row.name for row in ROWS}
    assert not names - BY_OPERATOR.keys(), "translated, without a row in tests/operators/cases/"
    cased = BY_OPERATOR.keys() | {case.op for case in REFUSED}
    assert not cased - names, "with rows in tests/operators/cases/, and no translator in ops/"
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(names)} Paddle operators, {len(CASES)} cases, {len(REFUSED)} refusals\n"
        )


def test_no_two_cases_have_one_name() -> None:
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_popart_operator_has_a_schema_and_a_lowering(row: Row) -> None:
    for domain, op_type in _popart_operators(row):
        operator = f"{domain}.{op_type}, which ops/ emits,"
        assert schema_of(domain, op_type) is not None, f"{operator} has no row in popart/operators/"
        assert find_lowering(domain, op_type) is not None, (
            f"{operator} has no lowering in xla/lowerings/"
        )


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.name in BY_OPERATOR], ids=lambda row: row.name
)
def test_the_cases_emit_what_the_translator_names_and_nothing_else(row: Row) -> None:
    cases = [case for case in BY_OPERATOR[row.name] if not lacks(case)]
    emitted: set[str] = set()
    for case in cases:
        emitted |= emitted_operators(case).get(row.name.removesuffix("_"), set())
    assert emitted <= set(row.emits), "emitted, and not in the translator's `emits`"
    if cases == BY_OPERATOR[row.name]:
        assert not set(row.emits) - emitted, "in the translator's `emits`, and no case emits it"


def test_every_operator_of_ours_is_written_with_those_of_onnx_or_listed() -> None:
    ours = {row.op_type for row in all_schemas() if row.domain == PADDLE_IPU}
    ruled = {op_type for domain, op_type in RULES if domain}
    assert not ruled & NOT_IN_ONNX, "in popart/standard_rules/: take it out of NOT_IN_ONNX"
    # What runs on Paddle's CPU kernels is part of no file.
    assert not ours - ruled - NOT_IN_ONNX - {"CpuKernel"}, (
        "give it a rule in popart/standard_rules/, or, where ONNX cannot express it, list it in "
        "NOT_IN_ONNX of tests/operators/onnx_limits.py"
    )


def test_the_page_of_operators_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_docs.main(["operators", "--check"]) == 0, capsys.readouterr().err

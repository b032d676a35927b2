"""The tables agree: translators, their cases, PopART's schema and the lowerings."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import paddle_ipu.xla.lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.registry import Row, translated_operators
from paddle_ipu.popart.schema import schema_of
from paddle_ipu.xla.lowerings.registry import find_lowering
from tests.operators.built_case import lacks
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
    assert sorted(names - BY_OPERATOR.keys()) == []
    assert sorted(BY_OPERATOR.keys() - names) == []
    assert sorted({case.op for case in REFUSED} - names) == []
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
        assert schema_of(domain, op_type) is not None, f"{domain}.{op_type} has no schema"
        assert find_lowering(domain, op_type) is not None, f"{domain}.{op_type} has no lowering"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_cases_emit_what_the_translator_names_and_nothing_else(row: Row) -> None:
    cases = [case for case in BY_OPERATOR[row.name] if not lacks(case)]
    emitted: set[str] = set()
    for case in cases:
        emitted |= emitted_operators(case).get(row.name.removesuffix("_"), set())
    if cases == BY_OPERATOR[row.name]:
        assert emitted == set(row.emits)
    else:
        assert emitted <= set(row.emits)


def test_the_page_of_operators_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_docs.main(["operators", "--check"]) == 0, capsys.readouterr().err

"""One Python program becomes one PopART program, whichever version of Paddle built it.

The other version runs in an environment of its own: ``PADDLE_IPU_PADDLE26_PYTHON`` names its
Python, ``make test`` sets it.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle
import pytest

from tests.checkout import ROOT
from tests.operators.operator_cases import CASES
from tests.versions.different_programs import DIFFERENT
from tools.program_forms.__main__ import main

TABLES = ("tests.operators.program_table:PROGRAMS", "tests.versions.training_programs:PROGRAMS")
OTHER = os.environ.get("PADDLE_IPU_PADDLE26_PYTHON", "")

pytestmark = [
    pytest.mark.skipif(not OTHER, reason="PADDLE_IPU_PADDLE26_PYTHON names no Python"),
    pytest.mark.skipif(
        paddle.__version__.startswith("2.6"), reason="compared from the newer version's side"
    ),
]


@pytest.fixture(scope="module")
def forms(made_once: Callable[..., Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The programs of this Paddle and of the other, by name, each behind its version."""
    folder = made_once("forms", _write_forms)
    this, theirs = (json.loads((folder / f"{name}.json").read_text()) for name in ("this", "other"))
    return this, theirs


def _write_forms(folder: Path) -> None:
    arguments = [word for table in TABLES for word in ("--programs", table)] + ["--out"]
    with subprocess.Popen(
        [OTHER, "-m", "tools.program_forms", *arguments, folder / "other.json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert main([*arguments, str(folder / "this.json")]) == 0
            _, messages = other.communicate(timeout=300)
        except BaseException:
            other.kill()
            raise
    assert other.returncode == 0, messages


def _difference(this: Any, theirs: Any) -> str:
    lines = (json.dumps(form, indent=0).splitlines() for form in (theirs, this))
    return "\n".join(list(difflib.unified_diff(*lines, "2.6", "here", lineterm="", n=0))[:16])


def test_every_program_but_the_named_ones_is_the_same(
    forms: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    this, theirs = (each["programs"] for each in forms)
    different = {name for name in this.keys() & theirs.keys() if this[name] != theirs[name]}
    told = [
        f"{name}:\n{_difference(this[name], theirs[name])}"
        for name in sorted(different - DIFFERENT.keys())
    ]
    assert not told, "\n".join(told)
    # A reason that holds no longer is taken out of the table.
    assert different == DIFFERENT.keys() & this.keys()


def test_reasons_are_those_of_rows() -> None:
    assert DIFFERENT.keys() <= {case.name for case in CASES}


def test_only_rows_that_say_so_are_missing(
    forms: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    this, theirs = forms
    assert theirs["paddle"].startswith("2.6.")
    told = {case.name for case in CASES if case.since is not None and not case.since.holds("2.6.2")}
    assert this["programs"].keys() - theirs["programs"].keys() == told
    assert not theirs["programs"].keys() - this["programs"].keys()


def test_the_programs_are_not_empty(forms: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for written in forms:
        form = written["programs"]["tiny BERT, lamb"]
        assert len(form["operators"]) > 100
        assert len(form["optimizer"]["updates"]) == len(form["weights"])
        assert {update["rule"] for update in form["optimizer"]["updates"].values()} == {"lamb"}
        assert form["unread"] == {}

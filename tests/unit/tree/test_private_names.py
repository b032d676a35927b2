"""What a module keeps to itself: no other module imports it, nor does a test."""

from __future__ import annotations

import ast

from tests.checkout import ROOT

PLACES = ("paddle_ipu", "passes", "ops", "tests", "tools", "examples", "benchmarks")
OWN = ("paddle_ipu", "tests", "tools", "examples", "benchmarks")


def test_no_private_name_is_imported() -> None:
    files = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {alias.name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OWN
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert not found

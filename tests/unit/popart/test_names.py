"""Every public name has a docstring, types, and a test that names it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

import paddle_ipu.popart as popart
from tests.checkout import ROOT
from tests.popart_stand_in.table import module_table, python_table

OPERATORS = {name for name in popart.__all__ if name.startswith("Ai")}
"""Their methods are made of the operator table; each has its arguments in its docstring."""


def _named() -> set[str]:
    """Words of the tests, and of the tables that test_bindings.py compares."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("bindings/*.txt")]
    return {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}


def _functions(kind: type) -> Iterator[tuple[str, Any, str | None]]:
    """Public methods and properties that a class of this package defines, and what they tell."""
    for base in kind.__mro__:
        for name, value in vars(base).items():
            plain = getattr(value, "__func__", value)
            plain = value.fget if isinstance(value, property) else plain
            ours = base.__module__.startswith("paddle_ipu")
            if ours and (name == "__init__" or not name.startswith("_")) and callable(plain):
                yield name, plain, inspect.getdoc(value)


def _without_type(function: Any) -> list[str]:
    """The arguments that have none, and ``return``."""
    signature = inspect.signature(function)
    found = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.annotation is parameter.empty and name not in ("self", "cls")
    ]
    return found + ["return"] * (signature.return_annotation is signature.empty)


@pytest.mark.parametrize("name", popart.__all__)
def test_a_name_tells_what_it_is(name: str) -> None:
    value = getattr(popart, name)
    if isinstance(value, int):
        return
    assert inspect.getdoc(value), name
    if not isinstance(value, type):
        assert not _without_type(value)
        return
    if issubclass(value, (Enum, Exception)):
        return
    for method, function, told in _functions(value):
        assert method == "__init__" or told, method
        if name in OPERATORS and not method.startswith("__"):
            assert f"{method}(" in str(told) or function.__annotations__, method
        else:
            assert not _without_type(function), method


def test_every_name_is_tested() -> None:
    assert set(popart.__all__) - _named() == set()


def test_what_popart_does_not_have_is_known() -> None:
    module, python = module_table(), python_table()
    theirs = {*module.classes, *python.classes, *module.functions, *module.constants}
    theirs |= {*module.enumerations, *module.exceptions, *(f"AiOnnxOpset{at}" for at in range(12))}
    assert set(popart.__all__) - theirs == {
        "AiPaddleIpuOpset1",  # operators for the IPU Model alone
        "DeveloperSettings",  # C++ has it
        "PaddleOptimizer",  # update rules for the IPU Model alone
        "reservedCounterPrefix",  # C++ has it
    }


def test_settings_for_poparts_developers_are_there() -> None:
    assert popart.SessionOptions().developerSettings == popart.DeveloperSettings()

"""Bars of instances that show nothing leave alone what their programs write."""

from __future__ import annotations

import io
import sys
from contextlib import AbstractContextManager
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from examples import display


@pytest.mark.parametrize(
    "bar",
    [
        lambda console: display.CompileBar(console, "it"),
        lambda console: display.StepBar(console, "training", 3),
    ],
    ids=["compile bar", "step bar"],
)
def test_a_quiet_bar_takes_nothing_of_the_error_stream(
    bar: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    shown: AbstractContextManager[Any] = bar(Console(quiet=True, force_terminal=True))
    with shown:
        sys.stderr.write("why it fails\n")
    assert written.getvalue() == "why it fails\n"

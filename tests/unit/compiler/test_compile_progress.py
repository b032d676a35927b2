"""``compilation_progress_logger``: what it is told, and when it fails; the compile bar."""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import paddle
import pytest

from paddle_ipu import CompileBar
from paddle_ipu.compiler.progress import CompileProgress, between, progress_of
from paddle_ipu.errors import FeedError, OptionError

pytestmark = pytest.mark.usefixtures("static_mode")


class _StopError(Exception):
    """What a user's logger raises."""


def _compiler(logger: Any, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        y = paddle.tanh(paddle.static.data("x", [8], "float32") + 1.0)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    strategy.set_options({"compilation_progress_logger": logger, **(options or {})})
    return paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy), y


def _told(options: dict[str, Any]) -> list[tuple[int, int]]:
    seen: list[tuple[int, int]] = []
    compiler, y = _compiler(lambda *told: seen.append(told), options)
    compiler.compile(["x"], [y])
    return seen


def _grows_to(total: int, seen: list[tuple[int, int]]) -> bool:
    done = [step for step, _ in seen]
    ordered = all(before < after for before, after in zip(done, done[1:], strict=False))
    return ordered and {of for _, of in seen} == {total} and (done[0], done[-1]) == (0, total)


@pytest.mark.parametrize("total", [1, 7, 1000])
def test_it_only_ever_grows_from_nothing_to_the_total(total: int) -> None:
    seen = _told({"compilation_progress_total": total})
    assert _grows_to(total, seen)
    # Each pass, each operator translated and each operator traced is a step.
    assert len(seen) >= min(total, 20)


def test_a_program_of_the_cache_ends_at_the_total_too(tmp_path: Path) -> None:
    cached = {"enable_engine_caching": True, "cache_path": str(tmp_path / "cache")}
    seen: list[tuple[int, int]] = []
    compiler, y = _compiler(lambda *told: seen.append(told), cached)
    assert compiler.compile(["x"], [y]).report().cache == "compiled"
    first = seen.copy()
    seen.clear()
    assert compiler.compile(["x"], [y]).report().cache == "loaded"
    second = seen
    assert _grows_to(100, first) and _grows_to(100, second)
    # It is passed and translated, but neither traced nor compiled.
    assert len(second) < len(first)


@pytest.mark.parametrize("at", [0, 4, 12, 23, 35, 60, 100])
def test_what_a_logger_raises_ends_the_compilation(at: int) -> None:
    raised: list[int] = []

    def logger(done: int, total: int) -> None:
        if done >= at and not raised:
            raised.append(done)
            raise _StopError("enough")

    compiler, y = _compiler(logger)
    with pytest.raises(_StopError, match="^enough"):
        compiler.compile(["x"], [y])
    # Nothing is left behind that would be in the way of the next.
    assert not compiler._backend.is_attached
    compiled = compiler.compile(["x"], [y])
    assert compiled.backend.is_attached


def test_a_logger_is_told_that_the_compilation_failed() -> None:
    class Logger:
        closed = 0

        def __call__(self, done: int, total: int) -> None:
            assert not self.closed

        def close(self) -> None:
            self.closed += 1

    logger = Logger()
    compiler, y = _compiler(logger)
    with pytest.raises(FeedError):
        compiler.compile(["no such feed"], [y])
    assert logger.closed == 1


def test_parts_of_a_progress() -> None:
    seen: list[int] = []
    progress = CompileProgress(lambda done, total: seen.append(done), 10)
    part = between(progress, 50, 100)
    for percent in (0.0, 50.0, 49.0, 200.0, 100.0):
        part(percent)
    assert seen == [5, 7, 10]


# -- the bar --------------------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


_LINE = r"\[#{50}\] 100% Compilation Finished \[Elapsed: \d\d:\d\d:\d\d\.\d\]\n"


def test_a_bar_leaves_one_line_with_the_elapsed_time() -> None:
    out = io.StringIO()
    compiler, y = _compiler(CompileBar(out))
    compiler.compile(["x"], [y])
    assert re.fullmatch(_LINE, out.getvalue())


def test_on_a_terminal_it_is_redrawn_meanwhile() -> None:
    out, before = _Terminal(), threading.active_count()
    bar = CompileBar(out)
    bar(0, 200)
    bar(100, 200)
    _wait_for(lambda: f"\r[{'#' * 25}{'.' * 25}]  50% [Elapsed: 00:00:0" in out.getvalue())
    bar(200, 200)
    assert threading.active_count() == before
    assert re.search(rf"\r{_LINE}$", out.getvalue())
    # The same bar shows the next compilation.
    bar(0, 200)
    bar(200, 200)
    assert len(re.findall(_LINE, out.getvalue())) == 2


def test_a_bar_ends_where_the_compilation_fails() -> None:
    out, before = _Terminal(), threading.active_count()
    compiler, y = _compiler(CompileBar(out))
    with pytest.raises(FeedError):
        compiler.compile(["no such feed"], [y])
    assert threading.active_count() == before
    assert re.search(
        r"\r\[\.{50}\]   0% Compilation Failed \[Elapsed: [\d:.]+\]\n$", out.getvalue()
    )


def test_a_patient_bar_shows_nothing_of_what_is_quick() -> None:
    out = _Terminal()
    bar = CompileBar(out, patience=60.0)
    bar(0, 2)
    bar(2, 2)
    bar(0, 2)
    bar.close()
    assert out.getvalue() == ""


def test_the_environment_asks_for_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compiled() -> str:
        compiler, y = _compiler(None)
        compiler.compile(["x"], [y])
        return re.sub(r"^(?!\[).*\n", "", capsys.readouterr().err, flags=re.MULTILINE)

    monkeypatch.setenv("PADDLE_IPU_PROGRESS_BAR", "true")
    assert re.fullmatch(_LINE, compiled())
    # Standard error is no terminal here.
    monkeypatch.setenv("PADDLE_IPU_PROGRESS_BAR", "auto")
    assert compiled() == ""
    monkeypatch.setenv("PADDLE_IPU_PROGRESS_BAR", "yes")
    message = "PADDLE_IPU_PROGRESS_BAR is 'yes'; it takes 'true', 'false', or 'auto'"
    with pytest.raises(OptionError, match=message):
        progress_of({"compilation_progress_logger": None, "compilation_progress_total": 100})


@dataclass
class _Notebook:
    """IPython as a kernel has it loaded; `shown` is what stands in the output, `drawn` all of it.

    Attributes:
        kernel: what ``get_ipython()`` has of that name; None in a terminal.
    """

    kernel: object
    shown: list[dict[str, str]] = field(default_factory=list)
    drawn: list[dict[str, str]] = field(default_factory=list)

    def get_ipython(self) -> object:
        return self

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> _Display:
        assert raw and display_id
        self.drawn.append(data)
        self.shown.append(data)
        return _Display(self, len(self.shown) - 1)


@dataclass
class _Display:
    notebook: _Notebook
    place: int

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.notebook.drawn.append(data)
        self.notebook.shown[self.place] = data


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> _Notebook:
    made = _Notebook(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    return made


def test_in_a_notebook_one_line_is_redrawn(
    notebook: _Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = CompileBar()
    bar(0, 200)
    bar(100, 200)
    _wait_for(lambda: any('value="0.500"' in data["text/html"] for data in notebook.drawn))
    bar(200, 200)
    bar(0, 200)
    bar.close()
    finished, failed = notebook.shown
    assert re.fullmatch(_LINE, finished["text/plain"] + "\n")
    html = r'<progress max="1" value="1\.000"></progress> 100% Compilation Finished \[.*\]'
    assert re.fullmatch(html, finished["text/html"])
    assert "Compilation Failed" in failed["text/html"]
    assert capsys.readouterr().err == ""


def test_ipython_that_is_still_being_imported_is_no_notebook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    bar = CompileBar()
    bar(0, 200)
    bar(200, 200)
    assert re.fullmatch(_LINE, capsys.readouterr().err)


def test_a_bar_for_a_file_is_written_there_in_a_notebook_too(notebook: _Notebook) -> None:
    out = io.StringIO()
    compiler, y = _compiler(CompileBar(out))
    compiler.compile(["x"], [y])
    assert re.fullmatch(_LINE, out.getvalue())
    assert not notebook.drawn


@pytest.mark.parametrize("in_kernel", [True, False])
def test_auto_is_a_bar_in_a_notebook_and_not_in_ipython_without_a_terminal(
    notebook: _Notebook, monkeypatch: pytest.MonkeyPatch, in_kernel: bool
) -> None:
    monkeypatch.setenv("PADDLE_IPU_PROGRESS_BAR", "auto")
    # As long as a test can wait.
    monkeypatch.setattr("paddle_ipu.compiler.progress._PATIENCE", 0.0)
    if not in_kernel:
        notebook.kernel = None
    compiler, y = _compiler(None)
    compiler.compile(["x"], [y])
    assert len(notebook.shown) == in_kernel


def _wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)

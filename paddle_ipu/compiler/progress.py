"""The progress of a compilation: calls of ``compilation_progress_logger``, and a bar for it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from paddle_ipu.errors import OptionError
from paddle_ipu.notebook.progress_line import ProgressLine, in_notebook

BAR_OPTION = "PADDLE_IPU_PROGRESS_BAR"

_LOG = logging.getLogger("paddle_ipu")
_LOG_EVERY = 10
_WIDTH = 50
_REDRAW = 0.2
_PATIENCE = 2.0

Percent = Callable[[float], None]
"""Called with the percentage of a compilation that is done."""


def no_progress(percent: float) -> None:
    """For a compilation whose progress nobody follows."""


class CompileProgress:
    """Calls a logger during a compilation: first with 0, then only ever more, last with the total.

    Args:
        logger: called with (progress, total); what it raises ends the compilation. If the
            compilation fails, its method ``close`` is called where it has one. None logs every
            tenth of 100 at level DEBUG.
        total: the progress of a compilation that is done.
    """

    def __init__(self, logger: Callable[[int, int], object] | None, total: int) -> None:
        self._logger = _log_tenths if logger is None else logger
        self._total = 100 if logger is None else total
        self._logged = -1

    def __call__(self, percent: float) -> None:
        """Logs the progress; the total only for 100 percent."""
        done = min(int(percent / 100 * self._total), self._total - (percent < 100))
        if done > self._logged:
            self._logged = done
            self._logger(done, self._total)

    def failed(self) -> None:
        """The compilation ends with an error."""
        close = getattr(self._logger, "close", None)
        if callable(close):
            close()


def _log_tenths(done: int, total: int) -> None:
    if done % _LOG_EVERY == 0:
        _LOG.debug("Graph compile progress: %d%%", done)


def between(progress: Percent, first: float, last: float) -> Percent:
    """A progress callback for one part of a whole.

    Args:
        progress: the callback of the whole, in percent.
        first: percentage of the whole when the part begins.
        last: percentage of the whole when it ends.

    Returns:
        The callback of the part, in percent of the part.
    """
    return lambda percent: progress(first + (last - first) * min(percent, 100.0) / 100)


def progress_of(values: Mapping[str, Any]) -> CompileProgress:
    """The progress of a compilation with a strategy's options.

    Raises:
        OptionError: ``PADDLE_IPU_PROGRESS_BAR`` is none of its values.
    """
    logger = values["compilation_progress_logger"]
    if logger is None:
        logger = _bar_wanted(os.environ.get(BAR_OPTION, "auto"))
    return CompileProgress(logger, int(values["compilation_progress_total"]))


def _bar_wanted(wanted: str) -> CompileBar | None:
    if wanted not in ("auto", "true", "false"):
        raise OptionError(
            f"{BAR_OPTION} is {wanted!r}; it takes 'true', 'false', or 'auto' for a bar on a "
            f"terminal or in a notebook where compiling takes longer than {_PATIENCE:.0f} s"
        )
    if wanted == "true":
        return CompileBar()
    is_followed = sys.stderr.isatty() or in_notebook()
    return CompileBar(patience=_PATIENCE) if wanted == "auto" and is_followed else None


class CompileBar:
    """A bar with the elapsed time, for ``compilation_progress_logger``.

    On a terminal and in a notebook it is redrawn while the compilation goes on; elsewhere one line
    stands at the end: ``[####...####] 100% Compilation Finished [Elapsed: 00:00:28.8]``.

    Args:
        file: where it is written; by default the cell's output in a notebook, else standard error.
        patience: seconds before it appears; a compilation that is done by then shows nothing.
    """

    def __init__(self, file: TextIO | None = None, patience: float = 0.0) -> None:
        self._file = file
        self._patience = patience
        self._begun = 0.0
        self._share = 0.0
        self._line: ProgressLine | None = None
        self._ended = threading.Event()
        self._redrawing: threading.Thread | None = None

    def __call__(self, done: int, total: int) -> None:
        if done == 0:
            self._begin()
        self._share = done / total
        if done >= total:
            self._stop()
            if time.perf_counter() - self._begun >= self._patience:
                self._draw("Compilation Finished", end="\n")

    def close(self) -> None:
        """Ends a bar whose compilation failed; what was drawn stays."""
        drawn = self._redrawing is not None
        self._stop()
        if drawn and time.perf_counter() - self._begun >= self._patience:
            self._draw("Compilation Failed", end="\n")

    def _begin(self) -> None:
        self._stop()
        self._begun, self._share = time.perf_counter(), 0.0
        self._ended = threading.Event()
        self._line = ProgressLine() if self._file is None and in_notebook() else None
        if self._line is not None or self._stream.isatty():
            arguments = (self._ended,)
            self._redrawing = threading.Thread(target=self._redraw, args=arguments, daemon=True)
            self._redrawing.start()

    def _stop(self) -> None:
        self._ended.set()
        if self._redrawing is not None:
            self._redrawing.join()
            self._redrawing = None

    def _redraw(self, ended: threading.Event) -> None:
        waiting = self._patience
        while not ended.wait(waiting):
            self._draw()
            waiting = _REDRAW

    @property
    def _stream(self) -> TextIO:
        return sys.stderr if self._file is None else self._file

    def _draw(self, state: str = "", end: str = "") -> None:
        beside = f"{state} {self._elapsed()}".strip()
        text = f"{self._bar()} {beside}"
        if self._line is not None:
            self._line.show(self._share, beside, text)
            return
        stream = self._stream
        # On a terminal it goes over what was drawn before.
        stream.write(f"\r{text}{end}" if stream.isatty() else f"{text}{end}")
        stream.flush()

    def _bar(self) -> str:
        filled = int(self._share * _WIDTH)
        return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._share:>4.0%}"

    def _elapsed(self) -> str:
        minutes, seconds = divmod(time.perf_counter() - self._begun, 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"[Elapsed: {hours:02d}:{minutes:02d}:{seconds:04.1f}]"

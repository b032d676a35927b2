"""A folder with every form of a report; nothing half-written stays where writing fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paddle_ipu.cost_model.report.as_json import report_as_json
from paddle_ipu.cost_model.report.contents import Report
from paddle_ipu.cost_model.report.page import page
from paddle_ipu.cost_model.report.terminal import printable, summary
from paddle_ipu.cost_model.report.trace import trace_as_json
from paddle_ipu.errors import ReportError

PAGE, JSON, TRACE, SUMMARY = "report.html", "report.json", "trace.json", "summary.txt"


def text_of(report: Report) -> str:
    """The summary for a terminal."""
    told = report.advice, report.insights, report.interval, report.serving
    return printable(summary(report.prediction, *told))


def page_of(report: Report) -> str:
    """The HTML page."""
    return page(report_as_json(report), text_of(report))


def json_of(report: Report) -> str:
    """The report as JSON text."""
    return json.dumps(report_as_json(report), indent=1, allow_nan=False) + "\n"


def trace_of(report: Report) -> str:
    """The trace as JSON text."""
    return trace_text(
        trace_as_json(report.prediction, report.timeline, report.operators, report.measured_trace)
    )


def trace_text(trace: dict[str, Any]) -> str:
    """A trace as JSON text."""
    return json.dumps(trace, separators=(",", ":"), allow_nan=False) + "\n"


FORMS: dict[str, Callable[[Report], str]] = {
    PAGE: page_of, JSON: json_of, TRACE: trace_of, SUMMARY: lambda report: text_of(report) + "\n",
}  # fmt: skip


def write_directory(report: Report, folder: str | Path) -> Path:
    """Writes every form of a report into a folder, which is made where it is not there.

    Raises:
        ReportError: the folder cannot be made or written to.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from error
    for name, form in FORMS.items():
        write_form(path / name, form(report))
    return path


def write_form(path: Path, text: str) -> None:
    """Writes one file, which appears whole or not at all.

    Raises:
        ReportError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory")
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> ReportError:
    return ReportError(
        f"a report cannot be written to {path}: {error.strerror or error}. Name a folder that this "
        "process may write to"
    )

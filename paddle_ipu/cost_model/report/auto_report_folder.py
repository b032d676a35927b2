"""The folder that Poplar's autoReport settings ask for, with a session's report in it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from paddle_ipu.cost_model.report.auto_report import AutoReport
from paddle_ipu.cost_model.report.contents import Report
from paddle_ipu.cost_model.report.directory import FORMS, write_directory

_LOG = logging.getLogger("paddle_ipu")

_UNSAFE = re.compile(r"[^\w.\-]+")

_used: set[Path] = set()
"""Folders that this process has written to: a second session of a name takes another."""


def write_auto_report(settings: AutoReport, session: str, report: Report) -> Path:
    """Writes a session's report into a folder of its name; returns the folder.

    Raises:
        ReportError: it cannot be written.
    """
    # A name is no path.
    name = _UNSAFE.sub("_", session).lstrip(".") or "session"
    folder, number = settings.directory / name, 1
    while folder.absolute() in _used:
        number += 1
        folder = settings.directory / f"{name}-{number}"
    write_directory(report, folder)
    _used.add(folder.absolute())
    _LOG.info(
        "%s: %s; the IPU Model has no %s",
        folder, ", ".join(FORMS), ", ".join(settings.not_written),
    )  # fmt: skip
    return folder

"""The memory check of a program that is about to be compiled, and its refusal with a report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from paddle_ipu.cost_model.choice import Choice
from paddle_ipu.cost_model.memory_check import check_memory
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.report.auto_report import allows_out_of_memory, auto_report
from paddle_ipu.cost_model.report.auto_report_folder import write_auto_report
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.directory import text_of
from paddle_ipu.errors import OutOfMemoryException

_LOG = logging.getLogger("paddle_ipu")


def check_before_compiling(
    choice: Choice,
    read: Callable[[], Program],
    engine_options: Mapping[str, Any],
    environment: Mapping[str, str],
    name: str = "",
) -> None:
    """Refuses a program that the machine somebody named cannot hold.

    Where nobody named one, a line of the log says what it would lack.

    Args:
        read: gives the program for the predictor.
        engine_options: may allow it all the same, and ask for a report in a folder.
        name: of the report; by what the program does where it is "".

    Raises:
        OutOfMemoryException: by the IPU Model's prediction it does not fit. It has the report.
    """
    program = read()
    try:
        line = check_memory(
            program, choice, allow=allows_out_of_memory(engine_options, environment)
        )
    except OutOfMemoryException as error:
        kind = "training" if program.settings.training else "inference"
        report = make_report(program, choice.machine, name=name or kind)
        error.summary = text_of(report)
        settings = auto_report(engine_options, environment)
        if settings is not None:
            error.profile_path = str(write_auto_report(settings, name or kind, report))
        raise
    if line:
        _LOG.warning("%s", line)

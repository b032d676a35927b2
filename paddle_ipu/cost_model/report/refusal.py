"""The memory check of a program that is about to be compiled, its refusal with a report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from paddle_ipu.cost_model.choice import Choice
from paddle_ipu.cost_model.report.auto_report import (
    allows_out_of_memory,
    auto_report,
    write_auto_report,
)
from paddle_ipu.errors import OutOfMemoryException

if TYPE_CHECKING:
    from paddle_ipu.cost_model.program import Program

_LOG = logging.getLogger("paddle_ipu")

_SMALL = 0.02
"""Share of an IPU's memory below which nobody has to look where a program's tensors are."""


def check_before_compiling(
    graph: ir.Graph,
    choice: Choice,
    read: Callable[[], Program],
    engine_options: Mapping[str, Any],
    environment: Mapping[str, str],
    name: str = "",
) -> None:
    """Refuses a program that the machine somebody named cannot hold.

    Where nobody named one, a line of the log says what it would lack.

    Args:
        graph: PopART's; one of few bytes is not looked at.
        read: gives the program for the predictor.
        engine_options: may allow it all the same, and ask for a report in a folder.
        name: of the report; by what the program does where it is "".

    Raises:
        OutOfMemoryException: by the IPU Model's prediction it does not fit. It has the report.
    """
    if _bytes_of(graph) < _SMALL * choice.machine.processor.memory:
        return
    # Most programs do without the import.
    from paddle_ipu.cost_model.memory_check import check_memory
    from paddle_ipu.cost_model.report.contents import make_report
    from paddle_ipu.cost_model.report.directory import text_of

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


def _bytes_of(graph: ir.Graph) -> int:
    """More than the bytes of a graph's weights and of everything its operators make."""
    values = [*graph.initializers.values(), *(v for node in graph for v in node.outputs)]
    elements = 0
    for value in values:
        if value.shape is not None:
            elements += prod(dim if isinstance(dim, int) else 1 for dim in value.shape)
    return 4 * elements

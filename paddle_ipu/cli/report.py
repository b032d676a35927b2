"""``paddle-ipu report``: will a program fit on a machine, how fast will it be, and why."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from paddle_ipu.cli.compared import print_comparison
from paddle_ipu.cli.numbers import above_zero, positive
from paddle_ipu.cli.predicted import add_predicted_target, predicted_target
from paddle_ipu.compiler.predictions import report_of
from paddle_ipu.cost_model.report.contents import Report
from paddle_ipu.cost_model.report.directory import (
    FORMS,
    JSON,
    PAGE,
    TRACE,
    write_directory,
    write_form,
)
from paddle_ipu.cost_model.report.measured_layers import measured_layers_text
from paddle_ipu.errors import OptionError, ReportError

NAME = "report"
SUMMARY = "predict memory and speed of a program on an IPU machine"
EXIT_CODES = """\
A script is run until it compiles for the IPU, and its program and strategy are predicted; nothing
is compiled, unless --measure has it run. A model is a file or prefix that
paddle.static.load_inference_model loads, predicted as inference on one IPU.

  will my script's program fit?          paddle-ipu report train.py
  how fast would a Bow Pod be?           paddle-ipu report --machine bow-pod16 train.py --epochs 3
  without initialising the weights       paddle-ipu report --skip-startup train.py
  and measured here, beside it?          paddle-ipu report --measure 5 train.py
  how long will requests wait?           paddle-ipu report --requests-per-second 500 model.pdmodel
  both on one timeline                   paddle-ipu report --measure 5 --trace trace.json train.py
  a page to look at                      paddle-ipu report --html report.html train.py
  a timeline, for ui.perfetto.dev        paddle-ipu report --trace trace.json train.py
  for other programs                     paddle-ipu report --json report.json train.py
  all of them in a folder                paddle-ipu report --directory report train.py
  what a change did, by layer            paddle-ipu report --compare before.json after.json

Machines: paddle-ipu report --machines lists them. The strategy's option ipu_machine, or
POPLAR_TARGET_OPTIONS='{"machine": "pod16"}', names one too.

exit codes:
  0  the program fits; or the reports are compared
  1  it does not; the report says what it lacks and what would help
  2  wrong arguments, or a missing file, or one that cannot be written
  3  the script failed or compiled nothing, or the model or a report cannot be read
"""
_FILES = ((PAGE, "html"), (JSON, "json"), (TRACE, "trace"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_predicted_target(parser)
    add = parser.add_argument
    add("--html", metavar="FILE", help="write one HTML page that needs no other file; - for stdout")
    add("--json", metavar="FILE", help="write everything as JSON; - for stdout")
    add(
        "--trace", metavar="FILE",
        help="write the timeline, and what --measure measured, for Perfetto; - for stdout",
    )  # fmt: skip
    add("--directory", metavar="FOLDER", help=f"write {', '.join(FORMS)} into a folder")
    add(
        "--measure", type=positive, metavar="RUNS",
        help="run the script on until so many runs of its program were measured on this machine",
    )  # fmt: skip
    add(
        "--requests-per-second", type=above_zero, metavar="N",
        help="say how long requests of one row wait that come at this rate; of inference programs",
    )  # fmt: skip
    add(
        "--compare", nargs=2, metavar=("FILE", "FILE"),
        help="tell what grew and what shrank from one report to another: files of --json, or "
        "folders of --directory; takes no script or model",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; returns the exit code."""
    printed = [f"--{name}" for _, name in _FILES if getattr(arguments, name) == "-"]
    if len(printed) > 1:
        print(f"{' and '.join(printed)}: only one of them can go to stdout", file=sys.stderr)
        return 2
    if arguments.compare:
        return print_comparison(arguments)
    target = predicted_target(arguments)
    if isinstance(target, int):
        return target
    try:
        name, requests = Path(arguments.target).name, arguments.requests_per_second
        report = report_of(target, name, requests)
    except OptionError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    code = 0 if report.fits else 1
    if not _written(report.contents, arguments):
        return 2
    for form, name in _FILES:
        if getattr(arguments, name) == "-":
            print(FORMS[form](report.contents), end="")
            return code
    print(report)
    if target.measured is not None:
        print(f"\n{target.measured}")
        layers = measured_layers_text(report.contents)
        if layers:
            print(f"\n{layers}")
    return code


def _written(report: Report, arguments: argparse.Namespace) -> bool:
    """Writes the files that were asked for; False after a message where one cannot be written."""
    for form, name in (*_FILES, ("", "directory")):
        target = getattr(arguments, name)
        if target is None or (form and target == "-"):
            continue
        try:
            if form:
                write_form(Path(target), FORMS[form](report))
            else:
                write_directory(report, target)
        except ReportError as error:
            print(f"--{name}: {error}", file=sys.stderr)
            return False
    return True

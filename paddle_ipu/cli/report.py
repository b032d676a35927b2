"""``paddle-ipu report``: will a program fit on a machine, how fast will it be, and why."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from paddle_ipu.cli.predicted import add_target, predicted_target
from paddle_ipu.model.advice import advise
from paddle_ipu.model.prediction import predict
from paddle_ipu.model.report.as_json import prediction_as_json
from paddle_ipu.model.report.terminal import summary

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
  for other programs                     paddle-ipu report --json report.json train.py

Machines: paddle-ipu report --machines lists them. The strategy's option ipu_machine, or
POPLAR_TARGET_OPTIONS='{"machine": "pod16"}', names one too.

exit codes:
  0  the program fits
  1  it does not; the report says what it lacks and what would help
  2  wrong arguments, or a file that cannot be written
  3  the script failed or compiled nothing, or the model cannot be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_target(parser)
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON; - for stdout")
    parser.add_argument(
        "--measure", type=int, metavar="RUNS",
        help="run the script on until so many runs of its program were measured on this machine",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; returns the exit code."""
    found = predicted_target(arguments)
    if isinstance(found, int):
        return found
    prediction = predict(found.program, found.machine)
    advice = []
    if not prediction.memory.fits:
        advice = advise(found.program, found.machine, prediction.memory)
    if arguments.json:
        report = prediction_as_json(prediction, advice)
        if found.measured is not None:
            report["measured"] = found.measured.as_json()
        text = json.dumps(report, indent=1)
        if arguments.json == "-":
            print(text)
            return 0 if prediction.memory.fits else 1
        try:
            Path(arguments.json).write_text(text + "\n")
        except OSError as error:
            print(f"--json: {error}", file=sys.stderr)
            return 2
    print(summary(prediction, advice))
    if found.measured is not None:
        print(f"\n{found.measured}")
    return 0 if prediction.memory.fits else 1

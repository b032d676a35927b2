"""``paddle-ipu plan``: the fastest strategy for a program on a machine that fits its memory."""

from __future__ import annotations

import argparse
import contextlib
import sys

from paddle_ipu.cli.json_output import add_json, print_json
from paddle_ipu.cli.numbers import above_zero, positive
from paddle_ipu.cli.predicted import add_predicted_target, predicted_target
from paddle_ipu.cli.targets import WRONG_ARGUMENTS
from paddle_ipu.cli.zoo import add_model, model_target, print_models
from paddle_ipu.compiler.prediction_target import PredictionTarget
from paddle_ipu.compiler.predictions import plan_of, pod_plans_of
from paddle_ipu.cost_model.plan import MOST
from paddle_ipu.errors import OptionError

NAME = "plan"
SUMMARY = "propose a strategy that fits an IPU machine and is fast on it"
EXIT_CODES = """\
A script is run until it compiles for the IPU; strategies for its program are predicted, with the
same rows in a weight update. Nothing is compiled. What is shown was lowered as compile does it: put
the strategy into the script, and it compiles.

Without a script, --model builds the program of a well-known model: its training, or with
--inference what it does for a row. No weight is given a value.

  for the machine that the strategy names   paddle-ipu plan train.py
  for another, with another batch           paddle-ipu plan --machine pod64 --batch 4096 train.py
  for a model of --models                   paddle-ipu plan --machine pod16 --model gpt2 --fp16
  the smallest Pod for 5000 rows a second   paddle-ipu plan --rate 5000 train.py

exit codes:
  0  there is a strategy that fits, with --rate on a Pod that reaches it
  1  none that was tried does; the closest is shown
  2  wrong arguments, or a missing file
  3  the script failed or compiled nothing, or the model cannot be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_predicted_target(parser)
    add_model(parser)
    add = parser.add_argument
    add(
        "--batch",
        type=positive,
        default=0,
        metavar="N",
        help="rows of a weight update; in inference rows at once",
    )
    add(
        "--candidates", type=positive, default=MOST, metavar="N",
        help=f"strategies to try at most (default {MOST})",
    )  # fmt: skip
    add(
        "--rate", type=above_zero, metavar="ROWS",
        help="find the smallest Pod for so many rows a second, and what the next size gives; "
        "--machine says of which IPUs, as bow-pod4",
    )  # fmt: skip
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the proposal; returns the exit code."""
    if arguments.models:
        return print_models(json=arguments.json)
    target = model_target(arguments)
    if target is None:
        target = predicted_target(arguments)
    if isinstance(target, int):
        return target
    if arguments.rate is not None:
        return _print_pods(target, arguments)
    with contextlib.redirect_stdout(sys.stderr):
        plan = plan_of(target, batch=arguments.batch, candidates=arguments.candidates)
    if arguments.json:
        print_json(plan.to_dict())
    else:
        print(plan)
    return 0 if plan.proposals else 1


def _print_pods(target: PredictionTarget, arguments: argparse.Namespace) -> int:
    """Prints the smallest Pod for a rate; returns the exit code."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            pods = pod_plans_of(
                target, arguments.rate, batch=arguments.batch, candidates=arguments.candidates
            )
    except OptionError as error:
        print(f"--rate: {error}", file=sys.stderr)
        return WRONG_ARGUMENTS
    if arguments.json:
        print_json(pods.to_dict())
    else:
        print(pods)
    return 0 if pods.smallest is not None else 1

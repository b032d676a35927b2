"""``paddle-ipu verify``: why a loss diverges, and how far a program is from the CPU or half."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

import numpy as np

import paddle_ipu
from paddle_ipu.cli.numbers import not_negative, positive
from paddle_ipu.cli.recorded_runs import VerifyOptions, verify_script
from paddle_ipu.cli.scripts import attempt
from paddle_ipu.cli.targets import ExistingFile, add_target, is_script
from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend.saved_model import prefix_of
from paddle_ipu.runtime.feed_words import listed
from paddle_ipu.verification.report import VerificationReport

NAME = "verify"
SUMMARY = "tell why a loss diverges: compare a script's runs, operator by operator"
EXIT_CODES = """\
A script is run up to the runs that are wanted; these run again on both sides, from the weights and
with the feeds that they had, and the script ends. Its program may be compiled for the IPU or not. A
model is a file or prefix that paddle.static.load_inference_model loads; feed it with --feed.

  is it the IPU?               paddle-ipu verify train.py
  the loss becomes NaN: why?   paddle-ipu verify --until-nan train.py --epochs 3
  the same, ten runs before    paddle-ipu verify --until-nan --steps 10 train.py
  is it half precision?        paddle-ipu verify --until-nan --against fp32 train.py
  would half do?               paddle-ipu verify --against fp16 --html drift.html train.py

Where both sides agree a few lines say so, else each table shows its worst rows; --all prints every
row. Drift is the norm of the error over the norm of the tensor, "of large" the largest error as a
share of the tensor's largest value; "> half", "to 0" and "subnorm" are shares of values that
float16 turns into infinity, into 0, or holds with fewer bits, for results and for their gradients
times the loss scale.

exit codes:
  0  both sides agree, or differ by rounding only, and fetches, gradients and weights are finite;
     the first line says which of the two, with the drift
  1  they differ, or something is NaN or infinite, be it on both sides; the first line says which,
     the report what and where
  2  wrong arguments, or a missing file
  3  the script failed or made no such run, or the model cannot be read or compared
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_target(parser)
    add = parser.add_argument
    add(
        "--against", choices=("cpu", "fp32", "fp16"), default="cpu",
        help="compare with Paddle's CPU kernels (default), with the same program in float32, or "
        "with what it would be in half",
    )  # fmt: skip
    add(
        "--until-nan", action="store_true",
        help="let the script run until a fetch is NaN or infinite, and verify that run",
    )  # fmt: skip
    add(
        "--after", type=not_negative, default=0, metavar="N",
        help="leave out the first N runs of the script (default 0)",
    )  # fmt: skip
    add(
        "--steps",
        type=positive,
        metavar="N",
        help="verify N runs in a row (default 1); with --until-nan the last N (default 4)",
    )
    add(
        "--feed", metavar="FILE", action=ExistingFile,
        help="a .npz file with an array for each feed of a model",
    )  # fmt: skip
    add("--html", metavar="FILE", help="write the page with every operator, to browse")
    add("--json", action="store_true", help="print one JSON object")
    add(
        "--all",
        action="store_true",
        help="print every tensor and operator, also those that agree",
    )
    within = (
        "against cpu: what is within it agrees, what is beyond is rounding or differs (default {})"
    )
    add("--rtol", type=float, default=1e-5, help=within.format("1e-5"))
    add("--atol", type=float, default=1e-6, help=within.format("1e-6"))
    add(
        "--max-drift", type=float, default=0.02,
        help="against fp32 or fp16: how far a tensor may be off, as a share of its norm "
        "(default 0.02)",
    )  # fmt: skip
    add("--without-dropout", action="store_true", help="switch dropout off on both sides")


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; returns the exit code."""
    target = arguments.target
    of_script = is_script(target)
    wrong = _wrong(arguments, of_script)
    if wrong:
        print(wrong, file=sys.stderr)
        return 2
    options = VerifyOptions(
        after=arguments.after,
        steps=arguments.steps or (4 if arguments.until_nan else 1),
        until_nan=arguments.until_nan,
        against=arguments.against,
        rtol=arguments.rtol,
        atol=arguments.atol,
        max_drift=arguments.max_drift,
        without_dropout=arguments.without_dropout,
        every_operator=bool(arguments.all or arguments.html),
    )
    report = attempt(
        lambda: (
            verify_script(target, arguments.arguments, options)
            if of_script
            else verify_model(target, arguments.feed, options)
        ),
        target,
        "before the runs to verify",
        locate=False,
    )
    if isinstance(report, int):
        return report
    if arguments.json:
        print(json.dumps(_plain(report.to_dict()), allow_nan=False))
    else:
        print(report if arguments.all else report.summary())
    if arguments.html:
        report.save_html(arguments.html)
        print(f"wrote {arguments.html}", file=sys.stderr)
    return 0 if report.ok and report.finite else 1


def _wrong(arguments: argparse.Namespace, of_script: bool) -> str:
    """Which arguments do not go with the target, "" where all do."""
    if of_script:
        return "--feed is for models; a script feeds itself" if arguments.feed else ""
    if arguments.arguments:
        return f"a model takes no arguments, got {arguments.arguments}"
    if arguments.until_nan or arguments.after or arguments.steps:
        return "--until-nan, --after and --steps are for scripts"
    return ""


def verify_model(target: str, feed: str | None, options: VerifyOptions) -> VerificationReport:
    """The report about a saved model.

    Args:
        target: a prefix, one of its files, or a folder.
        feed: the ``.npz`` file with an array for each feed; None for a model without feeds.
        options: how it is verified; which runs are not looked at.

    Raises:
        ModelFileError: it is missing or damaged.
        NotSupported: feeds are missing, or Paddle cannot run it.
    """
    import paddle

    paddle_ipu.activate()
    paddle.enable_static()
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, names, fetches = paddle.static.load_inference_model(
            str(prefix_of(target)), executor
        )
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    if feed is not None:
        with np.load(feed) as file:
            arrays = {name: file[name] for name in file.files}
    missing = [name for name in names if name not in arrays]
    if missing:
        raise NotSupported(
            f"{listed(missing, 'feed', 'is missing', 'are missing')}: the model is fed "
            f"{', '.join(map(repr, names))}. Write an array for each with "
            f"numpy.savez('feed.npz', **{{{names[0]!r}: ...}}), and give --feed feed.npz."
        )
    return paddle_ipu.verify(
        program, {name: arrays[name] for name in names}, fetches, scope=scope,
        against=options.against, rtol=options.rtol, atol=options.atol, max_drift=options.max_drift,
        without_dropout=options.without_dropout, every_operator=options.every_operator,
        raise_on_mismatch=False,
    )  # fmt: skip


def _plain(value: object) -> object:
    """The value with NaN and infinity as text: JSON has no numbers for them."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value

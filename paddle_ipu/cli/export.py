"""``paddle-ipu export``: a saved Paddle model as an ONNX file."""

from __future__ import annotations

import argparse
import contextlib
import sys

from paddle_ipu.cli.scripts import UNREADABLE
from paddle_ipu.cli.targets import ExistingModel
from paddle_ipu.errors import ModelFileError, PaddleIpuError, popart_exception
from paddle_ipu.frontend.saved_model import prefix_of

NAME = "export"
SUMMARY = "write a saved Paddle model as ONNX, for paddle_ipu.popart or any ONNX runtime"
EXIT_CODES = """\
examples:
  paddle-ipu export models/resnet resnet.onnx --batch-size 8
  paddle-ipu export models/bert bert.onnx --standard-only

exit codes:
  0  the file is written
  1  the model cannot be exported: an operator, or a size that is not known
  2  wrong arguments, or a missing file
  3  the model cannot be read, or the file cannot be written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        action=ExistingModel,
        help="a saved model's path without its suffix, or one of its files",
    )
    parser.add_argument("onnx", metavar="FILE.onnx", help="what to write")
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="rows of inputs whose batch is open; 1"
    )
    parser.add_argument(
        "--standard-only",
        action="store_true",
        help="ONNX's own operators and the Paddle model's dtypes, for other runtimes",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the file and prints what is in it; returns the exit code."""
    from paddle_ipu.compiler.onnx_export import export

    try:
        with contextlib.redirect_stdout(sys.stderr):
            report = export(
                str(prefix_of(arguments.model)),
                arguments.onnx,
                batch_size=arguments.batch_size,
                standard_only=arguments.standard_only,
            )
    except ModelFileError as error:
        print(f"paddle-ipu export: {error}", file=sys.stderr)
        return UNREADABLE
    except (PaddleIpuError, popart_exception) as error:
        print(f"paddle-ipu export: {error}", file=sys.stderr)
        return 1
    print(report)
    return 0

"""What ``report`` and ``plan`` share: a target's program and machine for the predictor."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paddle_ipu
from paddle_ipu.cli.check import line_of
from paddle_ipu.cli.measured_runs import measured_script
from paddle_ipu.cli.scripts import run_script, taking_over
from paddle_ipu.compiler.machine_choice import ipus_of
from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.compiler.source import Source
from paddle_ipu.cost_model.choice import choose_machine
from paddle_ipu.cost_model.machines import MACHINES, Machine
from paddle_ipu.cost_model.program import Program
from paddle_ipu.errors import PaddleIpuError, popart_exception
from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.passes.pass_base import Pass
from paddle_ipu.runtime.measured import Measurement

UNREADABLE = 3


@dataclass(frozen=True)
class Target:
    """A program with the machine it is predicted for; `measured` says how its runs went here.

    `source` is what it was lowered from, `machine_name` what ``ipu_machine`` takes.
    """

    program: Program
    machine: Machine
    source: Source
    machine_name: str
    measured: Measurement | None = None


class _Found(BaseException):
    """Ends a script where its program is known; no handler for errors of its own catches it."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the target, its arguments and the machine."""
    add = parser.add_argument
    add("target", metavar="SCRIPT|MODEL", nargs="?", help="a .py file, or a saved model")
    add("arguments", nargs=argparse.REMAINDER, help="what the script is given as its arguments")
    add(
        "--machine", default="", metavar="NAME",
        help="the machine, whatever the strategy says; ipu:FILE for one that a JSON file describes",
    )  # fmt: skip
    add("--machines", action="store_true", help="list the machines and end")
    add(
        "--skip-startup", action="store_true",
        help="do not run programs without fetches: weights are not needed, and may be large",
    )  # fmt: skip
    add("--fp16", action="store_true", help="a model in half precision")
    add("--rows", type=int, metavar="N", help="rows of a model's micro-batch; 1")


def predicted_target(arguments: argparse.Namespace) -> Target | int:
    """The program and machine that the arguments name, or an exit code after a message."""
    if arguments.machines:
        for name, machine in MACHINES.items():
            processor = machine.processor
            print(
                f"{name:<11} {machine.ipus:>3} x {processor.name:<5}  {processor.tiles} tiles at "
                f"{processor.clock / 1e9:.3g} GHz, {processor.memory / 1e6:.0f} MB each"
            )
        return 0
    if arguments.target is None:
        print("name a script or a saved model; --help tells more", file=sys.stderr)
        return 2
    is_script = arguments.target.endswith(".py")
    why = _contradiction(arguments, is_script)
    if why:
        print(why, file=sys.stderr)
        return 2
    steps = getattr(arguments, "measure", None)
    if steps is not None:
        why = _unmeasurable(arguments, steps, is_script)
        if why:
            print(f"--measure: {why}", file=sys.stderr)
            return 2
    find = _of_model
    if is_script:
        find = _of_script if steps is None else _of_measured_script
    try:
        # What a script or Paddle prints does not belong to the report.
        with contextlib.redirect_stdout(sys.stderr):
            found = find(arguments)
    except (PaddleIpuError, popart_exception) as error:
        print(f"{arguments.target}: {error}", file=sys.stderr)
        return UNREADABLE
    except (Exception, SystemExit) as error:
        place = line_of(error, arguments.target)
        when = "before it compiled a program" if steps is None else "while it was measured"
        print(
            f"{arguments.target} failed{place} {when}: {type(error).__name__}: {error}",
            file=sys.stderr,
        )
        return UNREADABLE
    if found is None:
        print(f"{arguments.target} compiled no program with IpuCompiledProgram.", file=sys.stderr)
        return UNREADABLE
    return found


def _contradiction(arguments: argparse.Namespace, is_script: bool) -> str:
    """Which arguments do not go with the target, "" where all do."""
    rows = arguments.rows
    if is_script and (arguments.fp16 or rows is not None):
        given = "--fp16" if arguments.fp16 else "--rows"
        return f"{given} is for a model: a script's strategy says this itself"
    if not is_script and arguments.arguments:
        return f"a model takes no arguments, got {arguments.arguments}; options stand before it"
    if not is_script and arguments.skip_startup:
        return "--skip-startup is for a script: a model has no startup program"
    if rows is not None and rows < 1:
        return f"--rows takes a number from 1 on, got {rows}"
    return ""


def _target(
    arguments: argparse.Namespace,
    program: Any,
    strategy: Any,
    feeds: Any,
    fetches: Any,
    first_passes: Sequence[Pass] | None = None,
) -> Target:
    values = strategy._ipu_strategy.snapshot()
    tiles = int(values["tiles_per_ipu"]) if "tiles_per_ipu" in values.explicit else None
    name = arguments.machine or str(values["ipu_machine"])
    choice = choose_machine(name, ipus_of(values), tiles, os.environ)
    predicted = predicted_program(program, strategy, feeds, fetches, first_passes)
    return Target(predicted, choice.machine, Source(program, values, feeds, fetches), choice.name)


def _of_script(arguments: argparse.Namespace) -> Target | None:
    import paddle

    paddle_ipu.activate()

    def compiling(_stock: Callable[..., Any]) -> Callable[..., Any]:
        def compile_(self: Any, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> Any:
            raise _Found(
                _target(arguments, self._program, self._ipu_strategy, feed_list, fetch_list)
            )

        return compile_

    def running(stock: Callable[..., Any]) -> Callable[..., Any]:
        def run_(self: Any, program: Any = None, feed: Any = None, fetch_list: Any = None,
                 *args: Any, **keywords: Any) -> Any:  # fmt: skip
            if arguments.skip_startup and not fetch_list:
                return []
            return stock(self, program, feed, fetch_list, *args, **keywords)

        return run_

    paddle.enable_static()
    try:
        with taking_over(compiling, running):
            run_script(arguments.target, arguments.arguments)
    except _Found as found:
        return found.target
    return None


def _unmeasurable(arguments: argparse.Namespace, steps: int, is_script: bool) -> str:
    """Why a target's runs cannot be measured, "" where they can."""
    if steps < 1:
        return f"a number of runs from 1 on, got {steps}"
    if not is_script:
        return f"{arguments.target} is a model, which has no data; name a script that runs it"
    if arguments.skip_startup:
        return "the program is run, and needs the weights that --skip-startup leaves out"
    return ""


def _of_measured_script(arguments: argparse.Namespace) -> Target | None:
    paddle_ipu.activate()
    targets: list[Target] = []

    def found(program: Any, strategy: Any, feeds: Any, fetches: Any) -> None:
        targets.append(_target(arguments, program, strategy, feeds, fetches))

    measured = measured_script(arguments.target, arguments.arguments, arguments.measure, found)
    return replace(targets[0], measured=measured) if targets else None


def _of_model(arguments: argparse.Namespace) -> Target | None:
    import paddle

    from paddle_ipu.frontend import saved_model

    paddle_ipu.activate()
    path = Path(arguments.target)
    prefix = path.with_suffix("") if path.suffix in (".pdmodel", ".json") else path
    program = saved_model.read(saved_model.locate(prefix)).program()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=arguments.rows or 1)
    strategy.set_precision_config(enable_fp16=arguments.fp16)
    feeds = list(program.feed_names)
    fetches = [str(target.name) for target in program.fetch_targets]
    checked = (CheckMicroBatch("--rows", " and save the model again"),)
    return _target(arguments, program, strategy, feeds, fetches, checked)

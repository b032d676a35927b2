"""What ``report`` and ``plan`` share: a target's program and machine for the predictor."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import paddle_ipu
from paddle_ipu.cli.json_output import print_json
from paddle_ipu.cli.numbers import positive
from paddle_ipu.cli.scripts import (
    UNREADABLE,
    Compilation,
    Run,
    ScriptEnd,
    ScriptHooks,
    attempt,
    run_script,
)
from paddle_ipu.cli.targets import WRONG_ARGUMENTS, add_target, is_script
from paddle_ipu.compiler.prediction_target import (
    PredictionTarget,
    prediction_target,
    target_of_model,
)
from paddle_ipu.cost_model.machines import MACHINES
from paddle_ipu.errors import MeasurementError, OutOfMemoryException
from paddle_ipu.frontend.saved_model import saved_program
from paddle_ipu.runtime.measured import Measurement

if TYPE_CHECKING:
    from paddle_ipu.runtime.ipu_program import IpuProgram


def add_predicted_target(parser: argparse.ArgumentParser) -> None:
    """Adds the target, its arguments and the machine."""
    add_target(parser, optional=True)
    add = parser.add_argument
    add(
        "--machine", default="", metavar="NAME",
        help="the machine, whatever the strategy says; ipu:FILE for one that a JSON file describes",
    )  # fmt: skip
    add("--machines", action="store_true", help="list the machines and end")
    add(
        "--skip-startup", action="store_true",
        help="do not run programs without fetches: weights are not needed, and may be large",
    )  # fmt: skip
    add("--fp16", action="store_true", help="predict a model in half precision")
    add("--rows", type=positive, metavar="N", help="rows of a model's micro-batch (default 1)")


def predicted_target(arguments: argparse.Namespace) -> PredictionTarget | int:
    """The program and machine that the arguments name, or an exit code after a message."""
    if arguments.machines:
        return _print_machines(arguments.json)
    if arguments.target is None:
        print("name a script or a saved model; --help tells more", file=sys.stderr)
        return 2
    of_script = is_script(arguments.target)
    steps = getattr(arguments, "measure", None)
    why = _contradiction(arguments, of_script, is_measured=steps is not None)
    if why:
        print(why, file=sys.stderr)
        return 2
    hooks = _FirstCompiled(arguments, steps)
    when = "before it compiled a program" if steps is None else "while it was measured"
    target = attempt(
        lambda: _of_script(arguments, hooks) if of_script else _of_model(arguments),
        arguments.target,
        when,
    )
    if isinstance(target, int) and hooks.skipped:
        print(
            f"--skip-startup left out {hooks.skipped} run(s) without fetches, and with them the "
            "weights that a startup program makes. If those are what is missing, leave the flag "
            "out.",
            file=sys.stderr,
        )
    if target is None:
        print(
            f"{arguments.target} compiled no program with IpuCompiledProgram, and a prediction "
            "needs its strategy. Compile one: paddle.static.IpuCompiledProgram(program, "
            "ipu_strategy=strategy).compile(feeds, fetches). Of a dynamic-graph model, run a layer "
            "of paddle.jit.to_static with a strategy, or name what paddle.jit.save saved.",
            file=sys.stderr,
        )
        return UNREADABLE
    return target


def _print_machines(json: bool | str | None) -> int:
    """Prints the machines.

    Args:
        json: the option of that name: a switch of ``plan``, and a file of ``report``.
    """
    if json not in (None, False, True, "-"):
        print("--machines goes to stdout: give --json -", file=sys.stderr)
        return WRONG_ARGUMENTS
    if json:
        records = [
            {
                "name": name,
                "ipus": machine.ipus,
                "processor": machine.processor.name,
                "tiles": machine.processor.tiles,
                "clock_hz": machine.processor.clock,
                "memory_bytes": machine.processor.memory,
            }
            for name, machine in MACHINES.items()
        ]
        print_json({"machines": records})
        return 0
    for name, machine in MACHINES.items():
        processor = machine.processor
        print(
            f"{name:<11} {machine.ipus:>3} x {processor.name:<5}  {processor.tiles} tiles at "
            f"{processor.clock / 1e9:.3g} GHz, {processor.memory / 1e6:.0f} MB each"
        )
    return 0


def _contradiction(arguments: argparse.Namespace, of_script: bool, is_measured: bool) -> str:
    """Which arguments do not go together, "" where all do."""
    if of_script and (arguments.fp16 or arguments.rows is not None):
        option = "--fp16" if arguments.fp16 else "--rows"
        return f"{option} is for a model: a script's strategy says this itself"
    if not of_script and arguments.arguments:
        return f"a model takes no arguments, got {arguments.arguments}; options stand before it"
    if not of_script and arguments.skip_startup:
        return "--skip-startup is for a script: a model has no startup program"
    if is_measured and not of_script:
        return (
            f"--measure: {arguments.target} is a model, which has no data; name a script that "
            "runs it"
        )
    if is_measured and arguments.skip_startup:
        return "--measure: the program is run, and needs the weights that --skip-startup leaves out"
    return ""


class _FirstCompiled(ScriptHooks):
    """Predicts the first program that a script compiles, and ends the script.

    With ``--measure`` the script goes on until so many runs of the program are measured. Its first
    run does more than the others and is not measured.

    Attributes:
        target: that program; None while there was none.
        compiled: the same, where its runs are measured.
        measuring: closed when no more runs are measured.
        measurement: None before the second run.
        runs: how many of the program there were.
        skipped: how many runs of others ``--skip-startup`` left out.
    """

    def __init__(self, arguments: argparse.Namespace, steps: int | None) -> None:
        self._arguments = arguments
        self._steps = steps
        self.target: PredictionTarget | None = None
        self.compiled: IpuProgram | None = None
        self.measuring = contextlib.ExitStack()
        self.measurement: Measurement | None = None
        self.runs = 0
        self.skipped = 0

    def compile(self, compilation: Compilation) -> IpuProgram:
        if self.target is not None:
            return compilation.proceed()
        source = compilation.source
        self.target = prediction_target(
            source._program,
            source._ipu_strategy,
            compilation.feeds,
            compilation.fetches,
            machine=self._arguments.machine,
        )
        if self._steps is None:
            raise ScriptEnd
        try:
            self.compiled = compilation.proceed()
        except OutOfMemoryException as error:
            raise ScriptEnd from error
        return self.compiled

    def run(self, run: Run) -> Any:
        if self._arguments.skip_startup and not run.fetches:
            self.skipped += 1
            return []
        if self._steps is None or self.compiled is None or run.program is not self.compiled:
            return run.proceed()
        if self.runs == 1:
            self.measurement = self.measuring.enter_context(self.compiled.measure())
        results = run.proceed()
        self.runs += 1
        if self.runs > self._steps:
            raise ScriptEnd
        return results


def _of_script(arguments: argparse.Namespace, hooks: _FirstCompiled) -> PredictionTarget | None:
    """The first program that a script compiles.

    Args:
        arguments: name the script.
        hooks: find the program while the script runs.

    Raises:
        MeasurementError: its runs are to be measured, and it made no second one.
    """
    paddle_ipu.activate()
    steps = getattr(arguments, "measure", None)
    with hooks.measuring:
        try:
            run_script(arguments.target, arguments.arguments, hooks)
        except SystemExit as error:
            if steps is None or error.code:
                raise
    if hooks.compiled is not None and hooks.measurement is None:
        raise MeasurementError(
            f"the script ran its program {hooks.runs} time(s), and the first run is not measured: "
            "have it run at least twice."
        )
    return None if hooks.target is None else replace(hooks.target, measured=hooks.measurement)


def _of_model(arguments: argparse.Namespace) -> PredictionTarget | None:
    import paddle

    paddle_ipu.activate()
    program = saved_program(arguments.target)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=arguments.rows or 1)
    strategy.set_precision_config(enable_fp16=arguments.fp16)
    return target_of_model(program, strategy, machine=arguments.machine, rows_option="--rows")

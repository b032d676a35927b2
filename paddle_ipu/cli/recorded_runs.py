"""Runs a script up to the runs that are to be verified, and verifies those.

The script's own runs compute as usual, on the device or on Paddle's CPU executor. Weights are
copied before the first run that is verified, feeds at each. Then the script ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

import paddle_ipu
from paddle_ipu.cli.scripts import Compilation, Run, ScriptEnd, ScriptHooks, run_script
from paddle_ipu.dialect.paddle_objects import Scope
from paddle_ipu.errors import NotSupported, PaddleIpuError
from paddle_ipu.verification import verify
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.sides import Case

if TYPE_CHECKING:
    from paddle.static import Program, Variable

    from paddle_ipu.compiler.compiled_program import IpuCompiledProgram
    from paddle_ipu.options.strategy import Strategy
    from paddle_ipu.runtime.ipu_program import IpuProgram


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Which runs of a script are verified, and how.

    Attributes:
        after: runs that come before.
        steps: how many in a row.
        until_nan: the last one is the first with a fetch that is not finite.
        against: as `verify` takes it, like what follows.
    """

    after: int
    steps: int
    until_nan: bool
    against: Literal["cpu", "fp32", "fp16"]
    rtol: float
    atol: float
    max_drift: float
    without_dropout: bool
    every_operator: bool


class RunRecorder(ScriptHooks):
    """Records the runs of the first program that a script runs with fetches.

    Args:
        options: which of them, and how they are verified.

    Attributes:
        runs: how many there were.
        cases: copies of the program and its variables before each run that may be verified.
    """

    def __init__(self, options: VerifyOptions) -> None:
        self._options = options
        self._program: Program | IpuProgram | None = None
        self._sources: dict[int, tuple[IpuProgram, IpuCompiledProgram]] = {}
        self.runs = 0
        self.cases: deque[Case] = deque(maxlen=options.steps)
        self._busy = False

    def compile(self, compilation: Compilation) -> IpuProgram:
        compiled = compilation.proceed()
        # The pair keeps the program alive, and with it its id.
        self._sources[id(compiled)] = (compiled, compilation.source)
        return compiled

    def run(self, run: Run) -> Any:
        recorded = bool(run.fetches) and self._record(run)
        results = run.proceed()
        if recorded:
            self._end_after_the_last(results)
        return results

    def _record(self, run: Run) -> bool:
        """Counts a run, and copies what it starts from; False for a run of another program."""
        program, feed, scope = run.program, run.feed, run.scope
        if self._busy or (self._program is not None and program is not self._program):
            return False
        self._program = program
        self.runs += 1
        if not self._options.until_nan and self.runs <= self._options.after:
            return True
        strategy = None
        if id(program) in self._sources:
            compiled, source = self._sources[id(program)]
            program, strategy, scope = source._program, source._ipu_strategy, source._scope
            compiled.weights_to_host()
        feeds = dict(feed[0] if isinstance(feed, list) else feed or {})
        self.cases.append(self._copied(program, feeds, run.fetches, scope, strategy))
        return True

    def _end_after_the_last(self, results: Sequence[npt.ArrayLike]) -> None:
        """Ends the script where the run that returned `results` is the last to verify."""
        if self._options.until_nan:
            if self.runs > self._options.after and not all(map(_is_finite, results)):
                raise ScriptEnd
        elif len(self.cases) == self._options.steps:
            raise ScriptEnd

    def _copied(
        self,
        program: Program,
        feed: Mapping[str, npt.ArrayLike],
        fetches: Sequence[str | Variable],
        scope: Scope,
        strategy: Strategy | None,
    ) -> Case:
        if self.cases:
            first = self.cases[-1]
            same = {
                name: np.asarray(feed[name]).astype(a.dtype) for name, a in first.feed(0).items()
            }
            if self._options.until_nan:
                state = verify.state_of(program, first.copy, scope, first.forward)
                return replace(first, feeds=[same], state=state)
            return replace(first, feeds=[same])
        self._busy = True
        try:
            return verify.prepare(
                program, [feed], fetches, scope, strategy, self._options.without_dropout,
                on_cpu=self._options.against == "cpu",
            )  # fmt: skip
        finally:
            self._busy = False

    def verified(self) -> VerificationReport:
        """The report on the recorded runs.

        Raises:
            NotSupported: the script made none of the runs to verify.
        """
        if not self.cases:
            raise NotSupported(
                f"the script made {self.runs} run(s) with fetches, none of them after the first "
                f"{self._options.after} that are left out. Lower --after."
                if self.runs
                else "it ran no static program with fetches. Call Executor.run with a fetch_list. "
                "A dynamic-graph model is verified once paddle.jit.save saved it, with --feed."
            )
        feeds = [case.feed(0) for case in self.cases]
        options = self._options
        report = VerificationReport(
            options.rtol, options.atol, len(feeds), against=options.against,
            max_drift=options.max_drift,
        )  # fmt: skip
        verify.fill(report, replace(self.cases[0], feeds=feeds), options.every_operator)
        return report


def verify_script(
    path: str, arguments: Sequence[str], options: VerifyOptions
) -> VerificationReport:
    """Runs a script as ``__main__`` and verifies some of its runs.

    Args:
        path: the script.
        arguments: of the script.
        options: which runs, and how they are verified.

    Raises:
        PaddleIpuError: there is nothing to verify, or it cannot be.
    """
    paddle_ipu.activate()
    recorder = RunRecorder(options)
    try:
        run_script(path, arguments, recorder)
    except PaddleIpuError:
        # With floating-point checks on, the run itself raises for NaN.
        if not (options.until_nan and recorder.cases):
            raise
    report = recorder.verified()
    first = recorder.runs - len(recorder.cases) + 1
    report.notes.insert(
        0, f"runs {first} to {recorder.runs} of the script, from the weights before run {first}"
    )
    return report


def _is_finite(result: npt.ArrayLike) -> bool:
    array = np.asarray(result)
    return array.dtype.kind not in "fV" or bool(np.isfinite(np.asarray(array, np.float64)).all())

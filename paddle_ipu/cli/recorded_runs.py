"""Has a script run until the runs that are to be verified, and verifies those.

The script's own runs go on meanwhile, on the device or on Paddle's CPU executor; weights are copied
in front of the first run that is verified, feeds as they come. Then the script ends.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import paddle_ipu
from paddle_ipu.cli.scripts import run_script, taking_over
from paddle_ipu.errors import NotSupported, PaddleIpuError
from paddle_ipu.verification import verify
from paddle_ipu.verification.report import VerificationReport
from paddle_ipu.verification.sides import Case


@dataclass(frozen=True, slots=True)
class Wanted:
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


class _Done(BaseException):
    """Ends a script; no handler for errors of its own catches it."""


class Recorder:
    """Watches the runs of the first program that a script runs with fetches.

    Attributes:
        runs: how many there were.
        cases: copies of the program and its variables before each run that may be verified.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._program: Any = None
        self._strategies: dict[int, tuple[Any, Any]] = {}
        self.runs = 0
        self.cases: deque[Case] = deque(maxlen=wanted.steps)
        self._busy = False

    def compiled(self, made: Any, source: Any) -> None:
        """Takes what ``IpuCompiledProgram.compile`` returned, and the object it belongs to."""
        # The pair keeps the program alive, and with it its id.
        self._strategies[id(made)] = (made, source)

    def before(self, program: Any, feed: Any, fetch_list: Any, scope: Any) -> bool:
        """Told of a run; True where it is one that is watched."""
        if self._busy or (self._program is not None and program is not self._program):
            return False
        self._program = program
        self.runs += 1
        if not self._wanted.until_nan and self.runs <= self._wanted.after:
            return True
        found = self._strategies.get(id(program))
        source, strategy = program, None
        if found is not None:
            made, owner = found
            source, strategy, scope = owner._program, owner._ipu_strategy, owner._scope
            made.weights_to_host()
        feeds = dict(feed[0] if isinstance(feed, (list, tuple)) else feed or {})
        self.cases.append(self._copied(source, feeds, fetch_list, scope, strategy))
        return True

    def after(self, results: Sequence[Any]) -> None:
        """Told of what a watched run fetched; ends the script behind the last one wanted."""
        if self._wanted.until_nan:
            if self.runs > self._wanted.after and not all(map(_is_finite, results)):
                raise _Done
        elif len(self.cases) == self._wanted.steps:
            raise _Done

    def _copied(
        self, program: Any, feed: Mapping[str, Any], fetch_list: Any, scope: Any, strategy: Any
    ) -> Case:
        if self.cases:
            first = self.cases[-1]
            same = {
                name: np.asarray(feed[name]).astype(a.dtype) for name, a in first.feed(0).items()
            }
            if self._wanted.until_nan:
                state = verify.state_of(program, first.copy, scope, first.forward)
                return replace(first, feeds=[same], state=state)
            return replace(first, feeds=[same])
        self._busy = True
        try:
            return verify.prepare(
                program, [feed], fetch_list, scope, strategy, self._wanted.without_dropout,
                on_cpu=self._wanted.against == "cpu",
            )  # fmt: skip
        finally:
            self._busy = False

    def verified(self) -> VerificationReport:
        """The report on the runs that were kept.

        Raises:
            NotSupported: the script made no run that is wanted.
        """
        if not self.cases:
            raise NotSupported(
                f"the script made {self.runs} run(s) with fetches, none of them after the first "
                f"{self._wanted.after} that are left out. Lower --after."
                if self.runs
                else "it ran no static program with fetches. Call Executor.run with a fetch_list."
            )
        feeds = [case.feed(0) for case in self.cases]
        wanted = self._wanted
        report = VerificationReport(
            wanted.rtol, wanted.atol, len(feeds), against=wanted.against, max_drift=wanted.max_drift
        )
        verify.fill(report, replace(self.cases[0], feeds=feeds), wanted.every_operator)
        return report


def verify_script(path: str, arguments: Sequence[str], wanted: Wanted) -> VerificationReport:
    """Runs a script as ``__main__`` and verifies the runs that are wanted.

    Raises:
        PaddleIpuError: there is nothing to verify, or it cannot be.
    """
    paddle_ipu.activate()
    recorder = Recorder(wanted)
    try:
        with _watching(recorder):
            run_script(path, arguments)
    except _Done:
        pass
    except PaddleIpuError:
        # With floating-point checks on it is the run itself that tells of NaN.
        if not (wanted.until_nan and recorder.cases):
            raise
    report = recorder.verified()
    first = recorder.runs - len(recorder.cases) + 1
    report.notes.insert(
        0, f"runs {first} to {recorder.runs} of the script, from the weights before run {first}"
    )
    return report


def _is_finite(result: Any) -> bool:
    array = np.asarray(result)
    return array.dtype.kind not in "fV" or bool(np.isfinite(np.asarray(array, np.float64)).all())


def _watching(recorder: Recorder) -> contextlib.AbstractContextManager[None]:
    """Has the recorder told of every compilation and of every run with fetches."""
    import paddle

    def compiling(stock: Callable[..., Any]) -> Callable[..., Any]:
        def compile_(self: Any, feed_list: Sequence[Any], fetch_list: Sequence[Any]) -> Any:
            made = stock(self, feed_list, fetch_list)
            recorder.compiled(made, self)
            return made

        return compile_

    def running(stock: Callable[..., Any]) -> Callable[..., Any]:
        def run_(self: Any, program: Any = None, feed: Any = None, fetch_list: Any = None,
                 feed_var_name: str = "feed", fetch_var_name: str = "fetch", scope: Any = None,
                 *args: Any, **keywords: Any) -> Any:  # fmt: skip
            def run() -> Any:
                return stock(
                    self, program, feed, fetch_list, feed_var_name, fetch_var_name, scope, *args,
                    **keywords,
                )  # fmt: skip

            if not fetch_list:
                return run()
            ran = program
            if program is None:
                ran = paddle.static.default_main_program()
            fetches = _flat(fetch_list)
            if not recorder.before(ran, feed, fetches, scope or paddle.static.global_scope()):
                return run()
            results = run()
            recorder.after(results)
            return results

        return run_

    return taking_over(compiling, running)


def _flat(fetch_list: Any) -> list[Any]:
    return list(fetch_list) if isinstance(fetch_list, (list, tuple)) else [fetch_list]

"""Paddle's side: draws cases and runs them on Paddle's CPU executor, in processes of its own.

Kernels and shape inference may end the process. So one process knows the examples and runs nothing;
it forks another for each request, and that one runs cases until it is done or dead.
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from tests.differential.operators.use import Array, Case

if TYPE_CHECKING:
    from tests.differential.operators.program import Written

SECONDS = 8
"""How long a case may take before its process is ended."""

MOST_CRASHES = 2
"""After how many crashes the same program is not tried with other values."""

NOT_TRIED = "not tried"
"""How a case ended whose program crashed with other values."""


@dataclass(slots=True)
class Answer:
    """What Paddle says of a case.

    Attributes:
        case: as it was drawn; None where its process died before.
        results: name of a fetch -> its value; empty where Paddle gave none.
        refused: Paddle's error, "" for none.
        crashed: how the process ended, "" where it did not.
        subject: the operator that was drawn.
    """

    case: Case | None = None
    results: dict[str, Array] = field(default_factory=dict)
    refused: str = ""
    crashed: str = ""
    subject: str = ""


Source = tuple[int, int] | Case
"""Seed and number of a case to draw, or a case."""


class Paddle:
    """Runs cases on Paddle's CPU executor.

    Attributes:
        random: operators whose results are random.
        subjects: operators that are drawn.
        tries: how many draws a case has at most.
        crashes: operator -> how many of its uses ended a process of Paddle's.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=False)
        self._process.start()
        other.close()
        self.random, self.subjects, self.tries = self._connection.recv()
        self.crashes: Counter[str] = Counter()

    def answers(self, sources: Sequence[Source], *, flush: bool = False) -> list[Answer]:
        """Paddle's answer to each case.

        Args:
            sources: the cases.
            flush: whether the processor takes denormals for zeros.
        """
        done: list[Answer] = []
        skipped = 0
        crashes: Counter[str] = Counter()
        while len(done) < len(sources):
            source = sources[len(done)]
            if crashes and isinstance(source, Case) and crashes[source.form] >= MOST_CRASHES:
                done.append(Answer(source, crashed=NOT_TRIED, subject=source.subject))
                continue
            self._connection.send((sources[len(done) :], skipped, flush))
            drawn = None
            tries = skipped
            while True:
                kind, value = self._connection.recv()
                if kind == "drawn":
                    drawn = value
                    tries += 1
                elif kind == "answer":
                    done.append(value)
                    drawn, tries, skipped = None, 0, 0
                else:
                    break
            if drawn is not None:
                how = value or "ended early"
                self.crashes[drawn.subject] += 1
                crashes[drawn.form] += 1
                if tries < self.tries and not isinstance(sources[len(done)], Case):
                    skipped = tries
                else:
                    done.append(Answer(drawn, crashed=how, subject=drawn.subject))
                    skipped = 0
        return done

    def close(self) -> None:
        """Ends the processes."""
        self._connection.send(None)
        self._process.join()


def _serve(connection: Connection) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import paddle

    import paddle_ipu
    from tests.differential.operators.draw import TRIES, Drawing

    paddle_ipu.activate()
    paddle.enable_static()
    paddle.disable_signal_handler()
    drawing = Drawing.from_case_table()
    connection.send((drawing.random, drawing.subjects, TRIES))
    while (request := connection.recv()) is not None:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                _run_all(connection, *request, drawing.draw)
                code = 0
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        connection.send(("end", signal.Signals(-status).name if status < 0 else str(status or "")))


def _run_all(
    connection: Connection,
    sources: Sequence[Source],
    skipped: int,
    flush: bool,
    draw: Callable[..., Iterator[Case]],
) -> None:
    if flush:
        _flush_denormals()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    runner = Runner()
    for at, source in enumerate(sources):
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        tries: Iterator[Case] = iter([source]) if isinstance(source, Case) else draw(*source)
        left = itertools.islice(tries, skipped if at == 0 else 0, None)
        connection.send(("answer", _answer(connection, runner, left)))


def _flush_denormals() -> None:
    """Sets the bits of an x86's MXCSR that take denormals for zeros, and give zeros for them.

    Threads that are started later inherit them. The register is the last word of glibc's fenv_t.
    """
    library = ctypes.CDLL("libm.so.6")
    environment = (ctypes.c_uint32 * 8)()
    library.fegetenv(environment)
    environment[7] |= 0x8040
    library.fesetenv(environment)


def _answer(connection: Connection, runner: Runner, tries: Iterator[Case]) -> Answer:
    answer = Answer()
    for case in tries:
        answer = Answer(case, subject=case.subject)
        connection.send(("drawn", case))
        try:
            answer.results = runner.run(case)
        except Exception as error:
            answer.refused = _brief(error)
        else:
            break
    return answer


class Runner:
    """Runs cases one after another; of those that differ in what is fed, the first is written."""

    def __init__(self) -> None:
        self._form = ""
        self._program: _Program | None = None

    def run(self, case: Case) -> dict[str, Array]:
        from tests.differential.operators.program import values, write

        if self._program is None or case.form != self._form:
            self._program = None
            self._program = _Program(write([case]))
            self._form = case.form
        return self._program.run(dict(values(0, case)))


class _Program:
    """A program with one case, for Paddle's CPU executor."""

    def __init__(self, written: Written) -> None:
        import paddle

        self._written = written
        self._executor = paddle.static.Executor(paddle.CPUPlace())
        self._scope = paddle.static.Scope()

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """What each fetch is with other values in what is fed or trained."""
        from tests.differential.operators.program import read

        feed = {name: values.get(name, array) for name, array in self._written.feed.items()}
        self._written.set_parameters(self._scope, values)
        fetches = self._written.fetches
        results = self._executor.run(
            self._written.program,
            feed=feed,
            fetch_list=list(fetches.values()),
            scope=self._scope,
        )
        return {
            what: read(array, variable)
            for ((_, what), variable), array in zip(fetches.items(), results, strict=True)
        }


def run(written: Written) -> dict[str, Array]:
    """What Paddle's CPU executor gives for each fetch of a program with one case."""
    return _Program(written).run({})


def _brief(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(("InvalidArgument", "(InvalidArgument", "(Un", "(Not", "(Out", "(Pre")):
            return line[:300]
    return " ".join(lines)[:300] if lines else "?"


if __name__ == "__main__":
    sys.exit("python -m tests.differential operators")

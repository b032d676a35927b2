"""Tries random trainings, and makes those that nothing explains as small as they get."""

from __future__ import annotations

import multiprocessing
import os
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

import paddle_ipu
from paddle_ipu.errors import NotSupported
from tests.differential.tally import Finding, Tally
from tests.differential.training import explained, sides, verdict
from tests.differential.training.recipe import GRADIENT, Training, drawn, varied
from tests.differential.training.verdict import Arrays, Other

PLACES = 1, 1, 1, 8, 8, 8, 8, 8
"""By how many last places numbers are changed in each changed run of Paddle's."""
NUDGES = (1, 3, 8)
"""How many changed runs of Paddle's there are, as long as fewer do not do."""
MOST_TRIES = 60
"""Of making one finding smaller."""
OF_ONE_PROGRAM = 4
OF_ONE_PROCESS = 400
LONGEST = 600.0
"""Seconds that a training may take."""
PACKAGE = Path(paddle_ipu.__file__).parent
SCRATCH = "__non_persistable"
"""How names end of what Paddle's recurrent operators write for their gradients."""
QUICKLY_COMPILED = " ".join(
    (
        "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1",
        *(("--xla_cpu_use_fusion_emitters=false",) if jax.__version__.startswith("0.10.") else ()),
    )
)
"""XLA's older way of writing machine code, which newer ones lack, takes a fourth of the time; its
graphs are the same."""
REFUSED = ("not supported", "refused by Paddle")
"""Outcomes of a first training that those of the same programs would have, too."""
REFUSALS = ("The set of pipeline stages for all Ops contains",)
"""In messages of errors that are no ``NotSupported``."""


@dataclass(frozen=True)
class Outcome:
    """What became of a training.

    Attributes:
        name: one of those of :class:`~tests.differential.tally.Tally`.
        title: the same for all of one cause.
        detail: what was got and expected, or the error.
    """

    name: str
    title: str = ""
    detail: str = ""


def explore(cases: int, seed: int, *, first: int = 0) -> Tally:
    """Tries trainings `first` to `first + cases` of a seed, in a process of their own.

    Each comes with others of the same programs, which are compiled once.

    Returns:
        Their outcomes; each finding with a smaller training that does the same.
    """
    tally = Tally()
    with Worker() as worker:
        for number in range(first, first + cases):
            trainings = varied(drawn(seed, number), OF_ONE_PROGRAM)
            seen: set[str] = set()
            for training, outcome in zip(trainings, worker.tried_all(trainings), strict=False):
                tally.outcomes[outcome.name] += 1
                tally.subjects.update(training.features)
                if outcome.name in ("differs", "fails"):
                    smaller = training
                    if outcome.title not in seen:
                        seen.add(outcome.title)
                        smaller, outcome = shrunk(worker, training, outcome)
                    detail = f"{outcome.detail}\n-- of:\n{smaller}"
                    tally.findings.append(Finding(seed, number, outcome.title, detail))
    return tally


class Trier(Protocol):
    """What says how a training goes."""

    def tried(self, training: Training) -> Outcome: ...


def shrunk(worker: Trier, training: Training, outcome: Outcome) -> tuple[Training, Outcome]:
    """A simpler training with an outcome of the same title."""
    tries = 0
    again = True
    while again:
        again = False
        for simpler in training.simpler():
            if tries >= MOST_TRIES:
                return training, outcome
            tries += 1
            found = worker.tried(simpler)
            if (found.name, found.title) == (outcome.name, outcome.title):
                training, outcome, again = simpler, found, True
                break
    return training, outcome


class Worker:
    """A process that tries trainings; another one takes its place when Paddle ends it."""

    def __init__(self) -> None:
        self._process: Any = None
        self._tried = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """Of the process."""
        return int(self._process.pid)

    def tried(self, training: Training) -> Outcome:
        """What became of a training."""
        return self.tried_all([training])[0]

    def tried_all(self, trainings: Sequence[Training]) -> list[Outcome]:
        """What became of trainings of the same programs; of the first alone if that is refused."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(trainings):
            outcomes += self._answers(trainings[len(outcomes) :])
            if outcomes[0].name in REFUSED:
                break
        return outcomes

    def _answers(self, trainings: Sequence[Training]) -> list[Outcome]:
        """Of as many as the process gets through."""
        if self._process is None or self._tried >= OF_ONE_PROCESS:
            self._start()
        self._tried += len(trainings)
        outcomes: list[Outcome] = []
        on_ipu = False
        try:
            self._pipe.send(trainings)
            while self._pipe.poll(LONGEST):
                answer = self._pipe.recv()
                on_ipu = answer is None
                if answer is not None:
                    outcomes.append(answer)
                if len(outcomes) == len(trainings) or (outcomes and outcomes[0].name in REFUSED):
                    return outcomes
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self._end()
            if on_ipu:
                return [*outcomes, Outcome("fails", "crashed", f"exit code {code}")]
            return [*outcomes, Outcome("Paddle crashed", f"exit code {code}")]
        self._end()
        return [*outcomes, Outcome("fails", "never ends", f"no answer for {LONGEST} s")]

    def _start(self) -> None:
        self._end()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_answer, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._tried = 0

    def _end(self) -> None:
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None


def _answer(pipe: Connection) -> None:
    """Sends the outcome of each training that it receives, and word when the IPU's turn begins."""
    os.environ.setdefault("XLA_FLAGS", QUICKLY_COMPILED)
    # Paddle writes it into each operator, which takes a tenth of a training.
    traceback.extract_stack = _no_stack
    while True:
        try:
            trainings = pipe.recv()
        except EOFError:
            return
        for outcome in tried_all(trainings, lambda: pipe.send(None)):
            pipe.send(outcome)


def _no_stack(*_: Any, **__: Any) -> traceback.StackSummary:
    return traceback.StackSummary()


def tried(training: Training) -> Outcome:
    """Trains on both sides and compares."""
    return next(tried_all([training]))


def tried_all(
    trainings: Sequence[Training], on_ipu: Callable[[], None] = lambda: None
) -> Iterator[Outcome]:
    """The outcomes of trainings of the same programs; of the first alone if that is refused."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            programs = _Programs(trainings[0], Path(folder), on_ipu)
        except Exception as error:
            yield _refused(error)
            return
        for training in trainings:
            outcome = programs.tried(training)
            yield outcome
            if training is trainings[0] and outcome.name in REFUSED:
                return


class _Programs:
    """The programs of trainings that share them.

    Args:
        training: one of those.
        folder: for checkpoints and compiled programs.
        on_ipu: called when Paddle's part of a training is over.
    """

    def __init__(self, training: Training, folder: Path, on_ipu: Callable[[], None]) -> None:
        self._built = sides.built_for(training)
        self._rewind = sides.rewinder(self._built.scheduler)
        self._on_paddle = sides.OnPaddle(training)
        self._compiled: sides.Compiled | None = None
        self._folder, self._on_ipu = folder, on_ipu

    def tried(self, training: Training) -> Outcome:
        """What became of a training."""
        self._rewind()
        try:
            scope = sides.scope_of(self._built, training, training.seed)
            start = sides.first_variables(self._built, scope)
            expected = self._on_paddle.train(training, start)
        except Exception as error:
            return _refused(error)
        self._on_ipu()
        try:
            got = self._by_ipu(training, scope, start)
        except Exception as error:
            self._compiled = None
            if _is_honest(error):
                return Outcome("not supported", _line(error), str(error))
            return Outcome("fails", f"{type(error).__name__}: {_line(error)}", _trace(error))
        if verdict.diverged(expected, training.half, training.scale):
            return Outcome("diverges in Paddle")
        others: list[Other] = []
        wrong = _wrong(training, got, expected, others)
        for count in NUDGES:
            if not wrong:
                return Outcome("agrees")
            for seed in range(len(others), count):
                nudge = verdict.Nudge(training.half, seed, PLACES[seed])
                arrays = self._on_paddle.train(training, start, nudge)
                if verdict.diverged(arrays, training.half, training.scale):
                    return Outcome("diverges in Paddle")
                others.append(Other(arrays, PLACES[seed]))
            wrong = _wrong(training, got, expected, others)
        if wrong and not training.half:
            others += self._in_double(training, start)
            wrong = _wrong(training, got, expected, others)
        if not wrong:
            return Outcome("agrees")
        if reason := explained.reason(training, expected, wrong):
            return Outcome("explained", reason)
        if self._is_of_scale(training, got, expected, others):
            return Outcome("explained", "its loss scale takes a gradient beyond half's range")
        lines = [f"{name}: {what}" for name, what in wrong.items()]
        return Outcome("differs", training.optimizer.name, "\n".join(lines))

    def _is_of_scale(
        self, training: Training, got: Arrays, expected: Arrays, others: Sequence[Other]
    ) -> bool:
        """Whether gradients were infinite on the IPU, and all is right without a loss scale."""
        overflowed = not all(
            np.isfinite(array).all() for name, array in got.items() if name.startswith(GRADIENT)
        )
        if not training.half or training.scale <= 1 or not overflowed:
            return False
        plain = replace(training, scale=1.0)
        with tempfile.TemporaryDirectory() as folder:
            built = sides.built_for(plain)
            scope = sides.scope_of(built, plain, plain.seed)
            compiled = sides.Compiled(plain, built, scope, Path(folder) / "cache")
            found = sides.OnIpu(plain, compiled, Path(folder)).train()
        return not _wrong(plain, found, expected, others)

    def _by_ipu(self, training: Training, scope: Any, start: Arrays) -> Arrays:
        if self._compiled is None:
            cache = self._folder / "cache"
            self._compiled = sides.Compiled(training, self._built, scope, cache)
        else:
            self._compiled.begin(start)
        return sides.OnIpu(training, self._compiled, self._folder).train()

    def _in_double(self, training: Training, start: Arrays) -> list[Other]:
        """Paddle's results in double precision, where its kernels are there for it."""
        try:
            return [Other(self._on_paddle.train(training, start, double=True))]
        except Exception:
            return []


def _wrong(
    training: Training,
    got: Arrays,
    expected: Arrays,
    others: Sequence[Other],
) -> dict[str, str]:
    # AMP has variables of its own, and a gradient of some rows alone is not fetched.
    found = {
        name: f"missing on {'the IPU' if name in expected else 'Paddle'}"
        for name in got.keys() ^ expected.keys()
        if not training.half and not name.startswith(GRADIENT)
    }
    for name in got.keys() & expected.keys():
        if name.endswith(SCRATCH):
            continue
        what = verdict.off(
            got[name],
            expected[name],
            verdict.noise_of(name, expected[name], others),
            training.half,
        )
        if what:
            found[name] = what
    return found


def _is_honest(error: Exception) -> bool:
    """Whether it refuses what it documents to refuse."""
    return isinstance(error, NotSupported) or any(word in str(error) for word in REFUSALS)


def _refused(error: Exception) -> Outcome:
    """Of an error while Paddle builds or runs the program."""
    if _is_honest(error):
        return Outcome("not supported", _line(error), str(error))
    *_, last = traceback.walk_tb(error.__traceback__)
    raised_in = Path(last[0].f_code.co_filename)
    if raised_in.is_relative_to(PACKAGE):
        return Outcome("fails", f"building: {_line(error)}", _trace(error))
    return Outcome("refused by Paddle", _line(error), _trace(error))


def _line(error: Exception) -> str:
    """The line of a message that matters, without what differs from case to case."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Paddle's own come behind the stack of the program.
    named = [line for line in lines if re.match(r"\w+Error: ", line)]
    text = [*named, *lines, type(error).__name__][0]
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\]]*\]", "…", text)
    return re.sub(r"[\w/.]*\d[\w.]*", "#", text)[:150]


def _trace(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-3000:]

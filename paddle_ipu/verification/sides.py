"""The two sides of a verification: a program on the IPU, and the same one on Paddle's CPU kernels.

Each runs on a scope of its own, filled with copies of the variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu import scope as scopes
from paddle_ipu.compiled_program import IpuCompiledProgram
from paddle_ipu.verification.bisection import Forward
from paddle_ipu.verification.program_copy import ProgramCopy

Array = np.ndarray[Any, Any]
State = dict[str, Array]
Results = dict[str, list[Array]]
"""Name -> one array for each micro-batch."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is verified.

    Attributes:
        copy: a copy of the program.
        feed: the feeds of one run, in the dtypes the program declares.
        fetches: names of the user's fetches.
        state: the scope's variables; nobody writes on these arrays.
        turns: micro-batches of a run.
        accumulates: True when several micro-batches share one update.
    """

    copy: ProgramCopy
    feed: Mapping[str, Array]
    fetches: Sequence[str]
    strategy: Any
    state: State
    forward: Forward
    training: bool
    turns: int
    accumulates: bool

    def micro_batch(self, turn: int) -> dict[str, Array]:
        """The feeds of one micro-batch of a run."""
        return {
            name: array.reshape(self.turns, -1, *array.shape[1:])[turn] if array.ndim else array
            for name, array in self.feed.items()
        }


def filled_scope(state: State) -> Any:
    """A new scope with copies of the arrays."""
    import paddle

    scope = paddle.static.Scope()
    for name, array in state.items():
        scopes.write(scope.var(name).get_tensor(), array)
    return scope


def _read(scope: Any, names: Sequence[str]) -> State:
    return {name: np.array(array) for name, array in scopes.read(scope, names).items()}


class Ipu:
    """The program on the IPU."""

    def __init__(self, case: Case, strategy: Any, turns: int, fetches: Sequence[str],
                 state: State) -> None:  # fmt: skip
        self._case, self._turns, self._fetches = case, turns, list(fetches)
        self._scope = filled_scope(state)
        compiled = IpuCompiledProgram(case.copy.program, scope=self._scope, ipu_strategy=strategy)
        self._program = compiled.compile(list(case.feed), self._fetches)
        self._backend = compiled._backend

    def run(self, feed: Mapping[str, Array]) -> Results:
        """Runs all micro-batches of `feed`."""
        arrays = self._program.run(feed, self._fetches)
        results: Results = {}
        for name, array in zip(self._fetches, arrays, strict=True):
            results[name] = list(array) if self._turns > 1 else [array]
        return results

    def variables(self, names: Sequence[str]) -> State:
        """What the scope's variables hold now."""
        self._backend.weights_to_host()
        return _read(self._scope, names)

    def close(self) -> None:
        """Gives the device back."""
        self._backend.detach()


class Cpu:
    """The program on Paddle's CPU kernels; one micro-batch a run."""

    def __init__(
        self, case: Case, fetches: Sequence[str], state: State, as_computed: bool = False
    ) -> None:
        """Fetches as the executor does; or, `as_computed`, before in-place operators write."""
        import paddle

        pruned = case.copy.pruned(fetches, case.training)
        take = pruned.as_computed if as_computed else pruned.value
        self._fetches = {name: take(name) for name in fetches}
        self._copy, self._declared = pruned, pruned.feeds()
        self._executor = paddle.static.Executor(paddle.CPUPlace())
        self._scope = filled_scope(state)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Runs one micro-batch."""
        with self._copy.running():
            arrays = self._executor.run(
                self._copy.program,
                feed={name: array for name, array in feed.items() if name in self._declared},
                fetch_list=list(self._fetches.values()),
                scope=self._scope,
            )
        return dict(zip(self._fetches, (np.array(array) for array in arrays), strict=True))

    def variables(self, names: Sequence[str]) -> State:
        """What the scope's variables hold now."""
        return _read(self._scope, names)

    def restore(self, state: State) -> None:
        """Puts the variables of the scope back."""
        for name, array in state.items():
            scopes.write(self._scope.find_var(name).get_tensor(), array)

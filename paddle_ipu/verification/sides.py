"""The sides of a verification: a program on the IPU, as compiled or in one precision throughout,
and the same one on Paddle's CPU kernels.

Each runs on a scope of its own, filled with copies of the variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paddle_ipu.compiler.compiled_program import IpuCompiledProgram
from paddle_ipu.options.one_micro_batch import copied, for_one_micro_batch
from paddle_ipu.passes.convert_to_float32 import ConvertToFloat32
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.weights.adapted_loss_scale import scale_in
from paddle_ipu.verification.bisection import Forward
from paddle_ipu.verification.program_copy import ProgramCopy

if TYPE_CHECKING:
    import paddle

Array = np.ndarray[Any, Any]
State = dict[str, Array]
Results = dict[str, list[Array]]
"""Name -> one array for each micro-batch."""

AS_COMPILED, IN_FLOAT32, IN_HALF = "as compiled", "in float32", "in half"
"""What the IPU side computes in: what program and strategy say, or one precision throughout."""

ON_CPU = "on Paddle's CPU kernels"


@dataclass(frozen=True, slots=True)
class Case:
    """What is verified.

    Attributes:
        copy: a copy of the program.
        feeds: those of each run, in the dtypes the program declares; the last run's are those of
            every later one.
        fetches: names of the user's fetches.
        state: the scope's variables; these arrays are never written.
        strategy: a ``paddle.static.IpuStrategy``.
        forward: the forward part of the program.
        training: whether a run updates weights.
        run_length: micro-batches of a run.
        accumulates: True when several micro-batches share one update.
        on_cpu: True when the other side is Paddle's CPU kernels.
        seed: of the random numbers of the first micro-batch; each later one counts on.
    """

    copy: ProgramCopy
    feeds: Sequence[Mapping[str, Array]]
    fetches: Sequence[str]
    strategy: paddle.static.IpuStrategy
    state: State
    forward: Forward
    training: bool
    run_length: int
    accumulates: bool
    on_cpu: bool = True
    seed: int = 0

    def feed(self, step: int) -> Mapping[str, Array]:
        """The feeds of one run."""
        return self.feeds[min(step, len(self.feeds) - 1)]

    def feed_of(self, micro_batch: int) -> dict[str, Array]:
        """The feeds of one micro-batch, counted over the runs."""
        step, index = divmod(micro_batch, self.run_length)
        return {
            name: array.reshape(self.run_length, -1, *array.shape[1:])[index]
            if array.ndim
            else array
            for name, array in self.feed(step).items()
        }

    def fetches_of_history(self) -> list[str]:
        """The user's fetches and the raw gradient of every trained parameter."""
        return list(dict.fromkeys([*self.fetches, *self.forward.gradients]))

    @property
    def loss_scale(self) -> float:
        """The factor on the loss, which backward's gradients have on the device."""
        optimizer = self.forward.optimizer
        if optimizer is None:
            return 1.0
        own = optimizer.loss_scale
        variable = None if own is None else self.state.get(own.variable)
        adapted = scale_in(self.state.get(optimizer.loss_scale_variable), optimizer)
        return adapted * (1.0 if variable is None else float(variable.item()))


def filled_scope(state: State) -> paddle.static.Scope:
    """A new scope with copies of the arrays."""
    import paddle

    scope = paddle.static.Scope()
    for name, array in state.items():
        scopes.write(scope.var(name).get_tensor(), array)
    return scope


def _read(scope: paddle.static.Scope, names: Sequence[str]) -> State:
    return {name: np.array(array) for name, array in scopes.read(scope, names).items()}


class Ipu:
    """The program on the IPU.

    Gradients are those of the loss, in float32 where the device has them in half.
    """

    def __init__(
        self,
        case: Case,
        fetches: Sequence[str],
        state: State,
        *,
        precision: str = AS_COMPILED,
        one_micro_batch: bool = False,
        micro_batch: int = 0,
    ) -> None:
        """Compiles the program.

        Args:
            case: what is verified.
            fetches: names, raw gradients too.
            state: the variables before the first run.
            precision: ``AS_COMPILED``, or one throughout.
            one_micro_batch: every run is of a single one, whatever the strategy says.
            micro_batch: the number of the first one, from which random numbers continue.
        """
        self._fetches = list(fetches)
        self._scope = filled_scope(state)
        # Compiling changes a strategy, and this one is the user's.
        strategy = (for_one_micro_batch if one_micro_batch else copied)(case.strategy)
        if not case.on_cpu:
            strategy.set_options({"random_seed": (case.seed + micro_batch) % 2**64})
        if "enable_engine_caching" not in strategy._ipu_strategy.snapshot().explicit:
            # Nobody compiles these programs again.
            strategy.set_options({"enable_engine_caching": False})
        if precision != AS_COMPILED:
            strategy.set_precision_config(enable_fp16=precision == IN_HALF)
        program = case.copy.program
        if precision != AS_COMPILED:
            compiler = IpuCompiledProgram.with_first_passes(
                program, self._scope, strategy, (ConvertToFloat32(),)
            )
        elif one_micro_batch:
            # Parts of a program have feeds of their own.
            compiler = IpuCompiledProgram.with_first_passes(program, self._scope, strategy, ())
        else:
            compiler = IpuCompiledProgram(program, self._scope, strategy)
        self._program = compiler.compile(list(case.feed(0)), self._fetches)
        self._scales: dict[str, float] = {}
        for name, fetch in self._program.fetches.items():
            if fetch.scale != 1.0:
                # Divided in half, what the scale keeps would be lost again.
                self._scales[name] = fetch.scale
        self._program.fetches = {
            name: replace(fetch, scale=1.0) for name, fetch in self._program.fetches.items()
        }

    def run(self, feed: Mapping[str, Array]) -> Results:
        """Runs all micro-batches of `feed`."""
        arrays = self._program.run(feed, self._fetches)
        results: Results = {}
        for name, array in zip(self._fetches, map(scopes.numbers, arrays), strict=True):
            if name in self._scales:
                array = array.astype(np.float32) / np.float32(self._scales[name])
            own = array.shape[len(self._program.axes) :]
            results[name] = list(array.reshape(-1, *own))
        return results

    def variables(self, names: Sequence[str]) -> State:
        """What the scope's variables hold now."""
        self._program.weights_to_host()
        return _read(self._scope, names)

    def close(self) -> None:
        """Gives the device back."""
        self._program.backend.detach()


class Cpu:
    """The program on Paddle's CPU kernels; one micro-batch a run."""

    def __init__(
        self, case: Case, fetches: Sequence[str], state: State, as_computed: bool = False
    ) -> None:
        """Fetches as the executor does, or `as_computed`: before in-place operators write."""
        import paddle

        pruned = case.copy.pruned(fetches, case.training)
        fetch = pruned.as_computed if as_computed else pruned.value
        self._fetches = {name: fetch(name) for name in fetches}
        self._copy, self._declared = pruned, pruned.feeds()
        self._executor = paddle.static.Executor(paddle.CPUPlace())
        self._scope = filled_scope(state)

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Runs one micro-batch."""
        with self._copy.running():
            arrays = self._executor.run(
                self._copy.program,
                feed={
                    name: scopes.to_bits(array)
                    for name, array in feed.items()
                    if name in self._declared
                },
                fetch_list=list(self._fetches.values()),
                scope=self._scope,
            )
        copies = (scopes.numbers(np.array(array)) for array in arrays)
        return dict(zip(self._fetches, copies, strict=True))

    def variables(self, names: Sequence[str]) -> State:
        """What the scope's variables hold now."""
        return _read(self._scope, names)

    def restore(self, state: State) -> None:
        """Puts the variables of the scope back."""
        for name, array in state.items():
            scopes.write(self._scope.find_var(name).get_tensor(), array)

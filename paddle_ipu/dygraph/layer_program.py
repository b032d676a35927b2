"""A compiled program whose weights are the tensors of a layer in dynamic mode.

After a run that changes them the layer's tensors hold the newest weights, as after a step in
dynamic mode; before a run the device takes what was written to them since. Optimizer state stays
on the device until the optimizer is asked for it, or another program trains with it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from paddle.base import framework
from paddle.base.layer_helper import LayerHelper

from paddle_ipu.compiler.compiled_program import IpuCompiledProgram
from paddle_ipu.dialect.paddle_objects import Scope
from paddle_ipu.dygraph import host_writes
from paddle_ipu.dygraph.optimizer_step import OptimizerStep
from paddle_ipu.options.one_micro_batch import for_one_micro_batch
from paddle_ipu.options.strategy import Strategy
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.ipu_program import IpuProgram

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.optimizer import Optimizer
    from paddle.static import Program

    from paddle_ipu.passes.pass_base import Pass

Array = np.ndarray[Any, Any]


class LayerProgram:
    """A program, compiled for the IPU, that shares the tensors of a layer.

    Args:
        compile_it: compiles, given the Scope that holds the weights.
        tensors: name -> parameter or buffer.
        changed: names of the ones that a run changes.
        state: what trains, in training.
    """

    def __init__(
        self,
        compile_it: Callable[[Scope], IpuProgram],
        tensors: Mapping[str, Tensor],
        changed: Collection[str],
        state: OptimizerState | None = None,
    ) -> None:
        self._scope = scopes.temporary()
        self._tensors = dict(tensors)
        self._shared: dict[str, tuple[int, int]] = {}
        # Tensors that were replaced since the last upload.
        self._replaced: set[str] = set()
        self._state = state
        self._share()
        if state is not None:
            state.share_with_scope(self, self._scope)
        self.program = compile_it(self._scope)
        self._changed = [name for name in changed if name in self.program.backend.owner.variables]
        self._version = host_writes.version()
        self.program.backend.owner.leave_weights_to_layer()
        sync_to_host = weakref.WeakMethod(self.sync_to_host)
        self.program.backend.on_close(lambda: (sync_to_host() or _nothing)())

    # At the end of Python, `sys` is gone from this module before the last objects are.
    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # The optimizer outlives a program nobody holds any more.
        if not _is_finalizing():
            self.sync_to_host()

    @property
    def is_alive(self) -> bool:
        """False once the backend was reset: it has to be compiled again.

        So it is where an interrupt ended its compilation.
        """
        program = getattr(self, "program", None)
        return program is not None and program.backend.is_attached

    def run(self, feed: Mapping[str, Array], fetches: Sequence[str]) -> dict[str, Array]:
        """One run, with the layer's tensors as they are; it changes them."""
        self._replaced.update(self._share())
        owner = self.program.backend.owner
        written = host_writes.since(self._version, self._tensors)
        newer = self._replaced.union(written) & owner.variables
        if self._state is not None:
            self._state.sync_to_device(self, self._scope)
        if newer:
            owner.upload_weights(newer)
        # An interrupt finds the layer's tensors as before the run, or as behind it.
        with self.program.backend.uninterrupted():
            results = self.program.run(feed, fetches)
            if self._changed:
                owner.download_weights(self._changed)
                host_writes.note(self._changed)
            self._version = host_writes.version()
            self._replaced.clear()
        return dict(zip(fetches, results, strict=True))

    def sync_to_host(self) -> None:
        """Writes the optimizer's state into its accumulators."""
        if self._state is not None and self.is_alive:
            self.program.backend.owner.sync_to_host()
            self._state.share_with_accumulators(self._scope)

    def _share(self) -> list[str]:
        """Has the Scope's variables be the layer's tensors; names of those that are others now."""
        replaced = []
        for name, tensor in self._tensors.items():
            if not tensor._is_dense_tensor_hold_allocation():
                # Paddle 3's RNNs hold a dropout state that is for GPUs, and without memory.
                continue
            dense = tensor.get_tensor()
            # Paddle counts what operators write in place.
            version = dense._ptr(), tensor.inplace_version
            if self._shared.get(name) != version:
                self._scope.var(name).get_tensor()._share_data_with(dense)
                self._shared[name] = version
                replaced.append(name)
        return replaced


def _nothing() -> None:
    """There is nothing to sync to the host."""


class OptimizerState:
    """The accumulators of an optimizer of dynamic mode, for one program that trains with it.

    Attributes:
        optimizer: the user's.
        step: what was added to the program.
    """

    _holders: weakref.WeakKeyDictionary[Optimizer, weakref.ref[LayerProgram]] = (
        weakref.WeakKeyDictionary()
    )
    """Optimizer -> the program whose device has its newest state."""

    def __init__(
        self, optimizer: Optimizer, step: OptimizerStep, parameters: Sequence[Tensor]
    ) -> None:
        self.optimizer = optimizer
        self.step = step
        _create_accumulators(optimizer, parameters)

    def _accumulator(self, name: str) -> Tensor:
        accumulator, parameter = self.step.states[name]
        return self.optimizer._accumulators[accumulator][parameter]

    def share_with_scope(self, program: LayerProgram, scope: Scope) -> None:
        """Puts the newest state into the Scope of a program."""
        sync_state_to_host(self.optimizer)
        for name in self.step.states:
            source = self._accumulator(name).get_tensor()
            scope.var(name).get_tensor()._share_data_with(source)
        self._holders[self.optimizer] = weakref.ref(program)
        self.write_learning_rate(scope)

    def sync_to_device(self, program: LayerProgram, scope: Scope) -> None:
        """Has the device of a program hold the newest state, for a run of it."""
        holder = self._holders.get(self.optimizer)
        if holder is None or holder() is not program:
            self.share_with_scope(program, scope)
            program.program.weights_from_host()
        self.write_learning_rate(scope, program.program.org_program)

    def write_learning_rate(self, scope: Scope, program: Program | None = None) -> None:
        """Writes the optimizer's learning rate of now into the Scope."""
        rate = np.asarray(self.optimizer.get_lr(), np.float32)
        dense = scope.var(self.step.learning_rate).get_tensor()
        if not dense._is_initialized():
            scopes.write(dense, rate)
        else:
            scopes.writable(dense)[...] = rate
        if program is not None and getattr(program, "lr_scheduler", None) is not None:
            program.lr_scheduler = self.optimizer._learning_rate

    def share_with_accumulators(self, scope: Scope) -> None:
        """Has the accumulators be what is in the Scope."""
        for name in self.step.states:
            dense = scopes.tensor(scope, name)
            if dense is not None:
                self._accumulator(name).get_tensor()._share_data_with(dense)


def _create_accumulators(optimizer: Optimizer, parameters: Sequence[Tensor]) -> None:
    """The accumulators that the first ``step`` in dynamic mode would make, with loaded state."""
    if optimizer.helper is None:
        optimizer.helper = LayerHelper(type(optimizer).__name__)
    block = framework.default_main_program().global_block()
    for group in _accumulator_groups(optimizer, parameters):
        optimizer._create_accumulators(block, group)


def _accumulator_groups(optimizer: Optimizer, parameters: Sequence[Tensor]) -> list[Any]:
    groups = optimizer._param_groups
    if not (groups and isinstance(groups[0], dict)):
        return [list(parameters)]
    wanted = {id(parameter) for parameter in parameters}
    return [
        {**group, "params": [p for p in group["params"] if id(p) in wanted]} for group in groups
    ]


def sync_state_to_host(optimizer: Optimizer) -> None:
    """Writes state that is on a device into the optimizer's accumulators."""
    holder = OptimizerState._holders.get(optimizer)
    program = None if holder is None else holder()
    if program is not None:
        program.sync_to_host()


def note_state_written(optimizer: Optimizer) -> None:
    """Notes that the accumulators hold newer state than any device."""
    OptimizerState._holders.pop(optimizer, None)


def for_one_run(strategy: Strategy, options: Mapping[str, Any]) -> Strategy:
    """The strategy without pipeline, loop, accumulation and replicas, and with other options."""
    single = for_one_micro_batch(strategy)
    single.set_options(dict(options))
    return single


def compiled(
    program: Program,
    scope: Scope,
    strategy: Strategy,
    feeds: Sequence[str],
    fetches: Sequence[str],
    first_passes: Sequence[Pass] = (),
) -> IpuProgram:
    """The program for the IPU."""
    compiler = IpuCompiledProgram.with_first_passes(program, scope, strategy, first_passes)
    return compiler.compile(feeds, fetches)


def arrays_of(feeds: Mapping[str, Tensor | Array]) -> dict[str, Array]:
    """Tensors, or arrays, as arrays."""
    return {
        name: value if isinstance(value, np.ndarray) else scopes.numbers(value.numpy())
        for name, value in feeds.items()
    }

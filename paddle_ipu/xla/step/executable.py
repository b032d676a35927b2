"""A step compiled as one XLA program, the arrays it works on, and its runs.

Weights and optimizer state are donated, so a step updates them in place; a step that changes none
only reads them, and one that an operator on the host may stop leaves the old ones until it has
ended. ``traced_step.py`` is what is compiled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.instances import heartbeat
from paddle_ipu.operating_system import process_memory
from paddle_ipu.options.process_changes import is_left_alone
from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.xla import process
from paddle_ipu.xla.lowerings import range_checks, residuals
from paddle_ipu.xla.lowerings.effects import ABORTED
from paddle_ipu.xla.lowerings.registry import HostArray, HostKernel
from paddle_ipu.xla.precision import half, integers
from paddle_ipu.xla.step import (
    constant_upload,
    feed_upload,
    instance_collectives,
    memory,
    step_trace,
    stored_step,
)
from paddle_ipu.xla.step.early_load import EarlyLoad
from paddle_ipu.xla.step.finite_checks import raise_unless_finite
from paddle_ipu.xla.step.lowering_errors import explaining_loops
from paddle_ipu.xla.step.optimizer_state import owned
from paddle_ipu.xla.step.replica_values import ReplicaValues
from paddle_ipu.xla.step.step_construction import make_step, segments_of
from paddle_ipu.xla.step.step_program import StepProgram
from paddle_ipu.xla.step.stored_executable import Entries
from paddle_ipu.xla.step.stored_step import CompiledStep
from paddle_ipu.xla.step.traced_step import Step

_POPART = logging.getLogger("popart.devicex")
Tree = dict[str, Any]
_WORD = 0xFFFFFFFF
_NO_MEMORY = "RESOURCE_EXHAUSTED"
"""How XLA's message begins where an allocation fails."""
_NO_SCALARS = np.zeros(0, np.float32)


@dataclass(slots=True)
class Executable:
    """A compiled step and the arrays it works on.

    Attributes:
        program: what was compiled.
        kernels: first result of an operator that runs on the host -> what runs it there.
        operand_ranges: first result of an operator -> the numbers it takes; others raise.
        weights: weight id -> array on the device.
        seed: of the random operators in the next micro-batch. As PopART's, with each micro-batch
            its high word goes up by one and its low word, to which a replica adds its number, by
            the number of all replicas.
    """

    program: StepProgram
    kernels: Mapping[str, HostKernel] = field(default_factory=dict)
    operand_ranges: Mapping[str, Sequence[OperandRange]] = field(default_factory=dict)
    weights: Tree = field(default_factory=dict)
    seed: int = 0
    _step: Step = field(init=False)
    _without_updates: Step = field(init=False)
    _traced: Any = None
    _compiled: CompiledStep | None = None
    _compiled_without_updates: CompiledStep | None = None
    _fits_state: bool = True
    _cache_path: str | None = None
    _saved: Entries | None = None
    _instances: instance_collectives.Instances | None = None
    _global_arrays: instance_collectives.GlobalArrays = field(
        default_factory=instance_collectives.GlobalArrays
    )
    _model_weights: dict[str, HostArray] = field(default_factory=dict)
    _is_shared: bool = False
    _told: set[range_checks.RangeCheck] = field(default_factory=set)
    # A step is given its weights and state, to update them in place.
    _donates: bool = field(init=False)

    def __post_init__(self) -> None:
        process.prepare()
        program = self.program
        if program.instances > 1:
            self._instances = instance_collectives.joined()
        self._step = make_step(program, self.kernels, self.operand_ranges)
        # A failure on the host would lose donated weights.
        self._donates = self._instances is not None or not self._step.graph.calls_host
        # Without updates only fetched gradients are needed, and no weight is stale.
        self._without_updates = replace(self._step, updating=False, trained=(), stale={})

    # -- arrays --------------------------------------------------------------------------------

    def upload(self, weights: Mapping[str, HostArray],
               state: Mapping[str, HostArray]) -> None:  # fmt: skip
        """Copies host arrays to the device; those not named stay as they are."""
        converted = self.program.layouts.on_device(weights, self._model_weights)
        packed = self.program.layouts.packed
        whole = {
            name: array if name in packed else self.program.spread(name, array)
            for name, array in converted.items()
        }
        with self._integers():
            if self._leaves_weights(self._step):
                wide = self.program.layouts.widened
                self.weights.update(constant_upload.put(whole, packed, wide))
            else:
                self.weights.update((name, owned(array)) for name, array in whole.items())
        for name, array in state.items():
            self._step.state.put(name, array)

    def share(self, other: Executable, names: Mapping[str, str]) -> None:
        """Takes the arrays of another executable, whose runs change none, for its own.

        Args:
            other: with its weights on the device.
            names: weight of this one -> weight of the other, shared where both are the same
                on the device.
        """
        layouts, others = self.program.layouts, other.program.layouts
        for own, name in names.items():
            array, held = other.weights.get(name), self.weights.get(own)
            if array is None or held is None or not layouts.are_alike(own, others, name):
                continue
            if self.program.weights[own] == other.program.weights[name] and (
                (array.shape, array.dtype) == (held.shape, held.dtype)
            ):
                self.weights[own] = array
                if own in self._model_weights:
                    self._model_weights[own] = other._model_weights[name]

    def upload_initial_state(self) -> None:
        """Gives state that the host has not set what it is before the first step."""
        updater = self.program.updater
        if updater is None or self._step.state.is_complete:
            return
        initial = {**updater.initial_state(self.weights), **self.program.own_state}
        for name, array in initial.items():
            if name not in self._step.state:
                self._step.state.put(name, array)

    @property
    def leaves_weights(self) -> bool:
        """Whether steps only read weights and state."""
        return self._leaves_weights(self._step)

    @property
    def draws(self) -> bool:
        """Whether the step draws random numbers from the seed; known once it is compiled."""
        return self._step.graph.draws if self._compiled is None else self._compiled.draws

    @property
    def runs_are_independent(self) -> bool:
        """Whether a step reads its weights only, and is made of paddle_ipu's own operators."""
        return self._leaves_weights(self._step) and self._step.graph.is_on_device

    @property
    def results_are_its_own(self) -> bool:
        """Whether no later step takes the memory of a step's results, as it takes the weights'."""
        return self._leaves_weights(self._step)

    def reserve_memory(self) -> None:
        """Makes room for the step's temporary buffers, which every run then uses again."""
        if self.temporary_bytes:
            memory.prepare_for(self.temporary_bytes)

    def reset_state(self, keep: Collection[str]) -> None:
        """Gives state what it is before the first step, but for the arrays named."""
        self._step.state.keep(keep)

    @property
    def host_weights(self) -> Tree:
        """Weight id -> array as the host reads it: replica 0's where each has its own.

        With `replica_values` it is that of the first replica of each group, or of every replica.
        """
        program = self.program
        if program.replicas == 1 and program.layouts.are_plain:
            return self.weights
        weights = {name: program.read(name, array) for name, array in self.weights.items()}
        return program.layouts.on_host(weights, program.weights, self._model_weights)

    @property
    def state(self) -> Tree:
        """Optimizer state name -> array on the device, or a part of one in the host's memory.

        State of a weight with `replica_values` is as the weight is.
        """
        state = self._step.state.by_name()
        for name in state.keys() & self._state_values.keys():
            state[name] = self._state_values[name].read(state[name], is_written=False)
        return state

    @property
    def _state_values(self) -> Mapping[str, ReplicaValues]:
        updater, values = self.program.updater, self.program.replica_values
        if updater is None or not values:
            return {}
        return {
            state: values[weight]
            for weight in updater.weights
            if weight in values
            for state in updater.states_of(weight)
        }

    def given(self, name: str, array: HostArray) -> HostArray:
        """An array of a weight or of optimizer state as the host gives it, given what it read."""
        values = self.program.replica_values.get(name) or self._state_values.get(name)
        return array if values is None else values.given(array)

    @property
    def state_names(self) -> Collection[str]:
        """Names of all state arrays of the optimizer."""
        return self._step.state.shapes.keys()

    def has_state(self, name: str) -> bool:
        """True when `name` is a state array of the optimizer."""
        return name in self._step.state.shapes

    def state_kind(self, name: str) -> tuple[tuple[int, ...], str]:
        """Shape and element type of a state array."""
        return self._step.state.shapes[name], self._step.state.dtype(name)

    # -- compilation ---------------------------------------------------------------------------

    def report_tracing(self, progress: Callable[[float], None] | None) -> None:
        """Has `progress` called with the percent of the graph's operators that are traced."""
        graph = self._step.graph
        count = max(1, len(graph.nodes))
        graph.progress = None if progress is None else lambda number: progress(100 * number / count)

    def trace(self) -> None:
        """Traces the step; the first half of a compilation."""
        process.check_fork()
        self._traced = self._lowered_for(None, self._step)
        watch = self._step.watch
        if watch is not None and not watch.has_counted:
            others = "" if watch.rule.halves_only else " Nor are there any of another type."
            raise popart_exception(
                "[AutomaticLossScale transform] No tracked gradient tensors of type fp16 were "
                f"found.{others} Compute in FLOAT16, or turn automatic loss scaling off."
            )

    def text_for(self, platform: str) -> str:
        """The step as StableHLO for a platform of JAX's, whether this machine has it or not."""
        return str(self._lowered_for(platform, self._step).as_text())

    def _lowered_for(self, platform: str | None, step: Step) -> Any:
        step.segments = segments_of(step)
        whole_step: Any = step.whole_step
        if self._instances is not None:
            whole_step = self._instances.step(whole_step, self.program.writes)
            # A recording tells the programs apart by their names.
            whole_step.__name__ = "whole_step" if step.updating else "without_updates"
        if self._leaves_weights(step):
            function = jax.jit(step.without_weights)
        else:
            function = jax.jit(whole_step, donate_argnums=(0, 1) if self._donates else ())
        on_cpu = (platform or jax.default_backend()) == "cpu"
        # Accelerators round the factors of float32 products by default.
        with (
            nullcontext() if on_cpu else jax.default_matmul_precision("highest"),
            self._integers(),
        ):
            with explaining_loops():
                traced = function.trace(*self._arguments())
            return traced.lower(lowering_platforms=None if platform is None else (platform,))

    def _integers(self) -> AbstractContextManager[Any]:
        """Lets JAX have integers of 64 bits where the program computes with such."""
        return integers.allowed_if(bool(self.program.in_64_bits))

    def _arguments(self) -> tuple[Any, ...]:
        """Shapes and dtypes of what the step takes."""
        weights = {
            name: _spec(self.program.on_device(name), self.program.layouts.dtype(name, dtype))
            for name, (_, dtype) in self.program.weights.items()
        }
        state = {
            name: _spec(shape, self._step.state.dtype(name))
            for name, shape in self._step.state.device_shapes().items()
        }
        feeds = {name: _spec(*kind) for name, kind in self._kinds_of_feeds.items()}
        scalars = _spec(self._scalars().shape, jnp.float32)
        counters = _spec((2,), jnp.uint32)
        arguments: tuple[Any, ...] = (weights, state, feeds, scalars, counters)
        if self._instances is None:
            return arguments
        return self._instances.specs(arguments, self.program.writes)

    def _leaves_weights(self, step: Step) -> bool:
        """Whether the compiled step only reads weights and state, and gives none back."""
        return not step.changes and self._instances is None

    @property
    def has_lost_weights(self) -> bool:
        """Whether a step that failed took weights or state with it."""
        try:
            _wait_for((self.weights, self._step.state.arrays()))
        except RuntimeError:
            return True
        return False

    def compile(self, cache_path: str | None = None, early: EarlyLoad | None = None) -> None:
        """Compiles the step, or loads it from the cache, in which case it need not be traced.

        Args:
            cache_path: the folder that keeps compiled programs for the next process.
            early: what is being loaded from it meanwhile.

        Raises:
            CacheError: the folder cannot be used.
            BackendUnavailableError: this process is a fork of one that compiled programs.
        """
        heartbeat.beat()
        process.check_fork()
        self._cache_path = cache_path
        with self._integers():
            self._compiled = self._obtain(self._step, early)
        if early is not None:
            early.close()
        self._traced = None
        if not is_left_alone("trim"):
            process_memory.give_back_freed()

    def _obtain(self, step: Step, early: EarlyLoad | None = None) -> CompiledStep:
        def lower() -> Any:
            if step is self._without_updates:
                return self._lowered_for(None, step)
            if self._traced is None:
                self.trace()
            return self._traced

        def options() -> dict[str, Any]:
            return self._compiler_options(step)

        devices = self._devices()
        if self._saved is not None:
            of_file = stored_step.found(
                self._saved, step, self._arguments(), devices, lower, options
            )
            if of_file is not None:
                return of_file
        if self._instances is not None:
            # The instances compare before any of them waits for another that compiles.
            key = "" if self._cache_path is None else stored_step.key_of(step, devices)
            if self._cache_path is None or not self._instances.agree(key):
                self._instances.check_same(lowered := lower())
                return self._kept(step, devices, lambda: lowered, options, is_traced=True)
        return self._kept(step, devices, lower, options, early=early)

    def _devices(self) -> list[Any]:
        """JAX's devices, on which a step runs."""
        if self._instances is not None:
            return list(self._instances.mesh.devices.flat)
        devices: list[Any] = jax.local_devices()[:1]
        return devices

    @staticmethod
    def _compiler_options(step: Step) -> dict[str, Any]:
        """XLA's options for a step that is traced."""
        options: dict[str, Any] = dict(half.COMPILER_OPTIONS)
        if (step.trained or step.graph.has_barriers) and residuals.on_cpu():
            options.update(residuals.COMPILER_OPTIONS)
        return options

    def _kept(
        self, step: Step, devices: Sequence[Any], lower: Callable[[], Any],
        options: Callable[[], dict[str, Any]], is_traced: bool = False,
        early: EarlyLoad | None = None,
    ) -> CompiledStep:  # fmt: skip
        if self._cache_path is None:
            return stored_step.compile_step(step, lower(), options())
        return stored_step.obtain(
            step, self._arguments(), devices, self._cache_path, lower, options, is_traced, early
        )

    # -- files ---------------------------------------------------------------------------------

    def saved(self, without_updates: bool) -> dict[str, tuple[dict[str, Any], bytes]]:
        """The compiled step as entries of a file: key -> (description, content).

        Args:
            without_updates: that step too, whether it has run or not.

        Raises:
            popart_exception: no other process could run it.
        """
        steps = [(self._step, self.compiled)]
        if without_updates or self._compiled_without_updates is not None:
            self._step_without_updates()
            assert self._compiled_without_updates is not None
            steps.append((self._without_updates, self._compiled_without_updates))
        entries = {}
        with self._integers():
            for step, made in steps:
                lowered, options = self._lowered_for(None, step), self._compiler_options(step)
                entries.update(stored_step.saved(step, made, self._devices(), lowered, options))
        return entries

    def load_saved(self, entries: Entries) -> bool:
        """Takes the compiled step from the entries of a file; False where it is not there."""
        process.check_fork()
        self._saved, before = entries, self._saved
        with self._integers():
            step = self._step
            loaded = stored_step.found(
                entries, step, self._arguments(), self._devices(),
                lambda: self._lowered_for(None, step), lambda: self._compiler_options(step),
            )  # fmt: skip
        if loaded is None:
            self._saved = before
            return False
        self._compiled, self._compiled_without_updates = loaded, None
        return True

    @property
    def compiled(self) -> CompiledStep:
        """The compiled step; it has to be there."""
        assert self._compiled is not None
        return self._compiled

    @property
    def temporary_bytes(self) -> int:
        """What the compiled step needs beside its arguments and results, by XLA's account."""
        return self.compiled.temporary_bytes

    def text(self) -> str:
        """The compiled program in XLA's own notation."""
        return str(self.compiled.compiled.as_text())

    def recording(self) -> AbstractContextManager[step_trace.Recording]:
        """Records the runs that happen inside, on the step and on the one without updates."""

        def texts() -> list[str]:
            steps = [self._compiled, self._compiled_without_updates]
            return [str(step.compiled.as_text()) for step in steps if step is not None]

        return step_trace.recording(texts)

    # -- running -------------------------------------------------------------------------------

    def run(self, feeds: Mapping[str, HostArray], updating: bool = True) -> dict[str, HostArray]:
        """One run; feeds and results have the loop dimensions in front.

        Args:
            feeds: what the program's inputs take.
            updating: whether weights and optimizer state change.

        Raises:
            OperandValueError: an operator read a number that is out of its range; weights and
                state are as before the batch with it.
            NumericalError: floats are checked and an operator gave NaN or infinity; weights and
                state are as before the run.
            popart_runtime_error: an Abort stopped the program, and weights and state are as before
                the run; or this machine has not the memory.
            BackendUnavailableError: this process is a fork of the one that compiled the program.
        """
        heartbeat.beat()
        process.check_fork()
        try:
            with self._integers():
                return self._run(feeds, updating)
        except jax.errors.JaxRuntimeError as error:
            if ABORTED in str(error):
                raise popart_runtime_error(ABORTED) from error
            if str(error).startswith(_NO_MEMORY):
                raise popart_runtime_error(
                    f"This machine has not the memory for a step: {error} Run fewer rows or "
                    "batches in a step; if the program comes from a file, that may be damaged."
                ) from error
            raise

    def _run(self, feeds: Mapping[str, HostArray], updating: bool) -> dict[str, HostArray]:
        if self._step.state.split_unequal():
            self._fits_state = False
        if not self._fits_state:
            self.compile(self._cache_path)
            self._fits_state = True
            self._compiled_without_updates = None
        step, compiled = self._step, self.compiled.compiled
        if not updating:
            step, compiled = self._without_updates, self._step_without_updates()
        range_checks.check_feeds(step.fed_checks, feeds)
        self._tell(range_checks.told_of_feeds(step.fed_checks, feeds))
        counters = np.asarray(self._seed_words(0), np.uint32)
        fed: dict[str, HostArray | jax.Array] = dict(feeds)
        if self._instances is None:
            run = compiled
            fed = feed_upload.uploaded(feeds)
        else:
            self._share_weights()
            run = partial(self._instances.run, compiled, self.program.writes, self._global_arrays)
        arguments = (
            self.weights, self._step.state.arrays(), fed, self._scalars(), counters
        )  # fmt: skip
        if self._leaves_weights(step):
            anchors, finite = run(*arguments)
        else:
            with process.DeferredSignals():
                weights, state, anchors, finite = run(*arguments)
                if not self._donates:
                    # A failure on the host is raised here, while the old ones are still there.
                    _wait_for((weights, state))
                self.weights = weights
                self._step.state.replace(state)
        if finite is not None:
            micro_batches = self.program.accumulation_factor * self.program.replicas
            raise_unless_finite(
                np.asarray(finite), step.checked, micro_batches, self.program.micro_batch
            )
        extremes = anchors.pop(range_checks.NAME, None)
        results = {name: np.asarray(array) for name, array in anchors.items()}
        program = self.program
        batches = program.batches_per_step
        if extremes is not None:
            updates = batches if step.changes else 0
            extremes = np.asarray(extremes)
            range_checks.check_extremes(step.checks, extremes, program.micro_batch, updates)
            self._tell(range_checks.told_of_extremes(step.checks, extremes))
        low, high = self._seed_words(batches * program.accumulation_factor)
        self.seed = low | high << 32
        return results

    def _tell(self, found: Iterable[range_checks.Told]) -> None:
        """Logs what was not logged yet of each operator."""
        for told in found:
            if told.check not in self._told:
                self._told.add(told.check)
                _POPART.warning("%s", told.message)

    @property
    def _kinds_of_feeds(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each feed as the step takes it."""
        program = self.program
        return {
            name: ((*program.feed_dims(name), *shape), dtype)
            for name, (shape, dtype) in program.inputs.items()
        }

    def _share_weights(self) -> None:
        """Before the first run, gives every instance the weights and state of instance 0."""
        if not self._is_shared:
            self.broadcast(0)

    def broadcast(self, root: int) -> None:
        """Gives every instance the weights and state of instance `root`; all must call it."""
        self._is_shared = True
        if self._instances is not None:
            with self._integers():
                self.weights = self._instances.from_instance(root, self.weights)
            state = self._step.state
            state.replace(self._instances.from_instance(root, state.arrays()))

    def _step_without_updates(self) -> Any:
        if self._compiled_without_updates is None:
            self._compiled_without_updates = self._obtain(self._without_updates)
        return self._compiled_without_updates.compiled

    def _seed_words(self, later: int) -> tuple[int, int]:
        """Low and high word of the seed, some micro-batches later."""
        low = self.seed + later * self.program.all_replicas
        return low & _WORD, ((self.seed >> 32) + later) & _WORD

    def _scalars(self) -> HostArray:
        updater = self.program.updater
        return _NO_SCALARS if updater is None else updater.scalars()


def _wait_for(arrays: Any) -> None:
    jax.block_until_ready(arrays)  # type: ignore[no-untyped-call]


def _spec(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

"""A session's runs: on step I/O, as in PopART, and on arrays.

A run on step I/O reads its inputs, does what a run on arrays does, and writes its outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.enums import AnchorReturnTypeId
from paddle_ipu.popart.names import ACCUMULATED_PREFIX, of_tensor
from paddle_ipu.popart.program import device_dtype, dims_of
from paddle_ipu.popart.stepio import PyStepIO, PyStepIOCallback, element_details
from paddle_ipu.popart.synthetic_data import synthetic_inputs
from paddle_ipu.sessions.option_checks import replication_factor
from paddle_ipu.sessions.weights import SessionWeights
from paddle_ipu.xla.process import DeferredSignals

if TYPE_CHECKING:
    from paddle_ipu.xla.step.step_trace import Recording

Array = np.ndarray[Any, Any]
StepIO = PyStepIO | PyStepIOCallback
Feeds = Mapping[str, Array]

_FORWARD_ONLY = "implicitPipeliningFwdOnly"
_WORD = 0xFFFFFFFF


class SessionRuns(SessionWeights):
    """Runs of a session, which sets the attributes without a value."""

    dataFlow: DataFlow
    _tensors: dict[str, ir.Value]
    _in_64_bits: Collection[str]
    _memory_is_reserved = False
    _io_checked = False
    _has_run = False

    # -- PopART's interface --------------------------------------------------------------------

    @property
    def accumulationFactor(self) -> int:
        """Micro-batches before a weight update."""
        options = self._options
        return int(options.accumulationFactor) if options.enableGradientAccumulation else 1

    @property
    def replicationFactor(self) -> int:
        """Replicas of the graph in this process."""
        return replication_factor(self._options)

    def run(
        self,
        *arguments: str | StepIO,
        programHandle: str | None = None,
        stepio: StepIO | None = None,
        debugName: str = "",
    ) -> None:
        """``run(stepio, debugName="")`` or ``run(programHandle, stepio, debugName="")``.

        Runs one step: reads the inputs of `stepio` and writes its outputs in place. The program
        ``implicitPipeliningFwdOnly`` is the step without updates. With synthetic data nothing is
        read and nothing is written.

        Raises:
            popart_exception: no program of that name.
            popart_runtime_error: not prepared, weights never uploaded in training, an input or
                output missing or of a wrong size or dtype.
        """
        everything = (programHandle, *arguments, stepio)
        io, updating = self._program_of([value for value in everything if value is not None])
        self._before_run()
        program = self._executable.program
        if self._synthetic:
            self._run_step(self._synthetic_inputs, updating)
        elif isinstance(io, PyStepIOCallback):
            feeds = io.step_inputs(program.inputs, program.loop_dims, program.broadcast)
            results = self._run_step(feeds, updating)
            io.step_outputs({name: self._by_micro_batch(name, results[name]) for name in results})
        else:
            results = self._run_step(self._inputs_of(io), updating)
            for name, array in results.items():
                io.output(name, array)

    def initAnchorArrays(self) -> dict[str, Array]:
        """Empty arrays: [batches, micro-batches, replicas], without ones, then the anchor's own.

        Anchors of kind ``Final`` and ``Sum`` have the dimension of the replicas only.

        Raises:
            popart_runtime_error: this machine has not the memory.
        """
        arrays = {}
        for anchor, (shape, dtype) in self._anchors.items():
            try:
                arrays[anchor] = np.empty(shape, dtype)
            except (MemoryError, ValueError) as error:
                raise popart_runtime_error(
                    f"The array of anchor {anchor}: {error}. Return it less often, by "
                    "AnchorReturnType, or run fewer batches in a step."
                ) from error
        return arrays

    def setRandomSeed(self, seedValue: int) -> None:
        """Makes random operators repeat from here on.

        Args:
            seedValue: an unsigned number of 64 bits.

        Raises:
            popart_exception: it is none.
        """
        if not 0 <= seedValue < 2**64:
            raise popart_exception(
                f"a random seed is a number from 0 to 2**64 - 1, got {seedValue}"
            )
        self._executable.seed = int(seedValue)

    def getRandomSeed(self) -> int:
        """The seed of the next micro-batch; setting it continues with the same random numbers."""
        return int(self._executable.seed)

    def getRNGState(self) -> list[int]:
        """The state of the device's random numbers, as 32-bit words.

        On the IPU Model these are the two words of the seed of the next micro-batch; none with
        synthetic data, as in PopART.

        Raises:
            popart_runtime_error: not prepared, or without ``enableLoadAndOffloadRNGState``.
        """
        self._require_rng_state("get", "getRngStateToHost")
        if self._synthetic:
            return []
        seed = self.getRandomSeed()
        return [seed & _WORD, seed >> 32]

    def setRNGState(self, rngValue: Collection[int]) -> None:
        """Restores what ``getRNGState`` returned, in this or another process.

        Does nothing with synthetic data.

        Raises:
            popart_runtime_error: not prepared, without ``enableLoadAndOffloadRNGState``, or words
                that are not two unsigned 32-bit numbers.
        """
        self._require_rng_state("set", "setRngStateFromHost")
        words = [int(word) for word in rngValue]
        if self._synthetic:
            return
        if len(words) != 2 or not all(0 <= word <= _WORD for word in words):
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(words)}; was expecting "
                "size 2. The RNG state of the IPU Model is 2 words of 32 bits, as getRNGState "
                f"gives them; got {words}"
            )
        self.setRandomSeed(words[0] | words[1] << 32)

    def _require_rng_state(self, verb: str, step: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                f"Trying to {verb} the RNG state, but the session option "
                "enableLoadAndOffloadRNGState must be set to True."
            )
        if not self._prepared:
            raise popart_runtime_error(
                f"Devicex::prepare() must be called before Devicex::{step} is called."
            )

    # -- beyond PopART's interface -------------------------------------------------------------

    def runArrays(self, inputs: Feeds, updating: bool = True) -> dict[str, Array]:
        """One step without step I/O, whose checks and copies the caller has done.

        Args:
            inputs: by tensor, the values of all micro-batches in the device's dtype, in C order;
                unread with synthetic data.
            updating: whether weights and optimizer state change. The step without updates is
                compiled by the first run that needs it.

        Returns:
            Anchor -> array as ``initAnchorArrays`` has it; zeros with synthetic data. They stay as
            they are whatever is run after, and of a step that changes nothing they are the
            device's own memory, which can only be read.

        Raises:
            popart_runtime_error: not prepared, weights never uploaded in training, an input
                missing or of another size.
        """
        self._before_run()
        if self._synthetic:
            self._run_step(self._synthetic_inputs, updating)
            return {name: np.zeros(shape, dtype) for name, (shape, dtype) in self._anchors.items()}
        try:
            feeds = {name: inputs[name].reshape(shape) for name, shape in self._feed_shapes.items()}
        except (KeyError, ValueError) as error:
            raise self._input_error(inputs) from error
        results = self._run_step(feeds, updating)
        # Of a step that changes weights a result may be one, whose memory the next step takes.
        as_kept = np.asarray if self._executable.results_are_its_own else np.array
        return {
            name: as_kept(results[name]).reshape(shape)
            for name, (shape, _) in self._anchors.items()
        }

    def runsAreIndependent(self) -> bool:
        """Whether threads may run the step at the same time, each with its own data.

        A run then leaves nothing for the next: no weights, state or random numbers. Nor does it
        call the host, where a user's code may be.
        """
        self._require_prepared("runsAreIndependent")
        draws = self._synthetic or self.drawsRandomNumbers()
        return not draws and bool(self._executable.runs_are_independent)

    def drawsRandomNumbers(self) -> bool:
        """Whether a run depends on the random seed; known once prepared."""
        self._require_prepared("drawsRandomNumbers")
        return bool(self._executable.draws)

    def recordRuns(self) -> AbstractContextManager[Recording]:
        """Records how the time of runs is spent; PopART's reports are about the device alone.

        Each run, and what belongs to it on the host, happens within the recording's ``run()``.

        Raises:
            popart_runtime_error: not prepared.
            MeasurementError: JAX's profiler is on already; at the end, that there was no run.
        """
        self._require_prepared("recordRuns")
        return self._executable.recording()

    def uninterrupted(self) -> AbstractContextManager[None]:
        """A block that defers Python's signal handlers to its end."""
        return DeferredSignals()

    # -- a run ---------------------------------------------------------------------------------

    def _before_run(self) -> None:
        self._require_device("run")
        self._require_weights("run")
        self._executable.upload_initial_state()
        if not self._memory_is_reserved:
            self._executable.reserve_memory()
            self._memory_is_reserved = True

    def _run_step(self, feeds: Feeds, updating: bool) -> dict[str, Array]:
        self._release_host_copies()
        results = self._executable.run(feeds, updating)
        self._has_run = True
        return results

    def _program_of(self, arguments: Sequence[str | StepIO]) -> tuple[StepIO, bool]:
        """(the step I/O, whether the step updates) of the arguments of ``run``."""
        if not 1 <= len(arguments) <= 3:
            raise TypeError(
                f"run takes (stepio, debugName) or (programHandle, stepio, debugName), got "
                f"{len(arguments)} arguments"
            )
        handle = arguments[0] if isinstance(arguments[0], str) else None
        if handle is not None and (
            handle != _FORWARD_ONLY or not self._options.createImplicitPipeliningFwdOnlyProgram
        ):
            raise popart_exception(f"[Devicex::run] Program {handle} not found.")
        stepio = next(argument for argument in arguments if not isinstance(argument, str))
        return stepio, handle is None

    # -- inputs --------------------------------------------------------------------------------

    def _inputs_of(self, io: PyStepIO) -> dict[str, Array]:
        """Inputs of a step; numbers of elements are checked in the first run."""
        program = self._executable.program
        first = not self._io_checked
        if first:
            io.check_inputs(str(value.name) for value in self._graph.inputs)
        feeds = {}
        for name, (shape, dtype) in program.inputs.items():
            details = self._details(shape) if first else ""
            whole = self._feed_shapes[name]
            feeds[name] = io.input(name, whole, dtype, first, details, max(prod(shape), 1))
        for expected in self._expected_outputs:
            io.check_output(*expected)
        self._io_checked = True
        return feeds

    @cached_property
    def _feed_shapes(self) -> dict[str, tuple[int, ...]]:
        """[batches, micro-batches, replicas, *shape] of each input, as far as there are several."""
        program = self._executable.program
        return {
            name: (*program.feed_dims(name), *shape) for name, (shape, _) in program.inputs.items()
        }

    @cached_property
    def _synthetic_inputs(self) -> dict[str, Array]:
        program = self._executable.program
        return synthetic_inputs(self._options.syntheticDataMode, program.inputs, program.feed_dims)

    def _input_error(self, inputs: Feeds) -> popart_runtime_error:
        for name, shape in self._feed_shapes.items():
            if name not in inputs:
                return popart_runtime_error(f"No tensor {name} is among the inputs of a run")
            if inputs[name].size != prod(shape):
                return popart_runtime_error(
                    f"Tensor {name} has {inputs[name].size} elements, a run takes {prod(shape)}"
                )
        raise AssertionError("every input fits")

    # -- outputs -------------------------------------------------------------------------------

    def _kind_of(self, tensor: str) -> tuple[tuple[int, ...], str] | None:
        """Shape and dtype of a tensor, or of a gradient and the like; None for no tensor."""
        value = self._tensors.get(tensor) or self._tensors.get(of_tensor(tensor))
        if value is None:
            return None
        updater = self._executable.program.updater
        if (
            tensor.startswith(ACCUMULATED_PREFIX)
            and updater is not None
            and updater.accumulator_dtype
        ):
            return dims_of(value), updater.accumulator_dtype
        return dims_of(value), device_dtype(value, self._in_64_bits)

    def _anchor_kind(self, anchor: str) -> tuple[tuple[int, ...], str]:
        kind = self._kind_of(anchor)
        assert kind is not None
        return kind

    @cached_property
    def _anchors(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Anchor -> shape and dtype of its array."""
        kinds = {}
        for anchor in self.dataFlow.anchors():
            shape, dtype = self._anchor_kind(anchor)
            kinds[anchor] = (*self._anchor_dims(anchor), *shape), dtype
        return kinds

    def _anchor_dims(self, anchor: str) -> tuple[int, ...]:
        kind = self.dataFlow.art(anchor)
        batches = self.dataFlow.batchesPerStep()
        dims: tuple[int, ...] = (self.replicationFactor,)
        if kind.id() is AnchorReturnTypeId.EveryN:
            batches //= kind.rp()
        if kind.id() in (AnchorReturnTypeId.All, AnchorReturnTypeId.EveryN):
            dims = (batches, self.accumulationFactor, *dims)
        return tuple(dim for dim in dims if dim > 1)

    def _by_micro_batch(self, anchor: str, array: Array) -> tuple[Array, list[int]]:
        """An anchor's values one after another, and the micro-batch of each."""
        kind = self.dataFlow.art(anchor)
        numbers = kind.micro_batches(self.dataFlow.batchesPerStep(), self.accumulationFactor)
        micro_batches = [number for number in numbers for _ in range(self.replicationFactor)]
        return array.reshape(len(micro_batches), *self._anchor_kind(anchor)[0]), micro_batches

    @cached_property
    def _expected_outputs(self) -> list[tuple[str, tuple[int, ...], str, str]]:
        """(anchor, shape, dtype, the end of PopART's message about a wrong number of elements)."""
        expected = []
        for anchor, (shape, dtype) in self._anchors.items():
            details = self._details(self._anchor_kind(anchor)[0])
            art = self.dataFlow.art(anchor).id().name.upper()
            details += f"\n   anchor return type  = {art}"
            expected.append((anchor, shape, dtype, details))
        return expected

    def _details(self, shape: tuple[int, ...]) -> str:
        return element_details(
            shape, self.dataFlow.batchesPerStep(), self.accumulationFactor, self.replicationFactor
        )

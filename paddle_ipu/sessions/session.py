"""Sessions: a PopART program compiled with XLA and run on the IPU Model.

The order of calls is PopART's: construct (the program is checked), ``prepareDevice`` (it is
compiled), ``weightsFromHost``, then ``run`` with a step I/O object, and ``weightsToHost`` before
``readWeights``. Weights and optimizer state stay on the device between runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.dataflow import DataFlow, InputShapeInfo
from paddle_ipu.popart.integer_widths import computed_in_64_bits
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.patterns import Patterns
from paddle_ipu.popart.placement import check_placement
from paddle_ipu.popart.program import (
    FINAL_LOSS_SCALE,
    broadcast_inputs,
    device_dtype,
    dims_of,
    load_model,
    saved_state,
    size_of,
    tensors_of,
    tensors_with_gradient,
    variable_writes,
)
from paddle_ipu.popart.stepio import PyStepIO, PyStepIOCallback, element_details
from paddle_ipu.popart.synthetic_data import synthetic_inputs
from paddle_ipu.popart.tensorinfo import TensorInfo
from paddle_ipu.sessions.checks import (
    check_clips,
    check_loss_scaling,
    check_options,
    check_recomputation,
    check_types,
    instances_of,
    replication_factor,
)
from paddle_ipu.sessions.devices import DeviceInfo
from paddle_ipu.sessions.extensions import SessionExtensions
from paddle_ipu.sessions.paddle_program import PaddleProgram
from paddle_ipu.sessions.report import SessionReports
from paddle_ipu.sessions.updater import updater_of
from paddle_ipu.sessions.weights import NO_ENGINE
from paddle_ipu.xla import process
from paddle_ipu.xla.optimizers.optimizer import Updater
from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph
from paddle_ipu.xla.rewrites.pipeline import rewrite
from paddle_ipu.xla.step.automatic_loss_scaling import AutomaticLossScaling
from paddle_ipu.xla.step.executable import Executable
from paddle_ipu.xla.step.recomputation import Recomputation
from paddle_ipu.xla.step.step_program import Anchor, StepProgram

Array = np.ndarray[Any, Any]
Model = ir.Model | bytes | str
"""A builder's model, by reference; a serialised one; or the name of a file."""
StepIO = PyStepIO | PyStepIOCallback

_GRADIENT = "Gradient___"
_FORWARD_ONLY = "implicitPipeliningFwdOnly"
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of sessions of both kinds, by PopART's names."""

    fnModel: Model
    dataFlow: DataFlow
    deviceInfo: DeviceInfo | None
    inputShapeInfo: InputShapeInfo | None
    patterns: Patterns | None
    userOptions: SessionOptions | None
    name: str
    paddleProgram: PaddleProgram | None


class Session(SessionExtensions, SessionReports):
    """What inference and training sessions share."""

    def __init__(
        self,
        arguments: _Arguments,
        loss: str | None = None,
        optimizer: Optimizer | PaddleOptimizer | None = None,
    ) -> None:
        kind = "TrainingSession" if loss is not None else "InferenceSession"
        if arguments.deviceInfo is None:
            raise popart_exception(f"Must pass a valid deviceInfo to {kind}::createFromOnnxModel")
        process.prepare()
        self.name = arguments.name
        self._device = arguments.deviceInfo
        self.dataFlow = arguments.dataFlow
        self._options = arguments.userOptions or SessionOptions()
        self._paddle = arguments.paddleProgram
        self._differentiated: set[str] = set()
        (arguments.patterns or Patterns()).check()
        model = load_model(arguments.fnModel, arguments.inputShapeInfo)
        self._model, self._graph = model, model.graph
        self._broadcast = broadcast_inputs(model)
        self._tensors = tensors_of(self._graph)
        self._loss = loss
        self._optimizer = optimizer
        super().__init__()
        self._io_checked = False
        self._updating = True
        self._reported_percent = -1
        self._check()
        self._writes = variable_writes(self._graph, training=self._loss is not None)
        self._in_64_bits: Collection[str] = ()
        if self._paddle is not None:
            changed = (*self._writes, *self._writes.values())
            fetched = self.dataFlow.anchors()
            self._in_64_bits = computed_in_64_bits(self._graph, changed, fetched)
        self._executable = self._build()
        self._executable.seed = secrets.randbits(64)

    # -- construction --------------------------------------------------------------------------

    def _check(self) -> None:
        options, training = self._options, self._loss is not None
        ipus = int(self._device.numIpus)
        check_options(options, training, ipus)
        self._instances = instances_of(options)
        check_clips(options, self._optimizer)
        check_types(self._graph, options)
        check_recomputation(self._graph, options)
        if options.automaticLossScalingSettings.enabled:
            self._tensors[FINAL_LOSS_SCALE] = ir.Value(
                name=FINAL_LOSS_SCALE, shape=ir.Shape(()), type=ir.TensorType(ir.DataType.FLOAT)
            )
        replicas = self.replicationFactor
        self._stages = check_placement(
            self._graph, options, self.dataFlow, training, ipus // replicas
        )
        known = self._tensors
        if not self.dataFlow.anchors() and not training:
            raise popart_exception("User must specify an anchor tensor when doing inference.")
        if self._loss is not None:
            if self._loss not in known:
                raise popart_exception(
                    f"Could not find loss tensor '{self._loss}' in main graph tensors"
                )
            if size_of(known[self._loss]) != 1:
                raise popart_exception(f"Loss tensor, '{self._loss}', must be a scalar tensor")
            self._differentiated = tensors_with_gradient(self._graph, self._loss)
        for anchor in self.dataFlow.anchors():
            self._check_anchor(anchor)

    def _check_anchor(self, anchor: str) -> None:
        tensor = anchor.removeprefix(_GRADIENT)
        if tensor not in self._tensors:
            raise popart_exception(
                f"Anchor tensor `{anchor}' not in Ir Tensors. The tensors are: "
                + ", ".join(sorted(self._tensors))
            )
        if tensor != anchor and tensor not in self._differentiated:
            why = (
                "there are no gradients in inference"
                if self._loss is None
                else f"the loss '{self._loss}' has no gradient with respect to '{tensor}'"
            )
            raise popart_exception(f"Anchor tensor `{anchor}' not in Ir Tensors. Note: {why}.")

    def _build(self) -> Executable:
        options = self._options
        updater = self._updater()
        state = saved_state(self._graph)
        kinds = {
            str(value.name): (dims_of(value), device_dtype(value, self._in_64_bits))
            for value in (*self._graph.inputs, *self._graph.initializers.values())
            if value.name not in state
        }
        weights = {name: kinds.pop(name) for name in self._graph.initializers if name in kinds}
        writes = self._writes
        precision, replicas = Precision.of(options), self.replicationFactor
        program = InferenceGraph(
            self._graph,
            weights,
            self.dataFlow.anchors(),
            checks_floats=bool(options.enableFloatingPointChecks),
            is_replicated=replicas > 1,
            unstable_softmax=precision.unstable_softmax,
        )
        if updater is None and not writes and self._instances == 1:
            program = rewrite(program, self._paddle.rewritten if self._paddle else None)
        in_64_bits = frozenset(self._in_64_bits)
        if self._paddle is not None and program.graph is not self._graph:
            in_64_bits |= computed_in_64_bits(program.graph)
        anchors = []
        for anchor in self.dataFlow.anchors():
            kind = self.dataFlow.art(anchor)
            text = str(kind.id().name).lower()
            anchors.append(Anchor(anchor, text, kind.rp() if text == "everyn" else 1))
        mean = options.accumulationAndReplicationReductionType.name == "Mean"
        running = options.meanAccumulationAndReplicationReductionStrategy.name == "Running"
        return Executable(
            StepProgram(
                graph=program.graph,
                inputs=kinds,
                weights=weights,
                writes=writes,
                anchors=tuple(anchors),
                batches_per_step=self.dataFlow.batchesPerStep(),
                accumulation_factor=self.accumulationFactor,
                replicas=replicas,
                instances=self._instances,
                broadcast=self._broadcast.intersection(kinds) if replicas > 1 else frozenset(),
                mean=mean,
                running_mean=running,
                loss=self._loss,
                updater=updater,
                # With accumulation all micro-batches of an update have the same weights.
                stages={} if options.enableGradientAccumulation else self._stages,
                check_floats=bool(options.enableFloatingPointChecks),
                precision=precision,
                automatic_loss_scaling=self._automatic_loss_scaling(),
                recomputation=Recomputation(options.autoRecomputation.name, self._stages or {}),
                layouts=program.layouts,
                in_64_bits=in_64_bits,
                integers_of_paddle=self._paddle is not None,
            ),
            kernels=self._paddle.kernels if self._paddle else {},
            operand_ranges=self._paddle.operand_ranges if self._paddle else {},
        )

    def _automatic_loss_scaling(self) -> AutomaticLossScaling | None:
        options = self._options
        if not options.automaticLossScalingSettings.enabled:
            return None
        check_loss_scaling(options, self._optimizer, self._differentiated)
        kept = {self._loss, *self._graph.initializers}
        clipped = any(self._tensors[str(name)].dtype is ir.DataType.FLOAT16 for name in kept)
        return AutomaticLossScaling.of(options, self.dataFlow.batchesPerStep(), clipped)

    def _updater(self) -> Updater | None:
        if self._loss is None:
            return None
        replicas = self.replicationFactor * self._instances
        return updater_of(
            self._optimizer, self._graph, self._differentiated, self._options,
            self.accumulationFactor, replicas,
        )  # fmt: skip

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

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program; without ``compileEngine`` it is only built.

        Raises:
            OutOfMemoryException: the machine that ``POPLAR_TARGET_OPTIONS`` names cannot hold it.
            OptionError, ReportError: autoReport options that make no sense, or whose folder cannot
                be written to; an unknown machine, or one with too few IPUs.
        """
        self._reported_percent = -1
        self._report_progress(5)
        if self._paddle is not None and self._paddle.progress is not None:
            self._executable.report_tracing(
                lambda percent: self._report_progress(5 + 0.4 * percent)
            )
        try:
            self._prepare()
        finally:
            self._executable.report_tracing(None)

    def _prepare(self) -> None:
        if self._options.compileEngine:
            self._check_memory()
            self._write_auto_report()
        cache = self._options.cachePath if self._options.enableEngineCaching else None
        if cache is None or not self._options.compileEngine:
            # A cached program need not be traced.
            self._executable.trace()
            self._report_progress(50)
        if not self._options.compileEngine:
            return
        # XLA compiles without Python's lock, and often leaves a processor idle.
        with ThreadPoolExecutor(2, "paddle_ipu-upload") as pool:
            uploaded = pool.submit(self._upload_initialisers)
            done = pool.submit(self._paddle.while_compiling, self) if self._paddle else None
            self._executable.compile(cache)
            self._same_on_device.update(uploaded.result())
            if done is not None:
                done.result()
        self._report_progress(100)
        self._prepared = True

    def _upload_initialisers(self) -> list[str]:
        kinds = self._executable.program.weights
        arrays = {n: self._host_array(n, *kinds[n]) for n in self._host if n in kinds}
        self._executable.upload(arrays, {})
        return list(arrays)

    def _report_progress(self, percent: float) -> None:
        # What is traced again is not reported again.
        progress = None if self._paddle is None else self._paddle.progress
        if progress is not None and int(percent) > self._reported_percent:
            self._reported_percent = int(percent)
            progress(self._reported_percent)

    def loadEngineAndConnectStreams(self) -> None:
        """Nothing is left to do once a program is compiled; popart_runtime_error before."""
        if not self._prepared:
            raise popart_runtime_error(NO_ENGINE)

    def setRandomSeed(self, seed: int) -> None:
        """Makes random operators repeat from here on; a seed is an unsigned 64-bit number."""
        if not 0 <= seed < 2**64:
            raise popart_exception(f"a random seed is a number from 0 to 2**64 - 1, got {seed}")
        self._executable.seed = int(seed)

    def getRandomSeed(self) -> int:
        """The seed of the next micro-batch; setting it continues with the same random numbers."""
        return int(self._executable.seed)

    def getRNGState(self) -> list[int]:
        """The state of the device's random numbers, as 32-bit words.

        On the IPU Model these are the two words of the seed of the next micro-batch.

        Raises:
            popart_exception: not prepared, or without ``enableLoadAndOffloadRNGState``.
        """
        self._require_rng_state("get")
        seed = self.getRandomSeed()
        return [seed & _WORD, seed >> 32]

    def setRNGState(self, state: Collection[int]) -> None:
        """Restores what ``getRNGState`` returned, in this or another process.

        Raises:
            popart_exception: not prepared, without ``enableLoadAndOffloadRNGState``, or words
                that are not two unsigned 32-bit numbers.
        """
        self._require_rng_state("set")
        words = [int(word) for word in state]
        if len(words) != 2 or not all(0 <= word <= _WORD for word in words):
            raise popart_exception(
                "The RNG state of the IPU Model is 2 words of 32 bits, as getRNGState gives them; "
                f"got {words}"
            )
        self.setRandomSeed(words[0] | words[1] << 32)

    def _require_rng_state(self, verb: str) -> None:
        if not self._prepared:
            raise popart_exception(
                f"Devicex::prepare() must be called before Session::{verb}RNGState() is called."
            )
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_exception(
                f"Trying to {verb} the RNG state, but the session option "
                "enableLoadAndOffloadRNGState must be set to True."
            )

    def getInfo(self, tensor: str) -> TensorInfo:
        """Shape and dtype of a tensor."""
        found = self._tensors.get(tensor.removeprefix(_GRADIENT))
        if found is None:
            raise popart_exception(f"Tensor {tensor} not found")
        dtype = device_dtype(found, self._in_64_bits)
        return TensorInfo(np.dtype(dtype), list(dims_of(found)))

    def initAnchorArrays(self) -> dict[str, Array]:
        """Empty arrays: [batches, micro-batches, replicas], without ones, then the anchor's own.

        Anchors of kind ``Final`` and ``Sum`` have the dimension of the replicas only.
        """
        arrays = {}
        for anchor in self.dataFlow.anchors():
            shape, dtype = self._anchor_kind(anchor)
            arrays[anchor] = np.empty(shape, dtype)
        return arrays

    def _anchor_kind(self, anchor: str) -> tuple[tuple[int, ...], str]:
        value = self._tensors[anchor.removeprefix(_GRADIENT)]
        dtype = device_dtype(value, self._in_64_bits)
        return (*self._anchor_dims(anchor), *dims_of(value)), dtype

    def _anchor_dims(self, anchor: str) -> tuple[int, ...]:
        kind = self.dataFlow.art(anchor)
        text = str(kind.id().name).lower()
        batches, micro = self.dataFlow.batchesPerStep(), self.accumulationFactor
        dims: tuple[int, ...] = (self.replicationFactor,)
        if text == "all":
            dims = (batches, micro, *dims)
        elif text == "everyn":
            dims = (batches // int(kind.rp()), micro, *dims)
        return tuple(dim for dim in dims if dim > 1)

    def setUpdating(self, updating: bool) -> None:
        """Sets whether runs change weights and optimizer state; PopART has none.

        The step without updates is compiled by the first run that needs it.
        """
        self._updating = updating

    def run(
        self,
        *arguments: str | StepIO,
        programHandle: str | None = None,
        stepio: StepIO | None = None,
        debugName: str = "",
    ) -> None:
        """``run(stepio, debugName="")`` or ``run(programHandle, stepio, debugName="")``.

        Runs one step: reads the inputs of `stepio` and writes its outputs in place. The program
        ``implicitPipeliningFwdOnly`` is the step without updates.

        Raises:
            popart_runtime_error: not prepared, weights never uploaded in training, an input or
                output missing or of a wrong size or dtype.
        """
        everything = (programHandle, *arguments, stepio)
        io, updating = self._program_of([value for value in everything if value is not None])
        self._require_prepared("run")
        self._require_weights("run")
        self._executable.upload_initial_state()
        if not self._io_checked:
            self._executable.reserve_memory()
        program = self._executable.program
        if self._synthetic:
            # No stream to or from the host is open: nothing is read and nothing is written.
            self._release_host_copies()
            self._executable.run(self._synthetic_inputs, updating)
            return
        first = not self._io_checked
        if isinstance(io, PyStepIOCallback):
            feeds = io.step_inputs(program.inputs, program.loop_dims, program.broadcast)
        else:
            if first:
                io.check_inputs(program.inputs)
            feeds = {}
            for name, (shape, dtype) in program.inputs.items():
                details = self._details(shape) if first else ""
                feeds[name] = io.input(
                    name, (*program.feed_dims(name), *shape), dtype, first, details
                )
            for expected in self._expected_outputs:
                io.check_output(*expected)
        self._io_checked = True
        self._release_host_copies()
        results = self._executable.run(feeds, updating)
        if isinstance(io, PyStepIOCallback):
            io.step_outputs({name: self._by_micro_batch(name, results[name]) for name in results})
            return
        for name, array in results.items():
            io.output(name, array)

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
        return stepio, self._updating if handle is None else False

    def _by_micro_batch(self, anchor: str, array: Array) -> tuple[Array, list[int]]:
        """An anchor's values one after another, and the micro-batch of each."""
        kind = self.dataFlow.art(anchor)
        numbers = kind.micro_batches(self.dataFlow.batchesPerStep(), self.accumulationFactor)
        micro_batches = [number for number in numbers for _ in range(self.replicationFactor)]
        own = dims_of(self._tensors[anchor.removeprefix(_GRADIENT)])
        return array.reshape(len(micro_batches), *own), micro_batches

    @cached_property
    def _synthetic_inputs(self) -> dict[str, Array]:
        executable, mode = self._executable, self._options.syntheticDataMode
        return synthetic_inputs(mode, executable.program.inputs, executable.program.feed_dims)

    @cached_property
    def _expected_outputs(self) -> list[tuple[str, tuple[int, ...], str, str]]:
        """(anchor, shape, dtype, the end of PopART's message about a wrong number of elements)."""
        expected = []
        for anchor in self.dataFlow.anchors():
            details = self._details(dims_of(self._tensors[anchor.removeprefix(_GRADIENT)]))
            art = self.dataFlow.art(anchor).id().name.upper()
            words = f"{details}\n   anchor return type  = {art}"
            expected.append((anchor, *self._anchor_kind(anchor), words))
        return expected

    def _details(self, shape: tuple[int, ...]) -> str:
        return element_details(
            shape, self.dataFlow.batchesPerStep(), self.accumulationFactor, self.replicationFactor
        )


class InferenceSession(Session):
    """Runs a program forward. Arguments and their order are PopART's, but for the last."""

    def __init__(
        self,
        fnModel: Model,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo | None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
        *,
        paddleProgram: PaddleProgram | None = None,
    ) -> None:
        super().__init__(
            _Arguments(
                fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name,
                paddleProgram,
            )
        )  # fmt: skip

    def getAllTensorIds(self) -> set[str]:
        """Ids of the main graph's tensors."""
        return set(self._tensors)


class TrainingSession(Session):
    """Runs a program forward and backward and updates its weights.

    Arguments and their order are PopART's, but for the last; `optimizer` may also be a
    :class:`PaddleOptimizer`, whose state tensors go by their variable names in ``readWeights`` and
    ``writeWeights``.
    """

    def __init__(
        self,
        fnModel: Model,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Optimizer | PaddleOptimizer,
        deviceInfo: DeviceInfo | None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
        *,
        paddleProgram: PaddleProgram | None = None,
    ) -> None:
        super().__init__(
            _Arguments(
                fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name,
                paddleProgram,
            ),
            loss,
            optimizer,
        )  # fmt: skip

    def getTensorIds(self) -> set[str]:
        """Ids of the main graph's tensors, those of gradients left out."""
        return set(self._tensors)

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """Copies the weights and optimizer state of instance `rootRank` to all instances.

        All instances must call it. The first run of a distributed program does so by itself, with
        those of instance 0.

        Raises:
            popart_runtime_error: not prepared, weights never uploaded, or no such instance.
        """
        self._require_prepared("broadcastWeights")
        self._require_weights("broadcastWeights")
        if not 0 <= rootRank < self._instances:
            raise popart_runtime_error(
                f"broadcastWeights got rootRank {rootRank}, but there are {self._instances} "
                "instances, numbered from 0"
            )
        self._executable.upload_initial_state()
        self._release_host_copies()
        self._executable.broadcast(rootRank)

    def updateOptimizerFromHost(self, optimizer: Optimizer | PaddleOptimizer) -> None:
        """Takes an optimizer of the same kind with other values, for instance a learning rate."""
        updater = self._executable.program.updater
        assert updater is not None
        updater.replace(optimizer)
        self._optimizer = optimizer

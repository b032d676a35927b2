"""Sessions: a PopART program compiled with XLA and run on the IPU Model.

The order of calls is PopART's: construct (the program is checked), ``prepareDevice`` (it is
compiled), ``weightsFromHost``, then ``run`` with a step I/O object, and ``weightsToHost`` before
``readWeights``. Weights and optimizer state stay on the device between runs.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.absent import Absent
from paddle_ipu.popart.dataflow import DataFlow, InputShapeInfo
from paddle_ipu.popart.integer_widths import computed_in_64_bits
from paddle_ipu.popart.names import GRADIENT_PREFIX, of_tensor
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.option_effects import check_effects
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.pattern_effects import check_pattern_effects, joined_losses
from paddle_ipu.popart.patterns import Patterns
from paddle_ipu.popart.placement import (
    check_exchange,
    check_placement,
    check_variables_on_one_graph,
    check_virtual_graphs,
)
from paddle_ipu.popart.poplibs_types import check_vertices
from paddle_ipu.popart.program import (
    broadcast_inputs,
    device_dtype,
    dims_of,
    load_model,
    saved_state,
    tensors_of,
    tensors_with_gradient,
    variable_writes,
)
from paddle_ipu.popart.tensorinfo import TensorInfo
from paddle_ipu.sessions.anchors import derived_tensors, own_tensors
from paddle_ipu.sessions.annotation_checks import (
    check_annotations,
    check_execution_phases,
    check_ranks_of_serialized_products,
    check_recomputation,
)
from paddle_ipu.sessions.checks import (
    check_anchors,
    check_batch_norms,
    check_clips,
    check_loss,
    check_loss_scaling,
    check_shards,
    check_types,
    check_variables,
)
from paddle_ipu.sessions.devices import DeviceInfo
from paddle_ipu.sessions.executables import SessionExecutables
from paddle_ipu.sessions.option_checks import (
    check_automatic_recomputation,
    check_buffering,
    check_io_tiles,
    check_local_replicas,
    check_main_loops,
    check_modify_checking,
    check_named_buffers,
    check_options,
    instances_of,
)
from paddle_ipu.sessions.paddle_program import PaddleProgram
from paddle_ipu.sessions.pruning import check_not_all_pruned
from paddle_ipu.sessions.report import SessionReports
from paddle_ipu.sessions.runs import SessionRuns
from paddle_ipu.sessions.updater import updater_of
from paddle_ipu.sessions.weight_groups import replica_values
from paddle_ipu.xla import process
from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph
from paddle_ipu.xla.rewrites.pipeline import rewrite
from paddle_ipu.xla.step.automatic_loss_scaling import AutomaticLossScaling
from paddle_ipu.xla.step.executable import Executable
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from paddle_ipu.xla.step.recomputation import Recomputation
from paddle_ipu.xla.step.step_program import Anchor, StepProgram

_LOGGER = logging.getLogger("popart.session")

Model = ir.Model | bytes | str
"""A builder's model, by reference; a serialised one; or the name of a file."""


_OF_IR = "there is no intermediate representation as PopART's C++ has it"
_OF_POPXL = "PopXL's own sessions use it, and there is no PopXL here"


class Session(SessionRuns, SessionExecutables, SessionReports):
    """What inference and training sessions share."""

    getIr = Absent(_OF_IR)
    _serializeIr = Absent(_OF_IR)
    getSerializedGraph = Absent("no Poplar makes a graph that could be serialised")

    def __init__(
        self,
        fnModel: Model,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo | None,
        inputShapeInfo: InputShapeInfo | None,
        patterns: Patterns | None,
        userOptions: SessionOptions | None,
        name: str,
        paddleProgram: PaddleProgram | None,
        loss: str | None = None,
        optimizer: Optimizer | PaddleOptimizer | None = None,
    ) -> None:
        kind = "TrainingSession" if loss is not None else "InferenceSession"
        if deviceInfo is None:
            raise popart_exception(f"Must pass a valid deviceInfo to {kind}::createFromOnnxModel")
        process.prepare()
        self.name = name
        self._device = deviceInfo
        self.dataFlow = dataFlow
        self._options = userOptions or SessionOptions()
        self._is_paddles = paddleProgram is not None
        self._paddle = paddleProgram or PaddleProgram()
        self._differentiated: set[str] = set()
        self._patterns = patterns or Patterns()
        self._patterns.check()
        replicas = self._options.getGlobalReplicationFactor()
        model = load_model(fnModel, inputShapeInfo, replicas)
        self._model, self._graph = model, model.graph
        self._broadcast = broadcast_inputs(model)
        self._tensors = tensors_of(self._graph)
        self._loss = loss
        self._optimizer = optimizer
        super().__init__()
        self._reported_percent = -1
        self._check()
        self._writes = variable_writes(self._graph, training=loss is not None)
        self._in_64_bits: Collection[str] = ()
        if self._is_paddles:
            changed = (*self._writes, *self._writes.values())
            fetched = self.dataFlow.anchors()
            self._in_64_bits = computed_in_64_bits(self._graph, changed, fetched)
        self._executable = self._build()
        self._executable.seed = secrets.randbits(64)

    # -- construction --------------------------------------------------------------------------

    def _check(self) -> None:
        options, training = self._options, self._loss is not None
        ipus = int(self._device.numIpus)
        check_effects(options)
        check_options(options, training, ipus)
        if not self._is_paddles:
            check_local_replicas(options)
            check_automatic_recomputation(options)
        self._instances = instances_of(options)
        check_clips(options, self._optimizer)
        check_types(self._graph, options)
        check_annotations(self._graph, options)
        check_recomputation(self._graph, options)
        check_execution_phases(self._graph, options)
        replicas = self.replicationFactor
        self._replica_values = replica_values(
            self._model, options, replicas, self._instances, training
        )
        self._stages = check_placement(
            self._graph, options, self.dataFlow, training, ipus // replicas
        )
        anchors = self.dataFlow.anchors()
        if not anchors and not training:
            raise popart_exception("User must specify an anchor tensor when doing inference.")
        if self._loss is not None:
            check_loss(self._loss, self._tensors)
            self._differentiated = tensors_with_gradient(self._graph, self._loss)
            check_shards(self._graph, self._differentiated)
            if not self._is_paddles:
                check_batch_norms(self._graph, self._differentiated)
                check_variables(self._graph, (self._loss, *map(of_tensor, anchors)))
        loss = None if self._loss is None else self._tensors[self._loss]
        own = own_tensors(options, self._optimizer, loss)
        self._own = {name: device_dtype(value) for name, value in own.items()}
        self._tensors.update(own)
        derived = derived_tensors(
            options, self._optimizer, self._loss, self._differentiated,
            self._graph.initializers, self._stages, self._graph,
        )  # fmt: skip
        check_anchors(anchors, self._tensors, derived)
        if not self._is_paddles:
            check_variables_on_one_graph(self._graph, options, training)
            check_exchange(self._model, options, self.dataFlow)
            check_main_loops(options, self.dataFlow)
            updated = variable_writes(self._graph, training=training).values()
            wanted = {*map(of_tensor, anchors), *updated}
            wanted.update(() if self._loss is None else (self._loss,))
            check_ranks_of_serialized_products(self._graph, options, wanted)
            check_not_all_pruned(self._graph, anchors, self._loss)

    def _build(self) -> Executable:
        options, writes = self._options, self._writes
        replicas = self.replicationFactor
        updater = None
        if self._loss is not None:
            updater = updater_of(
                self._optimizer, self._graph, writes, self._differentiated, options,
                self.accumulationFactor, replicas * self._instances, self._replica_values,
            )  # fmt: skip
        state = saved_state(self._graph)
        kinds = {
            str(value.name): (dims_of(value), device_dtype(value, self._in_64_bits))
            for value in (*self._graph.inputs, *self._graph.initializers.values())
            if value.name not in state
        }
        weights = {name: kinds.pop(name) for name in self._graph.initializers if name in kinds}
        precision = Precision.of(options)
        program = InferenceGraph(
            self._graph,
            weights.keys() - self._replica_values.keys(),
            [of_tensor(anchor) for anchor in self.dataFlow.anchors()],
            checks_floats=bool(options.enableFloatingPointChecks),
            is_replicated=replicas > 1,
            precision=precision,
        )
        if updater is None and not writes and self._instances == 1:
            program = rewrite(program, self._paddle.rewritten)
        in_64_bits = frozenset(self._in_64_bits)
        if self._is_paddles and program.graph is not self._graph:
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
                inputs={name: kind for name, kind in kinds.items() if self._is_read(name)},
                weights=weights,
                writes=writes,
                anchors=tuple(anchors),
                own=self._own,
                batches_per_step=self.dataFlow.batchesPerStep(),
                accumulation_factor=self.accumulationFactor,
                replicas=replicas,
                replica_values=self._replica_values,
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
                integers_of_paddle=self._is_paddles,
                joined_losses=joined_losses(self._graph, self._patterns, self._differentiated),
            ),
            kernels=self._paddle.kernels,
            operand_ranges=self._paddle.operand_ranges,
        )

    def _is_read(self, name: str) -> bool:
        """Whether an operator reads a tensor, or a run does."""
        fetched = (self._loss, *map(of_tensor, self.dataFlow.anchors()))
        return name in fetched or bool(self._tensors[name].uses())

    def _automatic_loss_scaling(self) -> AutomaticLossScaling | None:
        options = self._options
        if not options.automaticLossScalingSettings.enabled:
            return None
        check_loss_scaling(options, self._optimizer, self._differentiated, self._tensors)
        kept = {self._loss, *self._graph.initializers}
        clipped = any(self._tensors[str(name)].dtype is ir.DataType.FLOAT16 for name in kept)
        return AutomaticLossScaling.of(options, clipped, halves_only=not self._is_paddles)

    # -- PopART's interface --------------------------------------------------------------------

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program; without ``compileEngine`` it is only built.

        Args:
            loadEngine: also do what `loadEngineAndConnectStreams` does.

        Raises:
            popart_exception: an operator is on a virtual graph that the device has not; a pattern
                is off that would replace what PopART has no code for.
            poplar_exception: PopLibs does not compute an operator in its element type.
            popart_runtime_error: an engine is to be loaded on a device that is not there.
            OutOfMemoryException: the machine that ``POPLAR_TARGET_OPTIONS`` names cannot hold it.
            OptionError, ReportError: autoReport options that make no sense, or whose folder cannot
                be written to; an unknown machine, or one with too few IPUs.
        """
        of_replica = int(self._device.numIpus) // self.replicationFactor
        self._check_device_options()
        check_virtual_graphs(self._graph, self._options, of_replica)
        if not self._is_paddles:
            check_vertices(self._graph)
        self._reported_percent = -1
        self._report_progress(5)
        if self._paddle.progress is not None:
            self._executable.report_tracing(
                lambda percent: self._report_progress(5 + 0.4 * percent)
            )
        try:
            self._prepare()
        finally:
            self._executable.report_tracing(None)
        if loadEngine and self._prepared:
            self.loadEngineAndConnectStreams()

    def _check_device_options(self) -> None:
        options, program = self._options, self._executable.program
        # A Paddle program's IPU Model stands for IPUs with all their tiles.
        check_io_tiles(options, None if self._is_paddles else int(self._device.tilesPerIPU))
        check_modify_checking(options)
        check_named_buffers(options, self._tensors)
        check_buffering(options, program.inputs, self.dataFlow.anchors())

    def _check_patterns(self) -> None:
        updater = self._executable.program.updater
        anchors = self.dataFlow.anchors()
        wanted = {of_tensor(anchor) for anchor in anchors if anchor.startswith(GRADIENT_PREFIX)}
        wanted.update(() if updater is None else updater.weights)
        check_pattern_effects(self._graph, self._patterns, self._differentiated, wanted)

    def _prepare(self) -> None:
        self._check_patterns()
        if self._options.compileEngine:
            self._check_memory()
            self._write_auto_report()
        cache = self._options.cachePath if self._options.enableEngineCaching else None
        is_loaded = self._loaded_from is not None
        if (cache is None and not is_loaded) or not self._options.compileEngine:
            # A cached program need not be traced.
            self._executable.trace()
            self._report_progress(50)
        if not self._options.compileEngine:
            return
        # XLA compiles without Python's lock, and often leaves a processor idle.
        with ThreadPoolExecutor(2, "paddle_ipu-upload") as pool:
            uploaded = pool.submit(self._upload_initialisers)
            done = pool.submit(self._paddle.while_compiling, self)
            if not is_loaded:
                self._executable.compile(cache, self._paddle.early)
            self._same_on_device.update(uploaded.result())
            done.result()
        if cache is not None and not is_loaded and self._executable.compiled.origin == "loaded":
            _LOGGER.info("Loading serialized PopART executable from %s", cache)
        self._report_progress(100)
        self._prepared = True

    def _upload_initialisers(self) -> list[str]:
        program = self._executable.program
        names = [name for name in self._host if name in program.weights]
        arrays = {name: self._host_array(name, *program.given(name)) for name in names}
        self._executable.upload(arrays, {})
        return list(arrays)

    def _report_progress(self, percent: float) -> None:
        # What is traced again is not reported again.
        progress = self._paddle.progress
        if progress is not None and int(percent) > self._reported_percent:
            self._reported_percent = int(percent)
            progress(self._reported_percent)

    def compileAndExport(self, filename: str) -> None:
        """Compiles the program without loading it, and saves it with its variables.

        Args:
            filename: of a file, or of a folder, where it is ``executable.popef``.

        Raises:
            popart_exception: on a CPU or an IPU Model, as with PopART; a program that no other
                process could run, as one that calls Python.
            OSError: it cannot be written.
        """
        path = Path(os.path.expanduser(filename))
        self.require_saving()
        folder = path if path.is_dir() else path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise OSError(f"Unable to write to {folder}")
        self.prepareDevice(loadEngine=False)
        self.saveExecutable(str(path))

    def getInfo(self, tensor: str) -> TensorInfo:
        """Shape and dtype of a tensor.

        Args:
            tensor: its id, or ``Gradient___<id>`` and the like.

        Raises:
            popart_exception: the main graph has no such tensor.
        """
        kind = self._kind_of(tensor)
        if kind is None:
            raise popart_exception(f"Tensor {tensor} not found")
        return TensorInfo(np.dtype(kind[1]), list(kind[0]))

    # -- beyond PopART's interface -------------------------------------------------------------

    @property
    def graph(self) -> ir.Graph:
        """The program's graph."""
        return self._graph

    def temporaryBytes(self) -> int:
        """Bytes that a step takes beside weights, state, feeds and anchors."""
        self._require_prepared("temporaryBytes")
        return int(self._executable.temporary_bytes)

    def tensorsIn64Bits(self) -> int:
        """The number of tensors with integers of 64 bits."""
        return len(self._executable.program.in_64_bits)

    def executableOrigin(self) -> str:
        """Where the compiled program came from.

        ``compiled`` or ``loaded`` with engine caching, ``loaded`` after ``loadExecutable``,
        ``not kept: ...`` for a program that the cache does not take, and "" without engine caching.
        """
        self._require_prepared("executableOrigin")
        if self._loaded_from is not None:
            return "loaded"
        if not self._options.enableEngineCaching:
            return ""
        step = self._executable.compiled
        return f"not kept: {step.not_kept}" if step.not_kept else str(step.origin)


class InferenceSession(Session):
    """Runs a program forward. Arguments and their order are PopART's, but for the last."""

    fromIr = Absent(_OF_IR)
    copyDeviceWeightsToHost = Absent(f"{_OF_POPXL}; weightsToHost does that")
    markHostWeightsInSync = Absent(_OF_POPXL)
    markHostWeightsOutOfSync = Absent(_OF_POPXL)
    areHostWeightsInSync = Absent(_OF_POPXL)
    setEngineIsLoaded = Absent(_OF_POPXL)

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
            fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name,
            paddleProgram,
        )  # fmt: skip

    def checkInplacingAmbiguity(self) -> None:
        """Checks that no result depends on the order of operators that work in place.

        None does: XLA sees to it that what is still read is not overwritten.
        """

    def getAllTensorIds(self) -> set[str]:
        """Ids of the main graph's tensors."""
        return set(self._tensors)


class TrainingSession(Session):
    """Runs a program forward and backward and updates its weights.

    Arguments and their order are PopART's, but for the last; `optimizer` may also be a
    `PaddleOptimizer`, whose state tensors go by their variable names in ``readWeights`` and
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
            fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name,
            paddleProgram, loss, optimizer,
        )  # fmt: skip

    connectStreamToCallback = Absent("there are no Poplar streams to connect; use PyStepIOCallback")

    def updateEngineCache(self) -> None:
        """Looks for programs in the executable cache, as every ``prepareDevice`` does anyway.

        Raises:
            CacheError: with ``enableEngineCaching``, ``cachePath`` cannot be used.
        """
        options = self._options
        if options.enableEngineCaching and options.cachePath:
            ExecutableCache(options.cachePath)

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
        self._require_device("broadcastWeights")
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

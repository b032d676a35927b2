"""Sessions: a PopART program compiled with XLA and run on the IPU Model.

The order of calls is PopART's: construct (the program is checked), ``prepareDevice`` (it is
compiled), ``weightsFromHost``, then ``run`` with a step I/O object, and ``weightsToHost`` before
``readWeights``. Weights and optimizer state stay on the device between runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import (
    LoweringError,
    NotSupported,
    popart_exception,
    popart_runtime_error,
)
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.patterns import Patterns
from paddle_ipu.popart.stepio import PyStepIOCallback, element_details
from paddle_ipu.popart.tensorinfo import TensorInfo

Array = np.ndarray[Any, Any]
ProgressListener = Callable[[int, int], None]

_GRADIENT = "Gradient___"
_DEVICE_DTYPES = {"int64": "int32", "uint64": "uint32", "float64": "float32"}
_ART = {"all": "all", "final": "final", "sum": "sum", "everyn": "everyn"}


class _Session:
    """What inference and training sessions share."""

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        deviceInfo: Any,
        patterns: Patterns | None,
        userOptions: SessionOptions | None,
        name: str,
        loss: str | None,
        optimizer: Any,
    ) -> None:
        kind = "TrainingSession" if loss is not None else "InferenceSession"
        if deviceInfo is None:
            raise popart_exception(f"Must pass a valid deviceInfo to {kind}::createFromOnnxModel")
        self.name = name
        self.dataFlow = dataFlow
        self._options = userOptions or SessionOptions()
        (patterns or Patterns()).check()
        self._graph = load_model(fnModel).graph
        self._loss = loss
        self._optimizer = optimizer
        # Values on their way to the device, and those on their way back.
        self._pending: dict[str, Array] = {
            name: value.const_value.numpy()
            for name, value in self._graph.initializers.items()
            if value.const_value is not None
        }
        self._fetched: dict[str, Any] = {}
        self._read: set[str] = set()
        self._uploaded = False
        self._io_checked = False
        self._seed = secrets.randbits(32)
        self._progress: ProgressListener | None = None
        self._check()
        self._executable: Any = self._build()
        self._executable.seed = self._seed
        self._prepared = False

    # -- construction --------------------------------------------------------------------------

    def _check(self) -> None:
        options, training = self._options, self._loss is not None
        if options.accumulationFactor > 1 and not options.enableGradientAccumulation:
            raise popart_exception(
                "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable "
                "gradient accumulation, or set the accumulation factor to 1."
            )
        if options.enableGradientAccumulation and not training:
            raise popart_exception("Gradient Accumulation only available when training.")
        if options.replicatedGraphCount > 1 and not options.enableReplicatedGraphs:
            raise popart_exception(
                "enableReplicatedGraphs is false, but replicatedGraphCount > 1. Either enable "
                "replicated graphs, or set the replicated graph count to 1."
            )
        if options.enableReplicatedGraphs and options.replicatedGraphCount > 1:
            raise NotSupported("replicated graphs are not supported by the IPU Model yet.")
        known = self._tensors()
        if not self.dataFlow.anchors() and not training:
            raise popart_exception("User must specify an anchor tensor when doing inference.")
        for anchor in self.dataFlow.anchors():
            tensor = anchor.removeprefix(_GRADIENT)
            if tensor not in known or (anchor.startswith(_GRADIENT) and not training):
                raise popart_exception(
                    f"Anchor tensor `{anchor}' not in Ir Tensors. The tensors are: "
                    + ", ".join(sorted(known))
                )
        if self._loss is not None:
            if self._loss not in known:
                raise popart_exception(
                    f"Could not find loss tensor '{self._loss}' in main graph tensors"
                )
            if _size(known[self._loss]) != 1:
                raise popart_exception(f"Loss tensor, '{self._loss}', must be a scalar tensor")

    def _tensors(self) -> dict[str, ir.Value]:
        tensors = {str(value.name): value for value in self._graph.inputs}
        tensors.update(self._graph.initializers)
        for node in self._graph:
            tensors.update((str(value.name), value) for value in node.outputs)
        return tensors

    def _build(self) -> Any:
        from paddle_ipu.xla.executable import Anchor, Executable, StepProgram

        options = self._options
        inputs = {
            str(value.name): (_shape(value), _device_dtype(value))
            for value in self._graph.inputs
            if value.name not in self._graph.initializers
        }
        anchors = []
        for anchor in self.dataFlow.anchors():
            kind = self.dataFlow.art(anchor)
            text = str(kind.id().name).lower()
            period = int(kind.rp()) if text == "everyn" else 1
            anchors.append(Anchor(anchor, _ART[text], period))
        mean = options.accumulationAndReplicationReductionType.name == "Mean"
        running = options.meanAccumulationAndReplicationReductionStrategy.name == "Running"
        return Executable(
            StepProgram(
                graph=self._graph,
                inputs=inputs,
                weights={
                    name: (_shape(value), _device_dtype(value))
                    for name, value in self._graph.initializers.items()
                },
                anchors=tuple(anchors),
                batches_per_step=self.dataFlow.batchesPerStep(),
                accumulation_factor=self.accumulationFactor,
                mean=mean,
                running_mean=running,
                loss=self._loss,
                updater=self._updater(),
                check_floats=bool(options.enableFloatingPointChecks),
            )
        )

    def _updater(self) -> Any:
        if self._loss is None:
            return None
        from paddle_ipu.xla.optimizer import PaddleUpdater
        from paddle_ipu.xla.popart_optimizer import SGDUpdater

        names = tuple(
            name
            for name, value in self._graph.initializers.items()
            if np.issubdtype(_device_dtype(value), np.floating)
        )
        if isinstance(self._optimizer, PaddleOptimizer):
            return PaddleUpdater(self._optimizer, {name: name for name in names})
        if isinstance(self._optimizer, SGD):
            mean = self._options.accumulationAndReplicationReductionType.name == "Mean"
            return SGDUpdater(self._optimizer, names, self.accumulationFactor if mean else 1)
        raise NotSupported(
            f"the IPU Model has no lowering of the optimizer {type(self._optimizer).__name__} yet; "
            "use popart.SGD, or a Paddle program with any optimizer it supports."
        )

    # -- PopART's interface --------------------------------------------------------------------

    @property
    def accumulationFactor(self) -> int:
        """Micro-batches before a weight update."""
        options = self._options
        return int(options.accumulationFactor) if options.enableGradientAccumulation else 1

    @property
    def replicationFactor(self) -> int:
        """Replicas of the graph in this process."""
        return 1

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compiles the program."""
        self._report(20)
        self._executable.trace()
        self._report(50)
        cache = self._options.cachePath if self._options.enableEngineCaching else None
        self._executable.compile(cache)
        self._report(100)
        self._prepared = True

    def setProgressListener(self, listener: ProgressListener | None) -> None:
        """Calls `listener(progress, total)` while ``prepareDevice`` works.

        PopART has this as the session option ``compilationProgressLogger`` in C++ only.
        """
        self._progress = listener

    def _report(self, percent: int) -> None:
        if self._progress is not None:
            self._progress(percent, 100)

    def weightsFromHost(self) -> None:
        """Copies the host's weights and optimizer state to the device."""
        self._require_prepared("weightsFromHost")
        self._upload()

    def _upload(self) -> None:
        weights, state = {}, {}
        for name, array in self._pending.items():
            kind = self._executable.program.weights.get(name)
            if kind is None:
                state[name] = array.astype(np.float32, copy=False)
            else:
                weights[name] = array.astype(kind[1], copy=False)
        self._executable.upload(weights, state)
        self._pending = {}
        self._uploaded = True

    def weightsToHost(self) -> None:
        """Takes a snapshot of weights and optimizer state for ``readWeights``."""
        self._require_prepared("weightsToHost")
        self._executable.upload_initial_state()
        self._fetched = {**self._executable.weights, **self._executable.state}
        self._read = set()

    def readWeights(self, weightsIo: Any) -> None:
        """Copies the snapshot into the arrays of a ``PyWeightsIO``.

        What was read is dropped by the next ``run``; call ``weightsToHost`` to read it again.
        """
        for name, array in weightsIo.weights.items():
            source = self._fetched.get(name)
            if source is None:
                raise popart_runtime_error(
                    f"readWeights, no tensor '{name}' in tensors; call weightsToHost first"
                )
            np.copyto(array, np.asarray(source).reshape(array.shape), casting="same_kind")
            self._read.add(name)

    def writeWeights(self, weightsIo: Any) -> None:
        """Replaces the host's values; ``weightsFromHost`` then takes them to the device."""
        for name, array in weightsIo.weights.items():
            if name not in self._executable.program.weights and not self._executable.has_state(
                name
            ):
                raise popart_runtime_error(f"resetWeights, no tensor '{name}' in tensors")
            self._pending[name] = array

    def modelToHost(self, filename: str) -> None:
        """Writes the program with the device's weights and optimizer state as an ONNX file."""
        self._require_prepared("modelToHost")
        model = ir.Model(self._graph.clone(), ir_version=4, producer_name="paddle_ipu")
        arrays = {**self._executable.weights, **self._executable.state}
        for name, array in arrays.items():
            tensor = ir.tensor(np.asarray(array), name=name)
            if name in model.graph.initializers:
                model.graph.initializers[name].const_value = tensor
            else:
                value = ir.Value(
                    name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype)
                )
                value.const_value = tensor
                model.graph.initializers[name] = value
        ir.save(model, filename)

    def setRandomSeed(self, seed: int) -> None:
        """Makes random operators repeat from here on."""
        self._seed = int(seed)
        self._executable.seed = self._seed
        self._executable.micro_batches = 0

    def getRandomSeed(self) -> int:
        """The seed in use."""
        return self._seed

    def getInfo(self, tensor: str) -> TensorInfo:
        """Shape and dtype of a tensor."""
        found = self._tensors().get(tensor.removeprefix(_GRADIENT))
        if found is None:
            raise popart_exception(f"Tensor {tensor} not found")
        return TensorInfo(_device_dtype(found), list(_shape(found)))

    def initAnchorArrays(self) -> dict[str, Array]:
        """Empty arrays: [batches, micro-batches], ones left out, then the anchor's own shape."""
        arrays = {}
        for anchor in self.dataFlow.anchors():
            value = self._tensors()[anchor.removeprefix(_GRADIENT)]
            arrays[anchor] = np.empty(
                (*self._anchor_dims(anchor), *_shape(value)), _device_dtype(value)
            )
        return arrays

    def _anchor_dims(self, anchor: str) -> tuple[int, ...]:
        kind = self.dataFlow.art(anchor)
        text = str(kind.id().name).lower()
        batches, micro = self.dataFlow.batchesPerStep(), self.accumulationFactor
        if text == "all":
            dims: tuple[int, ...] = (batches, micro)
        elif text == "everyn":
            dims = (batches // int(kind.rp()), micro)
        else:
            dims = ()
        return tuple(dim for dim in dims if dim > 1)

    def run(self, stepio: Any, debugName: str = "") -> None:
        """Runs one step: reads the inputs of `stepio` and writes its outputs in place.

        Raises:
            popart_runtime_error: not prepared, weights never uploaded in training, an input or
                output missing or of a wrong size or dtype.
        """
        self._require_prepared("run")
        if not self._uploaded and self._loss is None:
            self._upload()
        if not self._uploaded:
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the model has initializers and the "
                "session has been created in training mode"
            )
        if not self._io_checked:
            self._executable.upload_initial_state()
            self._executable.reserve_memory()
        program = self._executable.program
        dims = self._executable.loop_dims
        callbacks = isinstance(stepio, PyStepIOCallback)
        first = not self._io_checked
        if first and not callbacks:
            stepio.check_inputs(program.inputs)
        feeds = {}
        for name, (shape, dtype) in program.inputs.items():
            details = self._details(shape) if first else ""
            whole = (*dims, *shape)
            feeds[name] = (
                stepio.input(name, whole, dtype, first, details, tensor_rank=len(shape))
                if callbacks
                else stepio.input(name, whole, dtype, first, details)
            )
        self._io_checked = True
        # The run reuses the memory of the arrays a snapshot refers to: what was read may go.
        self._fetched = {
            name: np.array(array) for name, array in self._fetched.items() if name not in self._read
        }
        for name, array in self._executable.run(feeds).items():
            if callbacks:
                loops = len(self._anchor_dims(name))
                for micro_batch in array.reshape(-1, *array.shape[loops:]):
                    stepio.next_output(name, micro_batch)
            else:
                stepio.output(name, array)

    def _details(self, shape: tuple[int, ...]) -> str:
        return element_details(shape, self.dataFlow.batchesPerStep(), self.accumulationFactor, 1)

    def _require_prepared(self, what: str) -> None:
        if not self._prepared:
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::"
                f"{what}(const IStepIO &) is called."
            )


class InferenceSession(_Session):
    """Runs a program forward. Arguments and their order are PopART's."""

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        deviceInfo: Any,
        inputShapeInfo: Any = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
    ) -> None:
        super().__init__(fnModel, dataFlow, deviceInfo, patterns, userOptions, name, None, None)


class TrainingSession(_Session):
    """Runs a program forward and backward and updates its weights.

    Arguments and their order are PopART's; `optimizer` may also be a :class:`PaddleOptimizer`,
    whose state tensors go by their variable names in ``readWeights`` and ``writeWeights``.
    """

    def __init__(
        self,
        fnModel: Any,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Any,
        deviceInfo: Any,
        inputShapeInfo: Any = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
    ) -> None:
        super().__init__(
            fnModel, dataFlow, deviceInfo, patterns, userOptions, name, loss, optimizer
        )

    def updateOptimizerFromHost(self, optimizer: Any) -> None:
        """Takes an optimizer of the same kind with other values, for instance a learning rate."""
        self._executable.program.updater.replace(optimizer)
        self._optimizer = optimizer


def load_model(model: Any) -> ir.Model:
    """The model behind bytes, a file name, a builder's model or a builder's proto.

    Raises:
        LoweringError: none of these.
    """
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, bytes):
        import onnx

        return ir.serde.deserialize_model(onnx.load_model_from_string(model))
    if isinstance(model, str):
        return ir.load(model)
    raise LoweringError(
        f"expected a model as bytes, as a file name or as onnx_ir.Model, got {type(model).__name__}"
    )


def _shape(value: ir.Value) -> tuple[int, ...]:
    return () if value.shape is None else tuple(int(dim) for dim in value.shape.numpy())


def _size(value: ir.Value) -> int:
    return int(np.prod(_shape(value), dtype=np.int64))


def _device_dtype(value: ir.Value) -> str:
    assert value.dtype is not None
    name = value.dtype.numpy().name
    return _DEVICE_DTYPES.get(name, name)

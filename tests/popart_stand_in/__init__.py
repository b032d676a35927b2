"""A recording stand-in for Graphcore's ``popart`` 3.4: only documented names, orders and types.

``make_popart()`` returns a module-like object; whatever PopART's Python interface does not have
raises AttributeError or TypeError here, as it would there. Every call is recorded in ``.calls`` as
``(name, args, kwargs)``, and running a session writes zeros of the right shape. It shares no code
with ``paddle_ipu.popart`` but the operator table's shape inference, so that it can catch a wrong
name or order in it.
"""

# The names are PopART's, and enumerations are made at run time.
# ruff: noqa: F821, N802, N803, N815

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx_ir

from paddle_ipu.popart.program import load_model
from paddle_ipu.popart.schema import schema_of
from tests.popart_stand_in.builder import (
    Builder,
    CommGroup,
    InputSettings,
    TensorInfo,
    VariableSettings,
)
from tests.popart_stand_in.core import (
    ENUMS,
    Calls,
    Recorded,
    checked,
    popart_exception,
    popart_runtime_error,
    record_methods,
)
from tests.popart_stand_in.options import (
    SGD,
    Adam,
    Adaptive,
    AnchorReturnType,
    ClipNormSettings,
    DataFlow,
    InputShapeInfo,
    Optimizer,
    Patterns,
    SessionOptions,
)

# -- devices, step data, sessions -----------------------------------------------------------------


@record_methods
class DeviceInfo(Recorded):
    """A device."""

    def __init__(self, kind: Any, num_ipus: int, tiles: int) -> None:
        self._type, self._num_ipus, self._tiles = kind, num_ipus, tiles

    type = property(lambda self: self._type)
    numIpus = property(lambda self: self._num_ipus)
    tilesPerIPU = property(lambda self: self._tiles)
    isAttached = property(lambda self: True)

    def attach(self) -> bool:
        return True

    def detach(self) -> None:
        pass

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()


@record_methods
class DeviceManager(Recorded):
    """Gives out as many IPUs as are asked for."""

    def __init__(self) -> None:
        pass

    def createCpuDevice(self) -> DeviceInfo:
        return DeviceInfo(ENUMS["DeviceType"].Cpu, 1, 1)

    def createIpuModelDevice(self, options: dict[str, Any], /) -> DeviceInfo:
        if set(options) - {"numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion"}:
            raise popart_exception(f"Invalid option among {sorted(options)} passed to Devicex")
        count, tiles = int(options.get("numIPUs", 1)), int(options.get("tilesPerIPU", 4))
        return DeviceInfo(ENUMS["DeviceType"].IpuModel, count, tiles)

    def createOfflineIPUDevice(self, opts: dict[str, Any]) -> DeviceInfo:
        return DeviceInfo(ENUMS["DeviceType"].OfflineIpu, int(opts.get("numIPUs", 1)), 1472)

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern | None = None,
        connectionType: DeviceConnectionType | None = None,
        selectionCriterion: DeviceSelectionCriterion | None = None,
    ) -> DeviceInfo | None:
        if numIpus & (numIpus - 1):
            raise popart_exception(
                f"You have attempted to acquire {numIpus} IPUs. The number of IPUs requested must "
                "be a power of two"
            )
        return DeviceInfo(ENUMS["DeviceType"].Ipu, numIpus, 1472)

    def acquireAvailableDevice(self, numIpus: int = 1, tilesPerIpu: int = 0) -> Any:
        return DeviceInfo(ENUMS["DeviceType"].Ipu, numIpus, 1472)


Arrays = dict[str, np.ndarray]  # type: ignore[type-arg]


def _need_contiguous(arrays: Arrays, kind: str) -> None:
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise popart_exception(f"{kind}: tensor '{name}' as it is not c-contiguous")


@record_methods
class PyStepIO(Recorded):
    """Arrays of a step."""

    def __init__(self, inputs: Arrays, outputs: Arrays) -> None:
        _need_contiguous({**inputs, **outputs}, "PyStepIO")
        self._inputs, self._outputs = inputs, outputs

    def enableRuntimeAsserts(self, on: bool, /) -> None:
        pass


@record_methods
class PyWeightsIO(Recorded):
    """Arrays of weights."""

    def __init__(self, weights: Arrays) -> None:
        _need_contiguous(weights, "PyWeightsIO")
        self._weights = weights


class _Session(Recorded):
    """What both sessions do."""

    _training = False

    def _create(
        self, model: Any, flow: DataFlow, options: SessionOptions | None, loss: str | None
    ) -> None:
        proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        # An operator that PopART does not have is refused when the session is made.
        for node in proto.graph.node:
            schema = schema_of(node.domain, node.op_type)
            if schema is None or not schema.portable:
                raise popart_exception(f"No class for {node.domain}.{node.op_type}:1")
        self._options = options
        self._flow = flow
        self._shapes: dict[str, tuple[list[int], Any]] = {}
        described = (*proto.graph.input, *proto.graph.value_info, *proto.graph.output)
        if not all(item.HasField("type") for item in described):
            # What subgraphs give is known when they are run, what groups of replicas have here.
            replicas = 1 if options is None else int(options.replicatedGraphCount)
            typed = load_model(proto.SerializeToString(), None, replicas)
            proto = onnx_ir.serde.serialize_model(typed)
        for item in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
            tensor = item.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            dtype = {"int64": np.dtype("int32"), "uint64": np.dtype("uint32")}.get(
                dtype.name, dtype
            )
            self._shapes[item.name] = ([dim.dim_value for dim in tensor.shape.dim], dtype)
        self._weights = {
            item.name: onnx.numpy_helper.to_array(item) for item in proto.graph.initializer
        }
        self._streams = [item.name for item in proto.graph.input if item.name not in self._weights]
        if not flow._anchors and not self._training:
            raise popart_exception("User must specify an anchor tensor when doing inference.")
        for name in flow._anchors:
            if name.removeprefix("Gradient___") not in self._shapes:
                raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.")
        if loss is not None:
            if loss not in self._shapes:
                raise popart_exception(f"Could not find loss tensor '{loss}' in main graph tensors")
            if int(np.prod(self._shapes[loss][0])) != 1:
                raise popart_exception(f"Loss tensor, '{loss}', must be a scalar tensor")
        self._prepared = self._loaded = False

    @property
    def accumulationFactor(self) -> int:
        options = self._options
        return int(options.accumulationFactor) if options is not None else 1

    @property
    def replicationFactor(self) -> int:
        options = self._options
        return int(options.replicatedGraphCount) if options is not None else 1

    @property
    def dataFlow(self) -> DataFlow:
        return self._flow

    def _anchor_dims(self, name: str) -> list[int]:
        kind, batches = self._flow._anchors[name], self._flow._batches
        loops = {
            "All": [batches, self.accumulationFactor, self.replicationFactor],
            "EveryN": [
                batches // max(kind.rp(), 1),
                self.accumulationFactor,
                self.replicationFactor,
            ],
        }.get(kind.id().name, [self.replicationFactor])
        return [dim for dim in loops if dim != 1] + self._shapes[name.removeprefix("Gradient___")][
            0
        ]

    def prepareDevice(self, loadEngine: bool = True) -> None:
        self._prepared = True

    def compileAndExport(self, filename: str) -> None:
        Path(filename).write_bytes(b"stand-in")

    def initAnchorArrays(self) -> Arrays:
        return {
            name: np.empty(
                self._anchor_dims(name), self._shapes[name.removeprefix("Gradient___")][1]
            )
            for name in self._flow._anchors
        }

    def weightsFromHost(self) -> None:
        self._need_prepared()
        self._loaded = True

    def weightsToHost(self) -> None:
        self._need_prepared()

    def readWeights(self, weights: PyWeightsIO, /) -> None:
        for name, array in weights._weights.items():
            if name in self._weights:
                np.copyto(array, self._weights[name])

    def writeWeights(self, weights: PyWeightsIO, /) -> None:
        for name, array in weights._weights.items():
            if name in self._weights:
                self._weights[name] = array.copy()

    def modelToHost(self, filename: str, /) -> None:
        Path(filename).write_bytes(b"stand-in")

    def resetHostWeights(
        self,
        modelProtoOrFilename: str | bytes,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        pass

    def setRandomSeed(self, seedValue: int) -> None:
        pass

    def getRandomSeed(self) -> int:
        return 0

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        return ""

    def getCycleCount(self, id: str = "") -> int:
        return 0

    def _need_prepared(self) -> None:
        if not self._prepared:
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::run(const IStepIO &) is called."
            )

    def run(self, first: str | PyStepIO, second: PyStepIO | str = "", debugName: str = "") -> None:
        """run(stepio, debugName) or run(programHandle, stepio, debugName)"""
        stepio = second if isinstance(first, str) else first
        assert isinstance(stepio, PyStepIO)
        self._need_prepared()
        if self._training and not self._loaded:
            raise popart_runtime_error("Must call weightsFromHost before run")
        factor = self._flow._batches * self.accumulationFactor * self.replicationFactor
        for name in self._streams:
            shape, dtype = self._shapes[name]
            if name not in stepio._inputs:
                raise popart_runtime_error(f"No tensor {name} provided in PyStepIO's inputs")
            array = stepio._inputs[name]
            if array.size != factor * int(np.prod(shape)):
                raise popart_runtime_error(
                    f"Unexpected number of input elements for Tensor {name}. Expected "
                    f"{factor * int(np.prod(shape))}, but received {array.size}."
                )
            if array.dtype != dtype and (array.dtype, dtype) != (np.int64, np.int32):
                raise popart_runtime_error(
                    f"Type discrepancy for tensor {name}. User provided : {array.dtype} and "
                    f"expected : {dtype}."
                )
        for name in stepio._inputs:
            if name not in self._streams:
                raise popart_runtime_error(
                    f"The tensor '{name}' has been provided as one of the inputs to the stepIO, "
                    "but it is not registered as one of the inputs to the model."
                )
        for name in self._flow._anchors:
            if name not in stepio._outputs:
                raise popart_runtime_error(f"No tensor {name} provided in PyStepIO's outputs")
            if stepio._outputs[name].size != int(np.prod(self._anchor_dims(name))):
                raise popart_runtime_error(
                    f"Unexpected number of output elements for Tensor {name}."
                )
            stepio._outputs[name][...] = 0


for _name, _value in list(vars(_Session).items()):
    if inspect.isfunction(_value) and not _name.startswith("_"):
        setattr(_Session, _name, checked(_value))


@record_methods
class InferenceSession(_Session):
    """InferenceSession as documented."""

    def __init__(
        self,
        fnModel: bytes | str,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
    ) -> None:
        self._create(fnModel, dataFlow, userOptions, None)


@record_methods
class TrainingSession(_Session):
    """TrainingSession as documented."""

    _training = True

    def __init__(
        self,
        fnModel: bytes | str,
        dataFlow: DataFlow,
        loss: str,
        optimizer: Optimizer,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
    ) -> None:
        self._create(fnModel, dataFlow, userOptions, loss)

    def updateOptimizerFromHost(self, optimizer: Optimizer, /) -> None:
        pass


_CLASSES = (
    Adam,
    Adaptive,
    AnchorReturnType,
    Builder,
    ClipNormSettings,
    CommGroup,
    DataFlow,
    DeviceInfo,
    DeviceManager,
    InferenceSession,
    InputSettings,
    InputShapeInfo,
    Optimizer,
    Patterns,
    PyStepIO,
    PyWeightsIO,
    SGD,
    SessionOptions,
    TensorInfo,
    TrainingSession,
    VariableSettings,
)


class StandIn(ModuleType):
    """The module-like object; `calls` holds what was called since it was made."""

    calls: Calls

    def named(self, name: str) -> Calls:
        """The calls of one name."""
        return [call for call in self.calls if call.name == name]


def make_popart() -> StandIn:
    """A fresh stand-in. Only the latest one records, so use one at a time."""
    module = StandIn("popart", "Recording stand-in for Graphcore's popart.")
    module.calls = Recorded._calls = []
    for cls in _CLASSES:
        setattr(module, cls.__name__, cls)
    for name, kind in ENUMS.items():
        setattr(module, name, kind)
    for function in (popart_exception, popart_runtime_error):
        setattr(module, function.__name__, function)
    constants: dict[str, Any] = {
        "defaultAiOnnxOpset": 10,
        "defaultAiGraphcoreOpset": 1,
        "versionString": lambda: "3.4.0 (stand-in)",
        "versionNumber": lambda: (3, 4, 0),
        "reservedGradientPrefix": lambda: "Gradient___",
    }
    for name, value in constants.items():
        setattr(module, name, value)
    return module

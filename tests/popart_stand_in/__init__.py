"""A recording stand-in for Graphcore's ``popart`` 3.4: only documented names, orders and types.

``make_popart()`` returns a module-like object; whatever PopART's Python interface does not have
raises AttributeError or TypeError here, as it would there. Every call is recorded in ``.calls`` as
``(name, args, kwargs)``, and running a session writes zeros of the right shape. It shares no code
with ``paddle_ipu.popart`` but the operator table's shape inference, so that it can catch a wrong
name or order in it.
"""

# The names are PopART's.
# ruff: noqa: N802, N803, N815

from __future__ import annotations

import ast
from functools import partial
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
    DebugContext,
    DebugInfo,
    InputSettings,
    SourceLocation,
    TensorInfo,
    VariableSettings,
)
from tests.popart_stand_in.core import (
    ENUMS,
    EXCEPTIONS,
    Calls,
    Recorded,
    bind,
    chosen,
    popart_exception,
    popart_runtime_error,
)
from tests.popart_stand_in.options import (
    PLAIN_RECORDS,
    SGD,
    Adam,
    Adaptive,
    AnchorReturnType,
    ClipNormSettings,
    DataFlow,
    ExecutionPhaseSettings,
    InputShapeInfo,
    Optimizer,
    Patterns,
    SessionOptions,
    TensorLocation,
    TensorLocationSettings,
)
from tests.popart_stand_in.table import Form, module_table, python_table

# -- devices, step data, sessions -----------------------------------------------------------------


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


class DeviceManager(Recorded):
    """Gives out as many IPUs as are asked for."""

    def __init__(self) -> None:
        pass

    def createCpuDevice(self) -> DeviceInfo:
        return DeviceInfo(ENUMS["DeviceType"].Cpu, 1, 1)

    def createIpuModelDevice(self, options: dict[str, Any]) -> DeviceInfo:
        if set(options) - {"numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion"}:
            raise popart_exception(f"Invalid option among {sorted(options)} passed to Devicex")
        count, tiles = int(options.get("numIPUs", 1)), int(options.get("tilesPerIPU", 4))
        return DeviceInfo(ENUMS["DeviceType"].IpuModel, count, tiles)

    def createOfflineIPUDevice(self, opts: dict[str, Any]) -> DeviceInfo:
        return DeviceInfo(ENUMS["DeviceType"].OfflineIpu, int(opts.get("numIPUs", 1)), 1472)

    def tryAcquireAvailableDevice(
        self,
        numIpus: int,
        **how: Any,
    ) -> DeviceInfo | None:
        if numIpus & (numIpus - 1):
            raise popart_exception(
                f"You have attempted to acquire {numIpus} IPUs. The number of IPUs requested must "
                "be a power of two"
            )
        return DeviceInfo(ENUMS["DeviceType"].Ipu, numIpus, 1472)

    def acquireAvailableDevice(self, numIpus: int, **how: Any) -> Any:
        return DeviceInfo(ENUMS["DeviceType"].Ipu, numIpus, 1472)


Arrays = dict[str, np.ndarray[Any, Any]]


def _need_contiguous(arrays: Arrays, kind: str) -> None:
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise popart_exception(f"{kind}: tensor '{name}' as it is not c-contiguous")


class IStepIO(Recorded):
    """What a run takes."""


class IWeightsIO(Recorded):
    """What weights are read into and written from."""


class PyStepIO(IStepIO):
    """Arrays of a step."""

    def __init__(self, inputs: Arrays, outputs: Arrays) -> None:
        _need_contiguous({**inputs, **outputs}, "PyStepIO")
        self._inputs, self._outputs = inputs, outputs

    def enableRuntimeAsserts(self, on: bool) -> None:
        pass


class PyWeightsIO(IWeightsIO):
    """Arrays of weights."""

    def __init__(self, weights: Arrays) -> None:
        _need_contiguous(weights, "PyWeightsIO")
        self._weights = weights


class _Session(Recorded):
    """What both sessions do."""

    _training = False

    def _create(self, model: Any, flow: DataFlow, options: Any, loss: str | None) -> None:
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
            replicas = int(options.replicatedGraphCount)
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
        return int(options.accumulationFactor) if options.enableGradientAccumulation else 1

    @property
    def replicationFactor(self) -> int:
        options = self._options
        return int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1

    @property
    def dataFlow(self) -> DataFlow:
        return self._flow

    def _anchor_dims(self, name: str) -> list[int]:
        kind, loops = self._flow._anchors[name], [self.replicationFactor]
        if kind.id().name in ("All", "EveryN"):
            period = kind.rp() if kind.id().name == "EveryN" else 1
            loops = [self._flow._batches // period, self.accumulationFactor, *loops]
        shape, _ = self._shapes[name.removeprefix("Gradient___")]
        return [dim for dim in loops if dim != 1] + shape

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

    def readWeights(self, weights: PyWeightsIO) -> None:
        for name, array in weights._weights.items():
            if name in self._weights:
                np.copyto(array, self._weights[name])
            elif name.partition("___")[2] in self._weights:
                array[...] = 0  # what an optimizer keeps beside a weight

    def writeWeights(self, weights: PyWeightsIO) -> None:
        for name, array in weights._weights.items():
            if name in self._weights:
                self._weights[name] = array.copy()

    def modelToHost(self, filename: str) -> None:
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

    def run(self, stepio: PyStepIO, debugName: str = "", programHandle: str = "") -> None:
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
            narrowed = array.dtype == np.int64 and dtype == np.int32
            if array.dtype != dtype and not narrowed:
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

    def getInfo(self, id: str) -> TensorInfo:
        shape, dtype = self._shapes[id]
        return TensorInfo(dtype, shape)


_UNSET: Any = object()


class InferenceSession(_Session):
    """InferenceSession as in PopART's package."""

    def __init__(
        self,
        fnModel: Any,
        dataFlow: Any,
        deviceInfo: Any,
        inputShapeInfo: Any = _UNSET,
        patterns: Any = None,
        userOptions: Any = _UNSET,
        name: Any = "inference",
    ) -> None:
        shapes = InputShapeInfo() if inputShapeInfo is _UNSET else inputShapeInfo
        options = SessionOptions() if userOptions is _UNSET else userOptions
        chosen_patterns = Patterns() if patterns is None else patterns
        given = (fnModel, dataFlow, deviceInfo, shapes, options, chosen_patterns, name)
        core = module_table().classes["_InferenceSessionCore"].methods["__init__"]
        chosen("_InferenceSessionCore.__init__", core, given, {})
        self._create(fnModel, dataFlow, options, None)


class TrainingSession(_Session):
    """TrainingSession as in PopART's package."""

    _training = True

    def __init__(
        self,
        fnModel: Any,
        dataFlow: Any,
        loss: Any,
        optimizer: Any,
        deviceInfo: Any,
        inputShapeInfo: Any = _UNSET,
        patterns: Any = None,
        userOptions: Any = _UNSET,
        name: Any = "training",
    ) -> None:
        shapes = InputShapeInfo() if inputShapeInfo is _UNSET else inputShapeInfo
        options = SessionOptions() if userOptions is _UNSET else userOptions
        chosen_patterns = Patterns() if patterns is None else patterns
        given = (fnModel, dataFlow, loss, optimizer, deviceInfo, shapes, options)
        core = module_table().classes["_TrainingSessionCore"].methods["__init__"]
        chosen("_TrainingSessionCore.__init__", core, (*given, chosen_patterns, name), {})
        self._create(fnModel, dataFlow, options, loss)

    def updateOptimizerFromHost(self, optimizer: Any) -> None:
        pass


_class: type[Recorded]
for _class in (DeviceInfo, DeviceManager, IStepIO, IWeightsIO, PyStepIO, PyWeightsIO):
    bind(_class)
for _class in (InferenceSession, TrainingSession):
    _name = _class.__name__
    bind(_class, module_table().classes[f"_{_name}Core"], python_table().classes[_name])

_CLASSES = (
    *(Adam, Adaptive, AnchorReturnType, Builder, ClipNormSettings, CommGroup, DataFlow),
    *(DebugContext, DebugInfo, DeviceInfo, DeviceManager, ExecutionPhaseSettings, IStepIO),
    *(IWeightsIO, InferenceSession, InputSettings, InputShapeInfo, Optimizer, Patterns, PyStepIO),
    *(PyWeightsIO, SGD, SessionOptions, SourceLocation, TensorInfo, TensorLocation),
    *(TensorLocationSettings, TrainingSession, VariableSettings, *PLAIN_RECORDS),
)


def _only_checked() -> dict[str, type]:
    """The classes that are bound and that nothing here runs: they check what they are given."""
    done = {cls.__name__ for cls in _CLASSES}
    made: dict[str, type] = {}
    for name, entry in module_table().classes.items():
        if name not in done and not name.startswith("_") and "::" not in name:
            base = made.get(entry.base, SGD if entry.base == "SGD" else Recorded)
            made[name] = bind(type(name, (base,), {}))
    return made


_ONLY_CHECKED = _only_checked()


def _function(name: str, forms: list[Form], *args: Any, **kwargs: Any) -> Any:
    """A function of the module: it checks what it is given."""
    chosen(name, forms, args, kwargs)
    raise NotImplementedError(f"the stand-in only checks the arguments of {name}")


class StandIn(ModuleType):
    """The module-like object; `calls` holds what was called since it was made."""

    calls: Calls
    versionString: Any
    versionNumber: Any

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
    for name, kind in _ONLY_CHECKED.items():
        setattr(module, name, kind)
    for name, kind in EXCEPTIONS.items():
        setattr(module, name, kind)
    for name, forms in module_table().functions.items():
        setattr(module, name, partial(_function, name, forms))
    for name, text in module_table().constants.items():
        value = ast.literal_eval(text)
        setattr(module, name, value if isinstance(value, int) else partial(str, value))
    module.versionString = lambda: "3.4.0 (stand-in)"
    module.versionNumber = lambda: (3, 4, 0)
    return module

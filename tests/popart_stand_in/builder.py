"""The Builder of the popart stand-in."""

# The names are PopART's, and enumerations are made at run time.
# ruff: noqa: F821, N802, N803

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
import onnx_ir

from paddle_ipu.popart.schema import schema_of
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo as _InferredInfo
from tests.popart_stand_in.core import (
    ENUMS,
    Call,
    Recorded,
    fits,
    popart_exception,
    record_methods,
)
from tests.popart_stand_in.tables import (
    GRAPHCORE_OPERATORS,
    KINDS,
    ONNX_OPERATORS,
    REQUIRED,
    arguments,
    operator_type,
)


class _Operators:
    """The operator methods of one domain; anything else raises AttributeError."""

    def __init__(self, builder: Builder, domain: str, table: dict[str, str]) -> None:
        self._builder, self._domain, self._table = builder, domain, table

    def __getattr__(self, method: str) -> Callable[..., Any]:
        row = self._table.get(method)
        if row is None:
            raise AttributeError(f"{self._domain} has no operator method '{method}'")
        return functools.partial(self._call, method, row)

    def _call(self, method: str, row: str, *args: Any, **kwargs: Any) -> Any:
        expected = arguments(row)
        names = [argument.name for argument in expected]
        wrong = f"{method}(): incompatible function arguments. "
        if len(args) > len(names):
            raise TypeError(f"{wrong}{len(args)} given, {names} taken")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in given:
                raise TypeError(f"{wrong}No argument '{name}' of {names} is free")
            given[name] = value
        for argument in expected:
            if argument.name in given:
                value, kind = given[argument.name], KINDS[argument.kind]
                if not (value is None and argument.default is None) and not fits(value, kind):
                    raise TypeError(f"{wrong}'{argument.name}' takes {kind}, got {value!r}")
            elif argument.default is REQUIRED:
                raise TypeError(f"{wrong}'{argument.name}' is missing")
            else:
                given[argument.name] = argument.default
        self._builder._calls.append(Call(f"{self._domain}.{method}", args, kwargs))
        outputs = self._builder._operator(self._domain, operator_type(self._domain, method), given)
        return outputs if row.endswith("list") else outputs[0]


# -- the builder ----------------------------------------------------------------------------------


@record_methods
class TensorInfo(Recorded):
    """TensorInfo(dtype, shape) or TensorInfo(array)."""

    def __init__(self, *args: Any) -> None:
        if len(args) not in (1, 2):
            raise TypeError(f"Can not create TensorInfo with args {args}")
        info = _InferredInfo(*args)
        self._type, self._shape = info.data_type(), info.shape()
        self._lower = info.data_type_lcase()

    def shape(self) -> list[int]:
        return list(self._shape)

    def data_type(self) -> str:
        return self._type

    def data_type_lcase(self) -> str:
        return self._lower


@record_methods
class Builder(Recorded):
    """The documented Builder; the protobuf it serialises is built with onnx.helper."""

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: dict[str, int] | None = None,
    ) -> None:
        if modelProtoOrFilename is not None:
            raise TypeError("the stand-in does not import models")
        self._opset = 10 if opsets is None else opsets["ai.onnx"]
        self._onnx = _Operators(self, "ai.onnx", ONNX_OPERATORS)
        # None until an operator runs the subgraph that the tensor is of.
        self._infos: dict[str, _InferredInfo | None] = {}
        self._values: dict[str, np.ndarray[Any, Any]] = {}
        self._initializers: list[str] = []
        self._metadata: dict[str, str] = {}
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._nodes: list[onnx.NodeProto] = []
        self._scope: dict[str, Any] = {}
        self._names: list[str] = []
        self._graph_name = "BuilderGraph_0"
        self._is_subgraph = False
        self.aiGraphcore = self.aiGraphcoreOpset1 = _Operators(
            self, "ai.graphcore", GRAPHCORE_OPERATORS
        )

    def createSubgraphBuilder(self) -> Builder:
        made = Builder(opsets={"ai.onnx": self._opset})
        # Ids are unique over all of them, and a subgraph knows the tensors around it.
        made._infos, made._values, made._is_subgraph = self._infos, self._values, True
        return made

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        if not self._is_subgraph:
            raise popart_exception("this builder is of no subgraph")
        self._known([tensorId])

    def addUntypedInputTensor(self, debugContext: str = "") -> str:
        if not self._is_subgraph:
            raise popart_exception("Can not add untyped tensors to the top-level graph.")
        name = self._name(debugContext or "input")
        self._infos[name] = None
        self._inputs.append(name)
        return name

    @property
    def aiOnnxOpset11(self) -> _Operators:
        return self._onnx

    @property
    def aiOnnx(self) -> _Operators:
        if self._opset != 11:
            raise RuntimeError(f"the stand-in has ai.onnx opset 11, aiOnnx is {self._opset}")
        return self._onnx

    def _name(self, base: str) -> str:
        base = "/".join([*self._names, base])
        name, number = base, 0
        while name in self._infos:
            number += 1
            name = f"{base}/{number}"
        return name

    def _known(self, ids: Iterable[str]) -> None:
        for name in ids:
            if name and name not in self._infos:
                raise popart_exception(f"Unknown tensor '{name}'")

    def _node(self, ids: Iterable[str]) -> onnx.NodeProto:
        wanted = set(ids)
        for node in self._nodes:
            if set(node.output) == wanted:
                return node
        raise popart_exception(
            f"Could not find a node with outputs {' ,'.join(sorted(wanted))}. Must specify all "
            "outputs of a node"
        )

    def _operator(self, domain: str, op_type: str, given: dict[str, Any]) -> list[str]:
        schema = schema_of(domain, op_type)
        if schema is None:
            raise popart_exception(f"No class for {domain}.{op_type}")
        ids, count = list(given.pop("args", [])), given.pop("num_outputs", schema.outputs[0])
        label = given.pop("debugContext", "")
        given.pop("is_value_sparse", None)
        attributes = {}
        for name, value in given.items():
            if value is None or (isinstance(value, (list, tuple)) and not value):
                continue
            if name == "to":
                value = onnx.TensorProto.DataType.Value(value)
            elif name == "reduction":
                value = value if isinstance(value, str) else value.name
                value = "None" if value == "NoReduction" else value
                value = value.lower() if op_type == "ScatterReduce" else value
            elif isinstance(value, np.ndarray):
                value = onnx.numpy_helper.from_array(value)
            elif isinstance(value, bool):
                value = int(value)
            elif isinstance(value, Builder):
                value = value._proto().graph
            attributes[name] = value
        return self._append(domain, op_type, ids, attributes, count, label)

    def _append(
        self,
        domain: str,
        op_type: str,
        ids: list[str],
        attributes: dict[str, Any],
        count: int,
        label: str,
    ) -> list[str]:
        self._known(ids)
        outputs = []
        for at in range(count):
            outputs.append(self._name(f"{op_type}:{at}"))
            self._infos[outputs[-1]] = _InferredInfo("UNDEFINED", [])
        schema = schema_of(domain, op_type)
        untyped = any(name and self._infos[name] is None for name in ids)
        for value in attributes.values():
            if isinstance(value, onnx.GraphProto):
                untyped |= any(not item.HasField("type") for item in value.output)
        if untyped:
            self._infos.update(dict.fromkeys(outputs))
        elif schema is not None:
            plain = {name: item.default for name, item in schema.attributes.items()}
            plain = {name: value for name, value in plain.items() if value is not None}
            plain.update(attributes)
            if isinstance(plain.get("value"), onnx.TensorProto):
                array = onnx.numpy_helper.to_array(plain["value"])
                plain["value"] = _Constant(array)
                if op_type == "Constant":
                    self._values[outputs[0]] = array
            plain.update(
                (name, onnx_ir.serde.deserialize_graph(value))
                for name, value in attributes.items()
                if isinstance(value, onnx.GraphProto)
            )
            context = InferenceContext(
                schema.identifier,
                [self._infos[name] if name else None for name in ids],
                plain,
                count,
                input_ids=ids,
                output_ids=outputs,
                value_of=lambda index: self._values.get(ids[index]),
            )
            self._infos.update(zip(outputs, schema.infer(context), strict=False))
        node = onnx.helper.make_node(
            op_type,
            ids,
            outputs,
            "/".join([*self._names, label or op_type]) if label or self._names else None,
            domain="" if domain == "ai.onnx" else domain,
            **attributes,
            **self._scope,
        )
        self._nodes.append(node)
        return outputs

    def addInputTensor(
        self,
        *args: Any,
        **kwargs: Any,
    ) -> str:
        rest = list(args)
        first = rest.pop(0) if rest else kwargs.pop("tensorInfo", kwargs.pop("dataType", None))
        if isinstance(first, TensorInfo):
            info = _InferredInfo(first.data_type(), first.shape())
        elif isinstance(first, str):
            shape = rest.pop(0) if rest else kwargs.pop("shape", None)
            if not fits(shape, list[int]):
                raise TypeError(f"addInputTensor(): incompatible function arguments: {shape!r}")
            info = _InferredInfo(first, shape)
        else:
            raise TypeError(f"addInputTensor(): incompatible function arguments: {first!r}")
        if rest and isinstance(rest[0], InputSettings):
            rest.pop(0)
        kwargs.pop("settings", None)
        label = rest.pop(0) if rest else kwargs.pop("debugContext", "")
        if rest or kwargs or not isinstance(label, str):
            raise TypeError(f"addInputTensor(): incompatible function arguments: {rest} {kwargs}")
        name = self._name(label or "input")
        self._infos[name] = info
        self._inputs.append(name)
        return name

    def addInitializedInputTensor(
        self,
        initVal: np.ndarray,  # type: ignore[type-arg]
        variableSettings: VariableSettings | str = "",
        debugContext: str = "",
    ) -> str:
        """(initVal, debugContext) or (initVal, variableSettings, debugContext)"""
        settings, label = variableSettings, debugContext
        if isinstance(settings, str):
            if label and settings:
                raise TypeError("addInitializedInputTensor(): incompatible function arguments")
            settings, label = None, settings or label
        name = self._name(label or "init_input")
        self._values[name] = np.ascontiguousarray(initVal).reshape(initVal.shape)
        self._infos[name] = _InferredInfo(initVal)
        if settings is not None:
            self._metadata.update(settings._entries(name))
            # Whether its first dimension is one of groups depends on the session's replicas.
            self._infos[name] = None
        self._inputs.append(name)
        self._initializers.append(name)
        return name

    def addOutputTensor(self, outputName: str) -> None:
        self._known([outputName])
        self._outputs.append(outputName)

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: list[str],
        attributes: dict[str, Any],
        numOutputs: int = 1,
        name: str = "",
    ) -> list[str]:
        for key, value in attributes.items():
            if not isinstance(value, (str, int, float, list)):
                raise popart_exception(f"Invalid type provided in custom op attribute '{key}'")
        return self._append(domain, opName, list(inputs), dict(attributes), numOutputs, name)

    def setGraphName(self, name: str) -> None:
        self._graph_name = name

    @contextmanager
    def _context(self, attribute: str, value: Any) -> Iterator[None]:
        before = dict(self._scope)
        self._scope[attribute] = value
        try:
            yield
        finally:
            self._scope = before

    @contextmanager
    def _name_context(self, name: str) -> Iterator[None]:
        self._names.append(name)
        try:
            yield
        finally:
            self._names.pop()

    def nameScope(self, name: str) -> Any:
        return self._name_context(name)

    def getNameScope(self, name: str = "") -> str:
        return "/".join([*self._names, name])

    def _place(self, attribute: str, target: Any, value: int | None) -> Any:
        if isinstance(target, int) and value is None:
            return self._context(attribute, target)
        names = [target] if isinstance(target, str) else target
        self._add(attribute, value or 0, names)
        return None

    def virtualGraph(
        self,
        nodeOutputNames: str | set[str] | list[str] | int | None = None,
        value: int | None = None,
    ) -> Any:
        return self._place("__ipu_number", *_target(nodeOutputNames, value))

    def pipelineStage(
        self,
        nodeOutputNames: str | int | None = None,
        value: int | None = None,
    ) -> Any:
        return self._place("__pipeline_stage", *_target(nodeOutputNames, value))

    def hasVirtualGraph(self) -> bool:
        return "__ipu_number" in self._scope

    def hasPipelineStage(self) -> bool:
        return "__pipeline_stage" in self._scope

    def getVirtualGraph(self) -> int:
        return int(self._scope["__ipu_number"])

    def getPipelineStage(self) -> int:
        return int(self._scope["__pipeline_stage"])

    def recomputeOutput(
        self,
        nodeOutputNames: str | RecomputeType,
        value: RecomputeType | None = None,
    ) -> Any:
        attribute = "__recompute_output_in_backward_pass"
        if isinstance(nodeOutputNames, str):
            self._add(attribute, 0 if value is None else value.value, [nodeOutputNames])
            return None
        return self._context(attribute, nodeOutputNames.value)

    def checkpointOutput(self, nodeOutputNames: list[str]) -> list[str]:
        kept = []
        for name in nodeOutputNames:
            given = {"args": [name], "debugContext": "Checkpoint"}
            kept += self._operator("ai.onnx", "Identity", given)
            self._add("__recompute_output_in_backward_pass", 1, kept[-1:])
        return kept

    def _add(self, attribute: str, value: Any, ids: Iterable[str]) -> None:
        node = self._node(ids)
        if any(item.name == attribute for item in node.attribute):
            raise popart_exception(f"Node already has attribute {attribute}.")
        node.attribute.append(onnx.helper.make_attribute(attribute, value))

    def addNodeAttribute(
        self,
        attributeName: str,
        attributeValue: int | float | str | list[int] | list[float] | list[str],
        nodeOutputNames: set[str],
    ) -> None:
        self._add(attributeName, attributeValue, nodeOutputNames)

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: set[str]) -> bool:
        return any(item.name == attributeName for item in self._node(nodeOutputNames).attribute)

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: set[str]) -> None:
        node = self._node(nodeOutputNames)
        kept = [item for item in node.attribute if item.name != attributeName]
        if len(kept) == len(node.attribute):
            raise popart_exception(f"Cannot remove attribute {attributeName} as it does not exist.")
        del node.attribute[:]
        node.attribute.extend(kept)

    def getAllNodeAttributeNames(self, nodeOutputNames: set[str]) -> list[str]:
        return [item.name for item in self._node(nodeOutputNames).attribute]

    def setAvailableMemoryProportion(
        self,
        nodeOutputName: str | set[str],
        availableMemoryProportion: float,
    ) -> None:
        if not 0 < availableMemoryProportion <= 1:
            raise popart_exception("availableMemoryProportion must be in (0,1]")
        ids = {nodeOutputName} if isinstance(nodeOutputName, str) else nodeOutputName
        self._add("__available_memory", float(availableMemoryProportion), ids)

    def setPartialsType(self, nodeOutputName: str, partialsType: str) -> None:
        op_type = self._node({nodeOutputName}).op_type
        if op_type not in ("Conv", "MatMul"):
            raise popart_exception(
                "Builder::setPartialsType should only be called on operators: Conv, MatMul; but "
                f"was given: {op_type}"
            )
        self._add("__partials_type", partialsType, {nodeOutputName})

    def setSerializeMatMul(
        self,
        nodeOutputName: set[str],
        mode: Literal["none", "input_channels", "reducing_dim", "output_channels"],
        factor: int = 0,
        keep_precision: bool = False,
    ) -> None:
        if mode != "none":
            self._add("__serialize_matmul_mode", mode, nodeOutputName)
            self._add("__serialize_matmul_factor", factor, nodeOutputName)

    def excludePatterns(self, nodeOutputName: str, patternNames: list[str]) -> None:
        self._add("__exclude_patterns", list(patternNames), {nodeOutputName})

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        pass

    def getInputTensorIds(self) -> list[str]:
        return list(self._inputs)

    def getOutputTensorIds(self) -> list[str]:
        return list(self._outputs)

    def getTrainableTensorIds(self) -> list[str]:
        return list(self._initializers)

    def getValueTensorIds(self) -> list[str]:
        return [name for node in self._nodes for name in node.output]

    def getTensorShape(self, id: str) -> list[int]:
        return self._info(id).shape()

    def getTensorDtypeString(self, id: str) -> str:
        return self._info(id).data_type_lcase()

    def _info(self, name: str) -> _InferredInfo:
        self._known([name])
        info = self._infos[name]
        if info is None:
            raise popart_exception(f"{name} is not an known tensor.")
        return info

    def isInitializer(self, id: str) -> bool:
        return id in self._initializers

    def _proto(self) -> onnx.ModelProto:
        def value_info(name: str) -> onnx.ValueInfoProto:
            info = self._infos[name]
            if name in self._initializers:
                info = _InferredInfo(self._values[name])
            if info is None:
                return onnx.ValueInfoProto(name=name)
            return onnx.helper.make_tensor_value_info(name, int(info.dtype), info.shape())

        graph = onnx.helper.make_graph(
            self._nodes,
            self._graph_name,
            [value_info(name) for name in self._inputs],
            [value_info(name) for name in self._outputs],
            [onnx.numpy_helper.from_array(self._values[n], n) for n in self._initializers],
            value_info=[value_info(name) for name in self.getValueTensorIds()],
        )
        domains = dict.fromkeys(node.domain for node in self._nodes)
        opsets = [onnx.helper.make_opsetid(domain, 1 if domain else 11) for domain in domains]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=4)
        onnx.helper.set_model_props(model, self._metadata)
        return model

    def getModelProto(self) -> bytes:
        return self._proto().SerializeToString()

    def saveModelProto(self, filename: str) -> None:
        Path(filename).write_bytes(self._proto().SerializeToString())


@record_methods
class CommGroup(Recorded):
    """CommGroup() or CommGroup(type, replicaGroupSize)."""

    def __init__(self, type: CommGroupType | None = None, replicaGroupSize: int = 0) -> None:
        self.type = ENUMS["CommGroupType"].All if type is None else type
        self.replicaGroupSize = replicaGroupSize


@record_methods
class VariableSettings(Recorded):
    """VariableSettings(), (group), (mode) or (group, mode); the stand-in has no strides."""

    def __init__(
        self,
        first: CommGroup | VariableRetrievalMode | None = None,
        second: VariableRetrievalMode | None = None,
    ) -> None:
        grouped = isinstance(first, CommGroup)
        if second is not None and not grouped:
            raise TypeError("VariableSettings(): incompatible constructor arguments")
        self._group = first if isinstance(first, CommGroup) else CommGroup()
        self._mode = second if grouped else first

    def _entries(self, name: str) -> dict[str, str]:
        """What a model's metadata has of a weight."""
        return {
            f"__comm_group_type/{name}": str(self._group.type.value),
            f"__comm_group_size/{name}": str(self._group.replicaGroupSize),
            f"__variable_settings/{name}": str(0 if self._mode is None else self._mode.value),
        }


class _Constant(NamedTuple):
    """What shape inference reads of a tensor attribute."""

    array: np.ndarray[Any, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return _InferredInfo(self.array).dtype


def _target(names: Any, value: int | None) -> tuple[Any, int | None]:
    """Sorts out ``f(ids, n)``, ``f(n)`` and ``f(value=n)``."""
    if names is None and value is None:
        raise TypeError("incompatible function arguments: neither ids nor a value")
    return (value, None) if names is None else (names, value)


@record_methods
class InputSettings(Recorded):
    """InputSettings(tileSet, exchangeStrategy) or InputSettings(replicatedStreamMode)."""

    def __init__(
        self,
        tileSet: TileSet | ReplicatedStreamMode | None = None,
        exchangeStrategy: ExchangeStrategy | None = None,
    ) -> None:
        self._first, self._exchange = tileSet, exchangeStrategy

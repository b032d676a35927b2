"""The Builder of the popart stand-in."""

# The names are PopART's.
# ruff: noqa: N802, N803

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir

from paddle_ipu.popart.schema import OpSchema, schema_of, schemas_of_opset
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo as _InferredInfo
from tests.popart_stand_in.core import (
    ENUMS,
    Call,
    Record,
    Recorded,
    bind,
    chosen,
    popart_exception,
    record,
)
from tests.popart_stand_in.table import Form, module_table, operator_forms, python_table


class _Operators:
    """The operator methods of one operator set; anything else raises AttributeError."""

    def __init__(self, builder: Builder, domain: str, version: int) -> None:
        self._builder, self._domain, self.version = builder, domain, version

    def __getattr__(self, method: str) -> Callable[..., Any]:
        forms = operator_forms(self._domain, self.version).get(method)
        if forms is None:
            raise AttributeError(f"{self._domain} has no operator method '{method}'")
        return functools.partial(self._call, method, forms)

    def _call(self, method: str, forms: list[Form], *args: Any, **kwargs: Any) -> Any:
        _, given = chosen(method, forms, args, kwargs)
        self._builder._calls.append(Call(f"{self._domain}.{method}", args, kwargs))
        rows = schemas_of_opset(self._domain, self.version)
        if method == "scatterreduce":
            method, given = "groupedscatterreduce", {**given, "group_size": 1}
        (schema,) = [row for row in rows if row.builder_name == method]
        outputs = self._builder._operator(schema, self.version, given)
        if not outputs:
            return None
        return outputs if forms[0].gives == "list[str]" else outputs[0]


# -- the builder ----------------------------------------------------------------------------------


class DebugContext:
    """What names a tensor or an operator."""

    def __init__(self, name: str = "", loc: Any = None, debugInfo: DebugInfo | None = None) -> None:
        outer = "" if debugInfo is None else debugInfo._path
        self._path = "/".join(part for part in (outer, name) if part)


class DebugInfo:
    """What contexts are inside of."""

    def __init__(self, debugContext: str | DebugContext, layer: str) -> None:
        self._path = _path(debugContext)

    def setValue(self, name: str, value: str) -> bool:
        return True

    def getId(self) -> int:
        return id(self)


class SourceLocation:
    """A place in a program."""

    def __init__(self, functionName: str, fileName: str, lineNumber: int) -> None:
        pass


def _path(context: str | DebugContext) -> str:
    return context._path if isinstance(context, DebugContext) else context


class TensorInfo(Recorded):
    """TensorInfo(dtype, shape) or TensorInfo(array)."""

    def __init__(self, *args: Any) -> None:
        array = len(args) == 1 and isinstance(args[0], np.ndarray)
        if len(args) != 2 and not array:
            raise TypeError(f"Can not create TensorInfo with args {args}")
        dtype, shape = (args[0].dtype, args[0].shape) if array else args
        if isinstance(dtype, (np.dtype, type)):
            dtype = _InferredInfo(dtype, []).data_type()
        core = module_table().classes["_TensorInfoCore"].methods["__init__"]
        chosen("_TensorInfoCore.__init__", core, (dtype, shape), {})
        dtype = dtype.name if isinstance(dtype, ENUMS["DataType"]) else dtype
        info = _InferredInfo(dtype, shape)
        self._type, self._shape = info.data_type(), info.shape()
        self._lower = info.data_type_lcase()
        self._info = info

    def shape(self) -> list[int]:
        return list(self._shape)

    def data_type(self) -> str:
        return self._type

    def data_type_lcase(self) -> str:
        return self._lower


class Builder(Recorded):
    """The documented Builder; the protobuf it serialises is built with onnx.helper."""

    def __init__(
        self,
        modelProtoOrFilename: str | bytes | None = None,
        opsets: dict[str, int] | None = None,
        builderCore: Any = None,
    ) -> None:
        if modelProtoOrFilename is not None or builderCore is not None:
            raise NotImplementedError("the stand-in does not import models")
        self._opset = None if not opsets else opsets["ai.onnx"]
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
        self.aiGraphcore = self.aiGraphcoreOpset1 = _Operators(self, "ai.graphcore", 1)

    def __getattr__(self, name: str) -> _Operators:
        if name == "aiOnnx":
            return self._onnx(self._opset or 10)
        number = name.removeprefix("aiOnnxOpset")
        if number == name or not number.isdecimal() or not 6 <= int(number) <= 11:
            raise AttributeError(f"'popart_core._BuilderCore' object has no attribute '{name}'")
        return self._onnx(int(number))

    def _onnx(self, version: int) -> _Operators:
        if self._opset is None:
            self._opset = version
        if self._opset != version:
            raise RuntimeError(
                f"Invalid opset 'aiOnnxOpset{version}' selected. Opset for domain ai.onnx already "
                f"defined as {self._opset}"
            )
        return _Operators(self, "ai.onnx", version)

    def createSubgraphBuilder(self) -> Builder:
        made = Builder()
        made._opset = self._opset
        # Ids are unique over all of them, and a subgraph knows the tensors around it.
        made._infos, made._values, made._is_subgraph = self._infos, self._values, True
        return made

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        if not self._is_subgraph:
            raise popart_exception("this builder is of no subgraph")
        self._known([tensorId])

    def addUntypedInputTensor(self, debugContext: str | DebugContext) -> str:
        if not self._is_subgraph:
            raise popart_exception("Can not add untyped tensors to the top-level graph.")
        name = self._name(_path(debugContext) or "input")
        self._infos[name] = None
        self._inputs.append(name)
        return name

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

    def _operator(self, schema: OpSchema, opset: int, given: dict[str, Any]) -> list[str]:
        label = ""
        for name in ("debugContext", "name", "debugName", "debug_context", "debugPrefix"):
            label = _path(given.pop(name, label))
        ids = given.pop("args", [])
        if schema.op_type == "MultiConv":
            ids, given = _one_list(given, ids)
        ids = [ids] if isinstance(ids, str) else list(ids)
        count = given.pop("num_outputs", schema.outputs[0] or 0)
        if schema.op_type == "MultiConv":
            count = len(ids) // 3
        given.pop("is_value_sparse", None)
        names = {item.argument or name: name for name, item in schema.attributes.items()}
        attributes = {}
        for argument, value in given.items():
            name = names[argument]
            empty = isinstance(value, (list, tuple, range)) and not len(value)
            if value is None or (empty and not schema.attributes[name].keeps_empty):
                continue
            if name == "to":
                value = onnx.TensorProto.DataType.Value(value)
            elif name == "reduction":
                value = "None" if value.name == "NoReduction" else value.name
                value = value.lower() if schema.op_type == "ScatterReduce" else value
            elif isinstance(value, Enum):
                value = value.value
            elif isinstance(value, CommGroup):
                value = [value.type.value, value.replicaGroupSize]
            elif isinstance(value, np.ndarray) and schema.attributes[name].kind == "tensor":
                value = onnx.numpy_helper.from_array(value)
            elif isinstance(value, Builder):
                value = value._proto().graph
            elif isinstance(value, (tuple, range, np.ndarray)):
                value = list(value)
            elif schema.attributes[name].kind == "float":
                value = float(value)
            elif isinstance(value, (bool, np.integer)):
                value = int(value)
            attributes[name] = value
        return self._append(schema.domain, schema.op_type, ids, attributes, count, label, opset)

    def _append(
        self,
        domain: str,
        op_type: str,
        ids: list[str],
        attributes: dict[str, Any],
        count: int,
        label: str,
        opset: int | None = None,
    ) -> list[str]:
        self._known(ids)
        outputs = []
        for at in range(count):
            outputs.append(self._name(f"{op_type}:{at}"))
            self._infos[outputs[-1]] = _InferredInfo("UNDEFINED", [])
        schema = schema_of(domain, op_type, opset)
        untyped = any(name and self._infos[name] is None for name in ids)
        for value in attributes.values():
            if isinstance(value, onnx.GraphProto):
                untyped |= any(not item.HasField("type") for item in value.output)
        if untyped:
            self._infos.update(dict.fromkeys(outputs))
        elif schema is not None:
            plain: dict[str, object] = {
                name: item.default
                for name, item in schema.attributes.items()
                if item.default is not None
            }
            plain.update(attributes)
            tensor = plain.get("value")
            if isinstance(tensor, onnx.TensorProto):
                array = onnx.numpy_helper.to_array(tensor)
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
        )
        for name, value in {**attributes, **self._scope}.items():
            # An empty list does not tell what it is one of; all that may be empty are of integers.
            kind = onnx.AttributeProto.INTS if isinstance(value, list) and not value else None
            node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=kind))
        self._nodes.append(node)
        return outputs

    def addInputTensor(
        self,
        tensorInfo: TensorInfo | None = None,
        dataType: str = "",
        shape: Any = (),
        settings: Any = None,
        debugContext: str | DebugContext = "",
    ) -> str:
        info = _InferredInfo(dataType, list(shape)) if tensorInfo is None else tensorInfo._info
        name = self._name(_path(debugContext) or "input")
        self._infos[name] = info
        self._inputs.append(name)
        return name

    def addInitializedInputTensor(
        self,
        initVal: np.ndarray[Any, Any],
        variableSettings: VariableSettings | None = None,
        debugContext: str | DebugContext = "",
    ) -> str:
        name = self._name(_path(debugContext) or "init_input")
        self._values[name] = np.ascontiguousarray(initVal).reshape(initVal.shape)
        self._infos[name] = _InferredInfo(initVal)
        if variableSettings is not None:
            self._metadata.update(variableSettings._entries(name))
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

    def _place(self, attribute: str, target: Any, value: int) -> Any:
        if target is None:
            return self._context(attribute, value)
        self._add(attribute, value, [target] if isinstance(target, str) else target)
        return None

    def virtualGraph(self, nodeOutputNames: Any = None, value: int = 0) -> Any:
        return self._place("__ipu_number", nodeOutputNames, value)

    def pipelineStage(self, nodeOutputNames: Any = None, value: int = 0) -> Any:
        return self._place("__pipeline_stage", nodeOutputNames, value)

    def executionPhase(self, nodeOutputNames: Any = None, value: int = 0) -> Any:
        return self._place("__execution_phase", nodeOutputNames, value)

    def hasVirtualGraph(self) -> bool:
        return "__ipu_number" in self._scope

    def hasPipelineStage(self) -> bool:
        return "__pipeline_stage" in self._scope

    def getVirtualGraph(self, nodeOutputNames: Any = None) -> int:
        if nodeOutputNames is None:
            return int(self._scope["__ipu_number"])
        ids = {nodeOutputNames} if isinstance(nodeOutputNames, str) else nodeOutputNames
        (found,) = [a.i for a in self._node(ids).attribute if a.name == "__ipu_number"]
        return int(found)

    def getPipelineStage(self) -> int:
        return int(self._scope["__pipeline_stage"])

    def recomputeOutput(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        attribute = "__recompute_output_in_backward_pass"
        return self._place(attribute, nodeOutputNames, value.value)

    def recomputeOutputInBackwardPass(
        self, nodeOutputName: Any = None, nodeOutputNames: Any = None, value: Any = None
    ) -> None:
        self.recomputeOutput(nodeOutputName or nodeOutputNames, value)

    def checkpointOutput(self, nodeOutputNames: list[str]) -> list[str]:
        kept = []
        for name in nodeOutputNames:
            kept += self._append("ai.onnx", "Identity", [name], {}, 1, "Checkpoint")
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
        nodeOutputName: str = "",
        availableMemoryProportion: float = 0.0,
        nodeOutputNames: Any = None,
    ) -> None:
        if not 0 < availableMemoryProportion <= 1:
            raise popart_exception("availableMemoryProportion must be in (0,1]")
        ids = nodeOutputNames or {nodeOutputName}
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
        mode: str,
        factor: int,
        keep_precision: bool,
    ) -> None:
        modes = ("none", "input_channels", "reducing_dim", "output_channels")
        if mode not in modes:
            raise popart_exception(f"Unsupported mat mul serialization mode '{mode}'. ")
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
        opset = self._opset or 10
        opsets = [onnx.helper.make_opsetid(domain, 1 if domain else opset) for domain in domains]
        version = 3 if opset <= 8 else 4
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=version)
        onnx.helper.set_model_props(model, self._metadata)
        return model

    def getModelProto(self) -> bytes:
        return bytes(self._proto().SerializeToString())

    def saveModelProto(self, filename: str) -> None:
        Path(filename).write_bytes(self._proto().SerializeToString())


class _CommGroup(Record):
    """A group of replicas."""


CommGroup: Any = record("CommGroup", _CommGroup)


class VariableSettings(Recorded):
    """Which replicas share a weight's values; the stand-in writes no strides."""

    def __init__(
        self,
        sharedVariableDomain_: Any = None,
        retrievalMode_: Any = None,
        **strides: Any,
    ) -> None:
        if strides:
            raise NotImplementedError("the stand-in has no variable settings with a stride")
        self._group = CommGroup() if sharedVariableDomain_ is None else sharedVariableDomain_
        self._mode = retrievalMode_

    def _entries(self, name: str) -> dict[str, str]:
        """What a model's metadata has of a weight."""
        return {
            f"__comm_group_type/{name}": str(self._group.type.value),
            f"__comm_group_size/{name}": str(self._group.replicaGroupSize),
            f"__variable_settings/{name}": str(0 if self._mode is None else self._mode.value),
        }


class _Constant(NamedTuple):
    """What shape inference reads of a tensor attribute."""

    array: np.ndarray[tuple[int, ...], np.dtype[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return _InferredInfo(self.array).dtype


def _one_list(given: dict[str, Any], sets: list[list[str]]) -> tuple[list[str], dict[str, Any]]:
    """MultiConv's inputs and attributes, one after another."""
    flat = {
        name: [item for row in value for item in row]
        if isinstance(value, list) and value and isinstance(value[0], list)
        else value
        for name, value in given.items()
    }
    return [name for row in sets for name in (*row, "")[:3]], flat


class InputSettings(Recorded):
    """How an input is streamed."""

    def __init__(self, **how: Any) -> None:
        self._how = how


for _class in (DebugInfo, DebugContext, SourceLocation, VariableSettings, InputSettings):
    bind(_class)
_python = python_table().classes
_core = module_table().classes
# The class in Python defines its constructor again.
bind(TensorInfo, _core["_TensorInfoCore"], _python["TensorInfo"])
bind(Builder, _core["_BuilderCore"], _python["Builder"])

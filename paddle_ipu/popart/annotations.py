"""Annotations of a builder's nodes: attributes, placement, recomputation, memory, scopes."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.collectives import COMM_GROUP
from paddle_ipu.popart.contexts import AttributeContextManager, KeyValueContextManager
from paddle_ipu.popart.enums import CommGroupType, RecomputeType
from paddle_ipu.popart.options import TensorLocation
from paddle_ipu.popart.schema import schema_of_node
from paddle_ipu.popart.serialized_products import MODES

VIRTUAL_GRAPH = "__ipu_number"
PIPELINE_STAGE = "__pipeline_stage"
EXECUTION_PHASE = "__execution_phase"
RECOMPUTE = "__recompute_output_in_backward_pass"
PARTIALS_TYPE = "__partials_type"
AVAILABLE_MEMORY = "__available_memory"
CONV_DITHERING = "__enable_conv_dithering"
OUTPUT_LOCATION = "__output_tensor_location"
EXCLUDE_PATTERNS = "__exclude_patterns"
SCHEDULE_PRIORITY = "__schedule_priority"
OUTLINE = "__outline"
INPLACE_NAMES = "__inplace_op_names"
INPLACE_PRIORITIES = "__inplace_op_priorities"
MATMUL_MODE = "__serialize_matmul_mode"
MATMUL_FACTOR = "__serialize_matmul_factor"
MATMUL_PRECISION = "__serialize_matmul_precision"

P = ParamSpec("P")
R = TypeVar("R")


def attribute_of(name: str, value: Any) -> ir.Attr:
    """An attribute whose kind follows from the Python value; lists must be homogeneous."""
    if isinstance(value, bool | int):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, int) for item in value):
            return ir.AttrInt64s(name, [int(item) for item in value])
        if all(isinstance(item, float) for item in value):
            return ir.AttrFloat32s(name, list(value))
        if all(isinstance(item, str) for item in value):
            return ir.AttrStrings(name, list(value))
        raise popart_exception(
            f"Invalid or mismatched python list type provided in custom op attribute '{name}'"
        )
    raise popart_exception(f"Invalid type provided in custom op attribute '{name}'")


IMPLIED = "implied attributes"
"""In a node's `meta`: names of attributes that PopART leaves out, having their default value.

They are written all the same, for what reads a node, and count as absent for who asks the builder.
"""


def _given(node: ir.Node) -> list[str]:
    """The attributes that a node has in PopART."""
    implied = node.meta.get(IMPLIED, frozenset())
    return [name for name in node.attributes if name not in implied]


def _attribute_for(node: ir.Node, name: str, value: Any) -> ir.Attr:
    """An attribute of a node; the kind of an empty list is that of the operator's attribute.

    NumPy's numbers and arrays and every kind of sequence do, and whole numbers among others are
    floats, as PopART's bindings have it.

    Raises:
        TypeError: neither numbers nor texts.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        value = [item.item() if isinstance(item, np.generic) else item for item in value]
        if any(isinstance(item, float) for item in value):
            value = [float(item) if isinstance(item, int) else item for item in value]
        schema = schema_of_node(node)
        known = schema.attributes.get(name) if schema is not None else None
        if not value and known is not None and known.kind == "strings":
            return ir.AttrStrings(name, [])
        if not value and known is not None and known.kind == "floats":
            return ir.AttrFloat32s(name, [])
    try:
        return attribute_of(name, value)
    except popart_exception:
        raise TypeError(
            "addNodeAttribute(): incompatible function arguments. attributeValue must be an int, a "
            f"float, a str or a list of one of them; attribute '{name}' got {value!r}"
        ) from None


def _by_either_name(method: Callable[P, R]) -> Callable[P, R]:
    """Lets a method's nodes be given as ``nodeOutputName`` or ``nodeOutputNames``, as PopART's."""

    @functools.wraps(method)
    def called(*args: P.args, **keywords: P.kwargs) -> R:
        if "nodeOutputNames" in keywords:
            keywords["nodeOutputName"] = keywords.pop("nodeOutputNames")
        return method(*args, **keywords)

    return called


class Annotations(ABC):
    """The annotating half of Builder; a subclass answers for the tensors."""

    def __init__(self) -> None:
        self._scope: dict[str, Any] = {}
        self._name_scopes: list[str] = []

    @abstractmethod
    def _known(self, name: str) -> ir.Value:
        """The value of a tensor id; raises PopART's error for an unknown one."""

    def scope_attributes(self) -> list[ir.Attr]:
        """Attributes that the open contexts put on every new node."""
        return [attribute_of(name, value) for name, value in self._scope.items()]

    def _scoped(self, name: str, value: Any) -> AttributeContextManager:
        return AttributeContextManager(self._scope, name, lambda _: value)

    # Node attributes

    def _node_with_outputs(self, names: Iterable[str]) -> ir.Node:
        if isinstance(names, str):
            raise TypeError(f"nodeOutputNames must be a set of tensor ids, got {names!r}")
        wanted = set(names)
        for name in wanted:
            node = self._known(name).producer()
            if node is not None and {value.name for value in node.outputs} == wanted:
                return node
            break
        raise popart_exception(
            f"Could not find a node with outputs {' ,'.join(sorted(wanted))}. Must specify all "
            "outputs of a node"
        )

    def addNodeAttribute(
        self,
        attributeName: str,
        attributeValue: Any,
        nodeOutputNames: Iterable[str],
    ) -> None:
        """Adds an attribute to the node with exactly these outputs."""
        node = self._node_with_outputs(nodeOutputNames)
        if attributeName in _given(node):
            raise popart_exception(f"Node already has attribute {attributeName}.")
        node.attributes.add(_attribute_for(node, attributeName, attributeValue))
        if IMPLIED in node.meta:
            node.meta[IMPLIED] -= {attributeName}

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Iterable[str]) -> bool:
        """Whether a node has an attribute."""
        return attributeName in _given(self._node_with_outputs(nodeOutputNames))

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str]) -> None:
        """Removes an attribute from a node."""
        node = self._node_with_outputs(nodeOutputNames)
        if attributeName not in _given(node):
            raise popart_exception(f"Cannot remove attribute {attributeName} as it does not exist.")
        node.attributes.pop(attributeName)

    def getAllNodeAttributeNames(self, nodeOutputNames: Iterable[str]) -> list[str]:
        """Names of a node's attributes."""
        return _given(self._node_with_outputs(nodeOutputNames))

    def _attribute(
        self, name: str, outputs: Iterable[str], kind: ir.AttributeType, wanted: str
    ) -> Any:
        node = self._node_with_outputs(outputs)
        attributes = node.attributes
        if name not in _given(node):
            raise popart_exception(f"Node does not have an attribute {name}.")
        if attributes[name].type != kind:
            raise popart_exception(f"Attribute {name} is not {wanted}.")
        return attributes[name].value

    def getInt64NodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str]) -> int:
        """An integer attribute."""
        kind = ir.AttributeType.INT
        return int(self._attribute(attributeName, nodeOutputNames, kind, "an integer"))

    def getInt64VectorNodeAttribute(
        self,
        attributeName: str,
        nodeOutputNames: Iterable[str],
    ) -> list[int]:
        """An attribute of several integers."""
        kind = ir.AttributeType.INTS
        return list(self._attribute(attributeName, nodeOutputNames, kind, "an integer vector"))

    def getFloatNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str]) -> float:
        """A float attribute."""
        kind = ir.AttributeType.FLOAT
        return float(self._attribute(attributeName, nodeOutputNames, kind, "a float"))

    def getFloatVectorNodeAttribute(
        self,
        attributeName: str,
        nodeOutputNames: Iterable[str],
    ) -> list[float]:
        """An attribute of several floats."""
        kind = ir.AttributeType.FLOATS
        return list(self._attribute(attributeName, nodeOutputNames, kind, "a float vector"))

    def getStringNodeAttribute(self, attributeName: str, nodeOutputNames: Iterable[str]) -> str:
        """A string attribute."""
        kind = ir.AttributeType.STRING
        return str(self._attribute(attributeName, nodeOutputNames, kind, "a string"))

    def getStringVectorNodeAttribute(
        self,
        attributeName: str,
        nodeOutputNames: Iterable[str],
    ) -> list[str]:
        """An attribute of several strings."""
        kind = ir.AttributeType.STRINGS
        return list(self._attribute(attributeName, nodeOutputNames, kind, "a string vector"))

    # Placement

    def _place(
        self, attribute: str, target: Any, value: int | None
    ) -> AttributeContextManager | None:
        if isinstance(target, str):
            target = [target]
        if isinstance(target, (set, frozenset, list, tuple)):
            self.addNodeAttribute(attribute, 0 if value is None else int(value), set(target))
            return None
        if value is None and isinstance(target, int):
            return self._scoped(attribute, int(target))
        raise TypeError(
            f"expected tensor id(s) and a number, or a number alone, got {target!r} and {value!r}"
        )

    @overload
    def virtualGraph(self, nodeOutputNames: str | Iterable[str], value: int = 0) -> None: ...
    @overload
    def virtualGraph(self, value: int, /) -> AttributeContextManager: ...
    @overload
    def virtualGraph(self, *, value: int) -> AttributeContextManager: ...
    def virtualGraph(
        self,
        nodeOutputNames: Any = None,
        value: int | None = None,
    ) -> AttributeContextManager | None:
        """``virtualGraph(id or ids, n)`` places a node; ``with virtualGraph(n):`` new nodes."""
        target = value if nodeOutputNames is None else nodeOutputNames
        return self._place(VIRTUAL_GRAPH, target, None if nodeOutputNames is None else value)

    @overload
    def pipelineStage(self, nodeOutputNames: str | Iterable[str], value: int = 0) -> None: ...
    @overload
    def pipelineStage(self, value: int, /) -> AttributeContextManager: ...
    @overload
    def pipelineStage(self, *, value: int) -> AttributeContextManager: ...
    def pipelineStage(
        self,
        nodeOutputNames: Any = None,
        value: int | None = None,
    ) -> AttributeContextManager | None:
        """Like `virtualGraph`, for the pipeline stage."""
        target = value if nodeOutputNames is None else nodeOutputNames
        return self._place(PIPELINE_STAGE, target, None if nodeOutputNames is None else value)

    @overload
    def executionPhase(self, nodeOutputNames: str | Iterable[str], value: int = 0) -> None: ...
    @overload
    def executionPhase(self, value: int, /) -> AttributeContextManager: ...
    @overload
    def executionPhase(self, *, value: int = 0) -> AttributeContextManager: ...
    def executionPhase(
        self,
        nodeOutputNames: Any = None,
        value: int | None = None,
    ) -> AttributeContextManager | None:
        """Like `virtualGraph`, for the execution phase."""
        if nodeOutputNames is None:
            return self._place(EXECUTION_PHASE, 0 if value is None else value, None)
        return self._place(EXECUTION_PHASE, nodeOutputNames, value)

    def _scope_value(self, attribute: str, what: str) -> int:
        if attribute not in self._scope:
            raise popart_exception(f"{what} not set in current scope.")
        return int(self._scope[attribute])

    def getVirtualGraph(self, nodeOutputNames: Any = None) -> int:
        """The virtual graph of a node, or of the current scope."""
        if nodeOutputNames is None:
            return self._scope_value(VIRTUAL_GRAPH, "Virtual graph")
        names = {nodeOutputNames} if isinstance(nodeOutputNames, str) else set(nodeOutputNames)
        return self.getInt64NodeAttribute(VIRTUAL_GRAPH, names)

    def hasVirtualGraph(self) -> bool:
        """Whether the current scope sets a virtual graph."""
        return VIRTUAL_GRAPH in self._scope

    def getPipelineStage(self) -> int:
        """The pipeline stage of the current scope."""
        return self._scope_value(PIPELINE_STAGE, "Pipeline stage")

    def hasPipelineStage(self) -> bool:
        """Whether the current scope sets a pipeline stage."""
        return PIPELINE_STAGE in self._scope

    def getExecutionPhase(self) -> int:
        """The execution phase of the current scope."""
        return self._scope_value(EXECUTION_PHASE, "Execution phase")

    def hasExecutionPhase(self) -> bool:
        """Whether the current scope sets an execution phase."""
        return EXECUTION_PHASE in self._scope

    def schedulePriority(self, value: float) -> AttributeContextManager:
        """Priority of the nodes made inside."""
        return self._scoped(SCHEDULE_PRIORITY, float(value))

    def outlineAttributes(self, attributes: Mapping[str, Any]) -> KeyValueContextManager:
        """Key-value pairs that keep nodes made inside from being outlined with others."""
        return KeyValueContextManager(self._scope, OUTLINE, attributes)

    def commGroup(
        self,
        type: int | CommGroupType = 0,
        groupSize: int = 0,
    ) -> AttributeContextManager:
        """Replica group of the collectives made inside."""
        return self._scoped(COMM_GROUP, [int(type), int(groupSize)])

    # Recomputation and memory

    @overload
    def recomputeOutput(self, nodeOutputNames: str, value: RecomputeType = ...) -> None: ...
    @overload
    def recomputeOutput(self, value: RecomputeType, /) -> AttributeContextManager: ...
    @overload
    def recomputeOutput(self, *, value: RecomputeType = ...) -> AttributeContextManager: ...
    def recomputeOutput(
        self,
        nodeOutputNames: str | RecomputeType | None = None,
        value: RecomputeType = RecomputeType.Undefined,
    ) -> AttributeContextManager | None:
        """``recomputeOutput(id, type)`` marks a node; ``with recomputeOutput(type):`` new nodes."""
        if isinstance(nodeOutputNames, str):
            self.addNodeAttribute(RECOMPUTE, int(value), {nodeOutputNames})
            return None
        kind = value if nodeOutputNames is None else nodeOutputNames
        return self._scoped(RECOMPUTE, int(kind))

    @_by_either_name
    def recomputeOutputInBackwardPass(
        self,
        nodeOutputName: str | Iterable[str],
        value: RecomputeType = RecomputeType.Recompute,
    ) -> None:
        """Marks a node, given by all its outputs, as recomputed in the backward pass."""
        names = {nodeOutputName} if isinstance(nodeOutputName, str) else set(nodeOutputName)
        self.addNodeAttribute(RECOMPUTE, int(value), names)

    @_by_either_name
    def getRecomputeOutputInBackwardPass(self, nodeOutputName: str | Iterable[str]) -> bool:
        """Whether a node carries a recompute mark."""
        names = {nodeOutputName} if isinstance(nodeOutputName, str) else set(nodeOutputName)
        return bool(self.getInt64NodeAttribute(RECOMPUTE, names))

    @overload
    def outputTensorLocation(self, nodeOutputNames: str, value: TensorLocation = ...) -> None: ...
    @overload
    def outputTensorLocation(self, value: TensorLocation, /) -> AttributeContextManager: ...
    @overload
    def outputTensorLocation(self, *, value: TensorLocation = ...) -> AttributeContextManager: ...
    def outputTensorLocation(
        self,
        nodeOutputNames: str | TensorLocation | None = None,
        value: TensorLocation | None = None,
    ) -> AttributeContextManager | None:
        """Where a node's output is kept: for one tensor, or for nodes made in the context."""
        if isinstance(nodeOutputNames, str):
            location = TensorLocation() if value is None else value
            self.addNodeAttribute(OUTPUT_LOCATION, location.serialize(), {nodeOutputNames})
            return None
        location = nodeOutputNames or value or TensorLocation()
        return self._scoped(OUTPUT_LOCATION, location.serialize())

    def excludePatterns(self, nodeOutputName: str, patternNames: Sequence[str]) -> None:
        """Patterns that must not rewrite a node."""
        self.addNodeAttribute(EXCLUDE_PATTERNS, list(patternNames), {nodeOutputName})

    def setInplacePreferences(self, nodeOutputName: str, prefs: Mapping[str, float]) -> None:
        """Priorities of the in-place forms of a node."""
        self.addNodeAttribute(INPLACE_NAMES, list(prefs), {nodeOutputName})
        priorities = [float(value) for value in prefs.values()]
        self.addNodeAttribute(INPLACE_PRIORITIES, priorities, {nodeOutputName})

    def setPartialsType(self, nodeOutputName: str, partialsType: str) -> None:
        """Type of the partial sums of a Conv or MatMul, ``FLOAT`` or ``HALF``."""
        op_type = self._node_with_outputs({nodeOutputName}).op_type
        if op_type not in ("Conv", "MatMul"):
            raise popart_exception(
                "Builder::setPartialsType should only be called on operators: Conv, MatMul; but "
                f"was given: {op_type}"
            )
        self.addNodeAttribute(PARTIALS_TYPE, partialsType, {nodeOutputName})

    def getPartialsType(self, nodeOutputName: str) -> str:
        """Type of the partial sums of a node, ``FLOAT`` when not set."""
        if self.nodeHasAttribute(PARTIALS_TYPE, {nodeOutputName}):
            return self.getStringNodeAttribute(PARTIALS_TYPE, {nodeOutputName})
        return "FLOAT"

    @_by_either_name
    def setAvailableMemoryProportion(
        self,
        nodeOutputName: str | Iterable[str],
        availableMemoryProportion: float,
    ) -> None:
        """Share of a tile's memory that the planner may use for a node."""
        if not 0 < availableMemoryProportion <= 1:
            raise popart_exception("availableMemoryProportion must be in (0,1]")
        names = {nodeOutputName} if isinstance(nodeOutputName, str) else set(nodeOutputName)
        if self.nodeHasAttribute(AVAILABLE_MEMORY, names):
            self.removeNodeAttribute(AVAILABLE_MEMORY, names)
        self.addNodeAttribute(AVAILABLE_MEMORY, float(availableMemoryProportion), names)

    def setEnableConvDithering(self, nodeOutputName: str, enableConvDithering: int) -> None:
        """Spreads a convolution's layout over the tiles."""
        if enableConvDithering not in (0, 1):
            raise popart_exception("enableConvDithering must be a bool value")
        op_type = self._node_with_outputs({nodeOutputName}).op_type
        if op_type != "Conv":
            raise popart_exception(
                "Builder::setEnableConvDithering should only be called on convolutions but was "
                f"given: {op_type}"
            )
        self.addNodeAttribute(CONV_DITHERING, int(enableConvDithering), {nodeOutputName})

    def setSerializeMatMul(
        self,
        nodeOutputName: Iterable[str],
        mode: str,
        factor: int = 0,
        keep_precision: bool = False,
    ) -> None:
        """Cuts a MatMul into `factor` smaller ones along one dimension; other nodes stay whole."""
        names = {nodeOutputName} if isinstance(nodeOutputName, str) else set(nodeOutputName)
        if mode not in MODES:
            modes = "'{}', '{}', '{}' or '{}'".format(*MODES)
            raise popart_exception(
                f"Unsupported mat mul serialization mode '{mode}'. Supported modes are {modes}"
            )
        if mode != "none":
            self.addNodeAttribute(MATMUL_MODE, mode, names)
            self.addNodeAttribute(MATMUL_FACTOR, int(factor), names)
            self.addNodeAttribute(MATMUL_PRECISION, int(keep_precision), names)

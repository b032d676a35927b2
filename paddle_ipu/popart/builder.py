"""PopART's Builder: a graph of PopART operators held as an onnx_ir model.

Tensors are named by PopART's rules and typed as they are made. Nothing passes through protobuf
until a ModelProto is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import NotSupported, popart_exception
from paddle_ipu.popart.absent import Absent
from paddle_ipu.popart.annotations import (
    EXCLUDE_PATTERNS,
    IMPLIED,
    RECOMPUTE,
    Annotations,
    attribute_of,
)
from paddle_ipu.popart.contexts import NameContextManager
from paddle_ipu.popart.enums import RecomputeType
from paddle_ipu.popart.external_data import save_externally
from paddle_ipu.popart.graph_types import (
    infer_outputs,
    model_bytes,
    read_model,
    type_graph,
    with_own_bodies,
    write_model,
)
from paddle_ipu.popart.input_arguments import initialized_input, input_arguments
from paddle_ipu.popart.opsets import (
    ONNX_NAMESPACES,
    AiGraphcoreOpset1,
    AiOnnxOpset6,
    AiOnnxOpset7,
    AiOnnxOpset8,
    AiOnnxOpset9,
    AiOnnxOpset10,
    AiOnnxOpset11,
    AiPaddleIpuOpset1,
)
from paddle_ipu.popart.schema import NEWEST_OPSETS, OpSchema, schema_of
from paddle_ipu.popart.subgraphs import FROM_PARENT
from paddle_ipu.popart.tensorinfo import TensorInfo, info_of
from paddle_ipu.popart.variable_settings import VariableSettings, grouped_weights

_DEFAULT_ONNX_OPSET = 10
# The ONNX IR version that PopART writes with ai.onnx opsets up to 8; with later ones it is 4.
_OLD_IR_VERSION, _LAST_OPSET_OF_IT = 3, 8
_graph_numbers = itertools.count()

Array = np.ndarray[Any, Any]


class Builder(Annotations):
    """Builds a PopART program.

    Args:
        modelProtoOrFilename: an ONNX model, serialised or by file name, to start from.
        opsets: operator-set version by domain; ``{"ai.onnx": 11, "ai.graphcore": 1}``.
        builderCore: PopART's own builder in C++; there is none here, and it has to be None.

    Initialised inputs keep the caller's array: writing to a contiguous one writes the program's.
    """

    def __init__(
        self,
        modelProtoOrFilename: bytes | str | Path | None = None,
        opsets: Mapping[str, int] | None = None,
        builderCore: None = None,
    ) -> None:
        if builderCore is not None:
            raise NotSupported(
                f"Builder(builderCore={builderCore!r}) is not supported: there is no builder in "
                "C++. Use createSubgraphBuilder for the body of an operator"
            )
        super().__init__()
        self._chosen_onnx: int | None = None
        self._values: dict[str, ir.Value] = {}
        self._parent: Builder | None = None
        # Ids are unique over a builder, its parents and its subgraphs, which share these two.
        self._names: set[str] = set()
        self._next_clash: dict[str, int] = {}
        self._nodes_by_outputs: dict[frozenset[str], ir.Node] = {}
        if modelProtoOrFilename is None:
            graph = ir.Graph([], [], nodes=[], name=f"BuilderGraph_{next(_graph_numbers)}")
            self._model = ir.Model(graph, ir_version=4)
        else:
            self._model = read_model(modelProtoOrFilename)
            grouped = grouped_weights(self._model)
            for name in grouped:
                self._model.graph.initializers[name].shape = None
            type_graph(self._model.graph, grouped)
            self._adopt()
        self._graph = self._model.graph
        for domain, version in {**(opsets or {}), **self._graph.opset_imports}.items():
            self._choose_opset(domain or "ai.onnx", version)
        self._onnx = {version: made(self) for version, made in ONNX_NAMESPACES.items()}
        self.aiGraphcore = AiGraphcoreOpset1(self)
        self.aiGraphcoreOpset1 = self.aiGraphcore
        self.aiPaddleIpuOpset1 = AiPaddleIpuOpset1(self)

    aiOnnxMl = Absent("ai.onnx.ml has no operators, here or there")
    aiOnnxMlOpset1 = Absent("ai.onnx.ml has no operators, here or there")

    @property
    def model(self) -> ir.Model:
        """The program itself, not a copy."""
        return self._model

    @property
    def aiOnnx(self) -> Any:
        """Operators of the chosen ai.onnx opset; without a choice of 10, as in PopART."""
        return self._onnx_opset(self._chosen_onnx or _DEFAULT_ONNX_OPSET)

    @property
    def aiOnnxOpset6(self) -> AiOnnxOpset6:
        """Operators of ai.onnx opset 6."""
        return cast(AiOnnxOpset6, self._onnx_opset(6))

    @property
    def aiOnnxOpset7(self) -> AiOnnxOpset7:
        """Operators of ai.onnx opset 7."""
        return cast(AiOnnxOpset7, self._onnx_opset(7))

    @property
    def aiOnnxOpset8(self) -> AiOnnxOpset8:
        """Operators of ai.onnx opset 8."""
        return cast(AiOnnxOpset8, self._onnx_opset(8))

    @property
    def aiOnnxOpset9(self) -> AiOnnxOpset9:
        """Operators of ai.onnx opset 9."""
        return cast(AiOnnxOpset9, self._onnx_opset(9))

    @property
    def aiOnnxOpset10(self) -> AiOnnxOpset10:
        """Operators of ai.onnx opset 10."""
        return cast(AiOnnxOpset10, self._onnx_opset(10))

    @property
    def aiOnnxOpset11(self) -> AiOnnxOpset11:
        """Operators of ai.onnx opset 11."""
        return cast(AiOnnxOpset11, self._onnx_opset(11))

    def aiOnnxOpsetVersion(self, version: int) -> None:
        """Checks that there is such an operator set of ai.onnx, and chooses none, as in PopART.

        `opsets` of the constructor chooses one, or the first whose operators are used.

        Raises:
            ValueError: PopART has no such operator set.
        """
        if version not in ONNX_NAMESPACES:
            raise ValueError(
                f"Unsupported or unrecognized ai.Onnx version: {version}. There are 6 to 11"
            )

    def _onnx_opset(self, version: int) -> Any:
        if self._chosen_onnx not in (None, version):
            raise RuntimeError(
                f"Invalid opset '{version}' selected. Opset for domain ai.onnx already defined as "
                f"{self._chosen_onnx}"
            )
        self._choose_opset("ai.onnx", version)
        return self._onnx[version]

    def _choose_opset(self, domain: str, version: int) -> None:
        """Takes note of an operator set that the user or an imported model names."""
        newest = NEWEST_OPSETS.get(domain)
        known = ONNX_NAMESPACES if domain == "ai.onnx" else (newest, None)
        if newest is not None and version not in known:
            raise NotSupported(
                f"opset {version} of domain {domain} is not supported: PopART has ai.onnx 6 to 11 "
                "and ai.graphcore 1"
            )
        if domain == "ai.onnx":
            self._chosen_onnx = version
            self._model.ir_version = 4 if version > _LAST_OPSET_OF_IT else _OLD_IR_VERSION

    # Subgraphs

    def createSubgraphBuilder(self) -> Builder:
        """A builder for the body of an If, Loop, Scan or Call, which knows this one's tensors."""
        made = Builder()
        made._parent, made._names, made._next_clash = self, self._names, self._next_clash
        made._chosen_onnx = self._chosen_onnx
        return made

    def addInputTensorFromParentGraph(self, tensorId: str) -> None:
        """Gives a subgraph a tensor of the graph around it, by the same id.

        A Call, Loop or Scan may be given something else in its place, where it has an input for
        each such tensor, in the order in which the subgraph got its inputs.

        Raises:
            popart_exception: this is no subgraph, or nothing around it has that tensor.
        """
        if self._parent is None or self._parent._find(tensorId) is None:
            reason = (
                "this builder is not one that createSubgraphBuilder made"
                if self._parent is None
                else "no graph around this subgraph has it"
            )
            raise popart_exception(
                f"Failed to add unrecognised Tensor {tensorId} from higher scope, Currently, a "
                "Tensor must already exist in a higher (parent) scope to add it as an input in a "
                f"lower scope. Here, {reason}."
            )
        taken = self._graph.meta.setdefault(FROM_PARENT, {})
        taken.setdefault(tensorId, len(self._graph.inputs) + len(taken))

    def addUntypedInputTensor(self, debugContext: str = "") -> str:
        """Adds an input to a subgraph and returns its id; its type is that of what it is given.

        What the subgraph computes of it has no type either until an operator runs the subgraph.
        Each operator that does has its own copy, so the types of one do not bind another.

        Raises:
            popart_exception: this is no subgraph.
        """
        if self._parent is None:
            raise popart_exception(
                "Can not add untyped tensors to the top-level graph. Use "
                "Builder::addInputTensor(const TensorInfo &tensorInfo, const std::string "
                "&debugPrefix) instead."
            )
        return str(self._input(None, debugContext).name)

    # Inputs and outputs

    def addInputTensor(
        self,
        *args: Any,
        **keywords: Any,
    ) -> str:
        """Adds a graph input and returns its id.

        ``addInputTensor(tensorInfo, [settings], debugContext="")`` or
        ``addInputTensor(dataType, shape, [settings], debugContext="")``. The shape is that of one
        micro-batch on one replica. As in PopART the second form drops the settings.
        """
        info, settings, name = input_arguments(args, keywords)
        if any(dim < 0 for dim in info.dims):
            raise popart_exception(
                f"Input '{name or 'input'}' has shape {info.shape()}: all dimensions must be known"
            )
        value = self._input(info, name)
        if settings is not None:
            self._model.metadata_props.update(settings.metadata(str(value.name)))
        return str(value.name)

    def addInitializedInputTensor(
        self,
        initVal: Array,
        variableSettings: VariableSettings | str | None = None,
        debugContext: str = "",
    ) -> str:
        """Adds a variable: a graph input and initializer that keeps `initVal` by reference.

        ``addInitializedInputTensor(initVal, debugContext="")`` or
        ``addInitializedInputTensor(initVal, variableSettings, debugContext="")``. Where the
        settings make several groups of a session's replicas, `initVal` has an entry for each group,
        [groups, *shape]. How many there are is known only there: until then the tensor, and what is
        computed of it, has no shape.

        Raises:
            TypeError: other arguments.
            popart_exception: settings with a stride, which a model cannot keep, or in a subgraph.
        """
        array, settings, label = initialized_input(initVal, variableSettings, debugContext)
        if settings is not None:
            settings.getSharedVariableDomain()
            if self._parent is not None:
                raise popart_exception(
                    f"addInitializedInputTensor('{label}') of a subgraph has {settings!r}: "
                    "VariableSettings are of the weights of the main graph. Add it there, and give "
                    "it to the subgraph as an input"
                )
        value = self._input(TensorInfo(array), label or "init_input")
        value.const_value = ir.Tensor(array, name=value.name)
        self._graph.register_initializer(value)
        name = str(value.name)
        if settings is not None:
            self._model.metadata_props.update(settings.metadata(name))
            if name in grouped_weights(self._model):
                value.shape = None
        return name

    def addOutputTensor(self, outputName: str) -> None:
        """Makes a tensor an output of the graph."""
        value = self._known(outputName)
        if self._parent is not None and outputName not in self._values:
            raise popart_exception(
                f"Tensor '{outputName}' belongs to the graph around this subgraph and cannot be an "
                "output of it. Make it an output of an Identity here"
            )
        self._graph.outputs.append(value)

    def _input(self, info: TensorInfo | None, name: str) -> ir.Value:
        value = ir.Value(
            name=self._next_id(name or "input"),
            type=None if info is None else ir.TensorType(info.dtype),
            shape=None if info is None else ir.Shape(info.dims),
        )
        self._graph.inputs.append(value)
        self._values[str(value.name)] = value
        return value

    # Nodes

    def emit(
        self,
        schema: OpSchema,
        inputs: Sequence[str],
        attributes: Sequence[ir.Attr],
        num_outputs: int,
        debug_context: str,
        opset: int,
    ) -> list[str]:
        """Appends a node of `schema` and returns the ids of its typed outputs.

        The operator's domain is at `opset` from then on.

        Raises:
            popart_exception: arity, an unknown input, or types and shapes that do not fit.
        """
        schema.check_arity(len(inputs), num_outputs)
        values = [
            None if not name and schema.may_be_empty(at) else self._known(name)
            for at, name in enumerate(inputs)
        ]
        attributes = with_own_bodies(schema.op_type, values, attributes)
        names = [self._propose(f"{schema.op_type}:{at}") for at in range(num_outputs)]
        infos = infer_outputs(schema, values, attributes, names)
        for name in names:
            self._claim(name)
        domain = "" if schema.domain == "ai.onnx" else schema.domain
        self._require_opset(domain, opset)
        node = self._append(domain, schema.op_type, values, attributes, names, infos, debug_context)
        node.version = opset
        if implied := schema.implied(attributes):
            node.meta[IMPLIED] = implied
        if schema.op_type == "Constant":
            node.outputs[0].const_value = node.attributes["value"].as_tensor()
        return names

    def customOp(
        self,
        opName: str,
        opVersion: int,
        domain: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
        numOutputs: int = 1,
        name: str = "",
    ) -> list[str]:
        """Appends an operator by name; the outputs of one without a schema row are untyped."""
        written = [attribute_of(key, value) for key, value in attributes.items()]
        onnx_opset = self._chosen_onnx or NEWEST_OPSETS["ai.onnx"]
        opset = NEWEST_OPSETS.get(domain, 1) if domain not in ("", "ai.onnx") else onnx_opset
        schema = schema_of(domain, opName, opset)
        if schema is not None:
            outputs = self.emit(schema, inputs, written, numOutputs, name, opset)
            if outputs:
                self.node_of(outputs[0]).meta.pop(IMPLIED, None)
            return outputs
        values = [self._known(item) if item else None for item in inputs]
        names = [self._next_id(f"{opName}:{at}") for at in range(numOutputs)]
        self._require_opset(domain, 1)
        self._append(domain, opName, values, written, names, [None] * numOutputs, name)
        return names

    def _append(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr],
        names: Sequence[str],
        infos: Sequence[TensorInfo | None],
        debug_context: str,
    ) -> ir.Node:
        outputs = [
            ir.Value(
                name=name,
                type=None if info is None else ir.TensorType(info.dtype),
                shape=None if info is None else ir.Shape(info.dims),
            )
            for name, info in zip(names, infos, strict=True)
        ]
        written = (*attributes, *self.scope_attributes()) if self._scope else attributes
        label = debug_context or (op_type if self._name_scopes else "")
        node = ir.Node(
            domain,
            op_type,
            inputs,
            written,
            outputs=outputs,
            name="/".join((*self._name_scopes, label)) if label else "",
            graph=self._graph,
        )
        for name, value in zip(names, outputs, strict=True):
            self._values[name] = value
        return node

    def _require_opset(self, domain: str, version: int) -> None:
        if self._parent is not None:
            self._parent._require_opset(domain, version)
        have = self._graph.opset_imports.setdefault(domain, version)
        if have != version:
            raise popart_exception(
                f"Invalid opset {version} used to add an operation. Opset for domain "
                f"{domain or 'ai.onnx'} already defined as {have}"
            )

    def checkpointOutput(self, nodeOutputNames: Sequence[str]) -> list[str]:
        """Marks tensors as kept for the backward pass: one Identity each, whose ids return."""
        results = []
        for name in nodeOutputNames:
            output = str(self.aiOnnx.identity([name], "Checkpoint"))
            checkpoint = int(RecomputeType.Checkpoint)
            self.addNodeAttribute(RECOMPUTE, checkpoint, {output})
            self.addNodeAttribute(EXCLUDE_PATTERNS, ["PreUniRepl", "PostNRepl"], {output})
            results.append(output)
        return results

    def reshape_const(
        self, aiOnnx: Any, args: Sequence[str], shape: Iterable[int], debugContext: str = ""
    ) -> str:
        """Reshapes to a constant shape.

        Args:
            aiOnnx: the operators of an opset, as ``builder.aiOnnxOpset11``.
            args: id of the tensor.
            shape: the new shape; -1 and 0 as in ONNX's Reshape.
            debugContext: name of the operator.
        """
        numbers = np.asarray(list(shape), dtype=np.int64)
        name = f"{debugContext}_const" if debugContext else ""
        return str(aiOnnx.reshape([args[0], aiOnnx.constant(numbers, name)], debugContext))

    # Names

    def _propose(self, name: str) -> str:
        base = "/".join((*self._name_scopes, name)) if self._name_scopes else name
        if base not in self._names:
            return base
        number = self._next_clash.get(base, 1)
        while (candidate := f"{base}/{number}") in self._names:
            number += 1
        self._next_clash[base] = number
        return candidate

    def _claim(self, name: str) -> None:
        self._values[name] = ir.Value(name=name)
        self._names.add(name)

    def _next_id(self, name: str) -> str:
        proposed = self._propose(name)
        self._claim(proposed)
        return proposed

    def _find(self, name: str) -> ir.Value | None:
        """A tensor of this graph, or of one around it."""
        value = self._values.get(name)
        if value is None and self._parent is not None:
            return self._parent._find(name)
        return value

    def _known(self, name: str) -> ir.Value:
        value = self._find(name)
        if value is None:
            if not self._values:
                raise popart_exception(f"Unknown tensor '{name}' (there are no valid tensors yet).")
            raise popart_exception(
                f"Unknown tensor '{name}' (valid tensors are {', '.join(sorted(self._values))})."
            )
        return value

    def nameScope(self, name: str) -> NameContextManager:
        """Prefixes the ids and node names made inside with ``name/``."""
        return NameContextManager(self._name_scopes, name)

    def getNameScope(self, name: str = "") -> str:
        """`name` with the current scopes before it."""
        return "".join(f"{scope}/" for scope in self._name_scopes) + name

    def setGraphName(self, name: str) -> None:
        """Names the graph."""
        self._graph.name = name

    # Queries

    def node_of(self, tensor_id: str) -> ir.Node:
        """The node that produces a tensor; popart_exception for inputs and unknown ids."""
        node = self._known(tensor_id).producer()
        if node is None:
            raise popart_exception(f"'{tensor_id}' is an input of the graph, no node produces it")
        return node

    def info(self, tensor_id: str) -> TensorInfo:
        """The static type of a tensor; of a weight whose shape is open, that of its array."""
        value = self._find(tensor_id)
        info = None if value is None else info_of(value)
        if value is not None and info is None and value.const_value is not None:
            array = value.const_value
            info = TensorInfo.of(array.dtype, tuple(array.shape.numpy()))
        if info is None:
            raise popart_exception(
                f"{tensor_id} is not an known tensor. Must be one of "
                f"(inputs:{self.getInputTensorIds()}) (outputs:{self.getOutputTensorIds()}) "
                f"(values:{self.getValueTensorIds()}). Please check the info log level to confirm "
                "whether the shape has been inferred successfully for the requested tensor."
            )
        return info

    def getTensorShape(self, id: str) -> list[int]:
        """The shape of a tensor."""
        return self.info(id).shape()

    def getTensorDtypeString(self, id: str) -> str:
        """NumPy's name of a tensor's element type."""
        return self.info(id).data_type_lcase()

    def isInitializer(self, id: str) -> bool:
        """Whether a tensor is an initialised input."""
        return id in self._graph.initializers

    def getInputTensorIds(self) -> list[str]:
        """Ids of the graph inputs, initialised ones included."""
        return [str(value.name) for value in self._graph.inputs]

    def getOutputTensorIds(self) -> list[str]:
        """Ids of the graph outputs."""
        return [str(value.name) for value in self._graph.outputs]

    def getValueTensorIds(self) -> list[str]:
        """Ids of every node output, in order."""
        return [str(value.name) for node in self._graph for value in node.outputs]

    def getTrainableTensorIds(self) -> list[str]:
        """Ids of the initialised inputs."""
        return list(self._graph.initializers)

    # The model

    def getModelProto(self) -> bytes:
        """The serialised ONNX ModelProto; nodes of one name are numbered, as ONNX asks for."""
        return model_bytes(self._model)

    def saveModelProto(self, filename: str | Path) -> None:
        """Writes the ModelProto to a file; weights too many for one go to ``<filename>.data``."""
        write_model(self._model, filename)

    def saveInitializersExternally(self, ids: Iterable[str], filename: str | Path) -> None:
        """Moves initializers to a file, see `external_data.save_externally`."""
        save_externally(self._graph, ids, filename)

    def embedReplicationFactor(self, replicationFactor: int) -> None:
        """Records the replication factor in the model's metadata."""
        self._model.metadata_props["__replicationFactor"] = str(replicationFactor)

    def _adopt(self) -> None:
        """Takes over the tensors of an imported model."""
        graph = self._model.graph
        for value in (*graph.inputs, *graph.initializers.values()):
            self._values[str(value.name)] = value
        for node in graph:
            for value in node.outputs:
                self._values[str(value.name)] = value
        self._names.update(self._values)

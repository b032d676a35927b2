"""``popart.GraphTransformer``: changes of an ONNX model before a session takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.external_data import save_externally
from paddle_ipu.popart.graph_types import model_bytes, read_model
from paddle_ipu.popart.variable_settings import grouped_weights

_TRAINED_NORM_OUTPUTS = 5
_INT32 = np.iinfo(np.int32)


class GraphTransformer:
    """Changes an ONNX model; `getModelProto` gives what it became.

    Conversions of types reach initializers, constants and the types that graphs, subgraphs among
    them, tell of their tensors. The type that a Cast names stays, as in PopART.

    Args:
        modelProtoOrFilename: the model, serialised or by file name.

    Raises:
        popart_exception: it is no valid ONNX model of an operator set from 6 to 11.
        OSError: the file cannot be read.
    """

    def __init__(self, modelProtoOrFilename: bytes | str | Path) -> None:
        self._model = read_model(modelProtoOrFilename)
        self._graph = self._model.graph

    def getModelProto(self) -> bytes:
        """The serialised ONNX ModelProto; FLOAT16 is in the bytes that every reader takes."""
        return model_bytes(self._model, half_pairs=False)

    def convertFloatsToHalfs(self) -> None:
        """float32 becomes float16; what is too large becomes infinite."""
        self._convert(ir.DataType.FLOAT, ir.DataType.FLOAT16)

    def convertDoublesToFloats(self) -> None:
        """float64 becomes float32; what is too large becomes infinite."""
        self._convert(ir.DataType.DOUBLE, ir.DataType.FLOAT)

    def convertDoublesToHalfs(self) -> None:
        """float64 becomes float16; what is too large becomes infinite."""
        self._convert(ir.DataType.DOUBLE, ir.DataType.FLOAT16)

    def convertBFloats16ToFloat32(self) -> None:
        """bfloat16 becomes float32."""
        self._convert(ir.DataType.BFLOAT16, ir.DataType.FLOAT)

    def convertUINT8ToINT32(self) -> None:
        """uint8 becomes int32."""
        self._convert(ir.DataType.UINT8, ir.DataType.INT32)

    def convertUINT16ToINT32(self) -> None:
        """uint16 becomes int32."""
        self._convert(ir.DataType.UINT16, ir.DataType.INT32)

    def convertINT8ToINT32(self) -> None:
        """int8 becomes int32."""
        self._convert(ir.DataType.INT8, ir.DataType.INT32)

    def convertINT16ToINT32(self) -> None:
        """int16 becomes int32."""
        self._convert(ir.DataType.INT16, ir.DataType.INT32)

    def convertINT64ToINT32(self, clip: bool = False) -> None:
        """int64 becomes int32.

        Args:
            clip: a number beyond int32 becomes the nearest there is.

        Raises:
            popart_exception: there is such a number, and `clip` is false; nothing is changed.
        """
        self._convert(ir.DataType.INT64, ir.DataType.INT32, clip)

    def convertInitializersToConstants(self, ids: Iterable[str]) -> None:
        """Initializers become Constant nodes, in front of the others.

        Raises:
            popart_exception: an id is not one of an initializer.
        """
        names = list(ids)
        for name in names:
            if name not in self._graph.initializers:
                raise popart_exception(f"TensorId {name} not in the model initalizers")
            if name in grouped_weights(self._model):
                raise popart_exception(
                    f"The initializer '{name}' differs between groups of replicas by its "
                    "VariableSettings, and a Constant is the same on all"
                )
        made = []
        for name in dict.fromkeys(names):
            value = self._graph.initializers.pop(name)
            if value in self._graph.inputs:
                self._graph.inputs.remove(value)
            node = ir.node("Constant", [], {"value": value.const_value}, name=name)
            constant = node.outputs[0]
            constant.type, constant.shape = value.type, value.shape
            value.replace_all_uses_with(constant, replace_graph_outputs=True)
            constant.name = name
            made.append(node)
        if made and len(self._graph):
            self._graph.insert_before(self._graph[0], made)
        else:
            self._graph.extend(made)

    def convertAllFixedPointInitializersToConstants(self) -> None:
        """Initializers of integers and of truth values become Constant nodes."""
        self.convertInitializersToConstants(
            [
                name
                for name, value in self._graph.initializers.items()
                if value.dtype is not None and _is_fixed_point(value.dtype)
            ]
        )

    def prepareNodesForTraining(self) -> None:
        """Each BatchNormalization gets the five results it has in training."""
        taken = {value.name for graph in self._graphs() for value in _values(graph)}
        for node in self._graph.all_nodes():
            missing = _TRAINED_NORM_OUTPUTS - len(node.outputs)
            if node.op_type == "BatchNormalization" and missing > 0:
                first = len(node.outputs)
                node.resize_outputs(_TRAINED_NORM_OUTPUTS)
                for at in range(first, _TRAINED_NORM_OUTPUTS):
                    name = f"{node.outputs[0].name}_statistic_{at}"
                    while name in taken:
                        name += "_"
                    node.outputs[at].name = name

    def removeUnusedInputs(self) -> None:
        """Inputs that no node reads and that are no outputs are removed, with initializers."""
        for value in list(self._graph.inputs):
            if not value.uses() and not value.is_graph_output():
                self._graph.inputs.remove(value)
                self._graph.initializers.pop(str(value.name), None)

    def saveInitializersExternally(self, ids: Iterable[str], filename: str | Path) -> None:
        """Moves initializers to a file, see `external_data.save_externally`."""
        save_externally(self._graph, ids, filename)

    def _convert(self, source: ir.DataType, target: ir.DataType, clip: bool = False) -> None:
        constants = [
            (node, attribute, _converted(attribute.as_tensor(), target, clip))
            for node, attribute in self._constants()
            if attribute.as_tensor().dtype is source
        ]
        weights = [
            (value, _converted(value.const_value, target, clip))
            for graph in self._graphs()
            for value in graph.initializers.values()
            if value.const_value is not None and value.const_value.dtype is source
        ]
        for node, attribute, tensor in constants:
            node.attributes.add(ir.AttrTensor(attribute.name, tensor))
        for value, tensor in weights:
            value.const_value = tensor
        for graph in self._graphs():
            for value in _values(graph):
                if value.dtype is source:
                    value.dtype = target

    def _graphs(self) -> Iterator[ir.Graph]:
        yield self._graph
        yield from self._graph.subgraphs()

    def _constants(self) -> Iterator[tuple[ir.Node, ir.Attr]]:
        for node in self._graph.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.TENSOR:
                    yield node, attribute


def _is_fixed_point(dtype: ir.DataType) -> bool:
    return dtype is ir.DataType.BOOL or dtype.is_integer()


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def _converted(
    tensor: ir.TensorProtocol | None, target: ir.DataType, clip: bool
) -> ir.TensorProtocol:
    """The numbers in another type, rounded to the nearest, ties to even."""
    assert tensor is not None
    array: np.ndarray[Any, Any] = tensor.numpy()
    if array.dtype == np.int64:
        if clip:
            array = array.clip(_INT32.min, _INT32.max)
        elif array.size and (array.min() < _INT32.min or array.max() > _INT32.max):
            raise popart_exception(
                "In convertINT64TensorToINT32, cannot cast int64 to int32: number is too large. If "
                "you are sure you want still want to convert your tensor data, you can set 'clip' "
                f"to 'true'. Tensor '{tensor.name}' holds {array.min()} to {array.max()}"
            )
    with np.errstate(over="ignore"):
        return ir.Tensor(array.astype(target.numpy()), dtype=target, name=tensor.name)

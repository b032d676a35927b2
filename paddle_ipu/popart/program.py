"""A session's program: how it is loaded, its tensors on the device, and what has a gradient."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.dataflow import InputShapeInfo
from paddle_ipu.popart.enums import ReplicatedStreamMode
from paddle_ipu.popart.external_data import Place, reference, rewrite
from paddle_ipu.popart.graph_types import read_model, type_graph
from paddle_ipu.popart.names import SCALED_STATE, reservedPrefixes
from paddle_ipu.popart.op_schema import NO_GRADIENT
from paddle_ipu.popart.options import LOSS_SCALE_COUNTER, LOSS_SCALE_UPDATE_FACTOR
from paddle_ipu.popart.schema import schema_of_node
from paddle_ipu.popart.tensorinfo import TensorInfo, info_of
from paddle_ipu.popart.variable_settings import VariableSettings, grouped_weights

_DEVICE_DTYPES = {"int64": "int32", "uint64": "uint32", "float64": "float32"}
_NOT_ON_DEVICES = (ir.DataType.STRING, ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)

FINAL_LOSS_SCALE = "finalLossScale"
"""The tensor that automatic loss scaling makes: the factor times the optimizer's loss scaling."""

_STATE_PREFIXES = ("Accl___", "Accl1___", "Accl2___", "Accl3___", "Step___")
# A BatchNormalization's gradient goes to its first three inputs, not to the running statistics.
_RUNNING_STATISTICS = (3, 4)
_WRITTEN_STATISTICS = (1, 2)


def load_model(model: Any, shapes: InputShapeInfo | None = None, replicas: int = 1) -> ir.Model:
    """The model behind bytes, a file name or a builder's model; every tensor is typed.

    A builder's model is taken as it is, by reference, or, where the types of tensors depend on how
    many replicas there are, as a copy that is typed as on a replica.

    Args:
        model: a serialised ModelProto, the name of an ONNX file, or ``builder.model``.
        shapes: types of the graph inputs whose shape the model leaves open.
        replicas: of the session.

    Raises:
        popart_exception: an input whose shape is not known, or an invalid model.
        popart_internal_exception: a weight's array has not one entry for each group of replicas.
        TypeError: something else than a model.
    """
    if isinstance(model, (bytes, str, Path)):
        loaded = read_model(model)
    elif isinstance(model, ir.Model):
        loaded = model
    else:
        raise TypeError(
            "expected a model as bytes, as a file name or as onnx_ir.Model, got "
            f"{type(model).__name__}"
        )
    grouped = grouped_weights(loaded)
    if loaded is model and (grouped or _has_open_types(model.graph)):
        loaded = model.clone()
    graph = loaded.graph
    for name, settings in grouped.items():
        _type_as_on_replica(graph.initializers[name], settings, replicas)
    _refuse_unimplemented(graph)
    _refuse_reserved_names(graph)
    _refuse_many_blocks(graph)
    for value in graph.inputs:
        name = str(value.name)
        if name in graph.initializers:
            continue
        info = info_of(value)
        if info is not None and min(info.dims, default=0) >= 0:
            if shapes is not None and shapes.has(name):
                _refuse_another_type(name, info, shapes.get(name))
            continue
        if shapes is None or not shapes.has(name):
            raise _unknown_shape(value)
        info = shapes.get(name)
        _refuse_negative_dimensions(name, info.dims)
        value.type, value.shape = ir.TensorType(info.dtype), ir.Shape(info.dims)
    if loaded is not model:
        type_graph(graph, grouped, replicas)
    _refuse_open_types(graph)
    _refuse_element_types(graph)
    _refuse_vast_tensors(graph)
    return loaded


def _has_open_types(graph: ir.Graph) -> bool:
    """Whether an operator that has a shape rule gives a tensor whose type is open."""
    return any(
        info_of(value) is None
        for node in ir.traversal.RecursiveGraphIterator(graph)
        if schema_of_node(node) is not None
        for value in node.outputs
    )


def _type_as_on_replica(weight: ir.Value, settings: VariableSettings, replicas: int) -> None:
    """Gives a weight the shape that it has on each of so many replicas."""
    array, name = weight.const_value, str(weight.name)
    assert array is not None
    weight.type = ir.TensorType(array.dtype)
    weight.shape = ir.Shape(settings.shapeOnReplica(array.shape.numpy(), replicas, name))


def _refuse_open_types(graph: ir.Graph) -> None:
    """popart_exception if the type of something that an operator reads is still not known."""
    for node in ir.traversal.RecursiveGraphIterator(graph):
        schema = schema_of_node(node)
        if schema is None:
            continue
        results = [
            value
            for attribute in node.attributes.values()
            if attribute.type == ir.AttributeType.GRAPH
            for value in attribute.as_graph().outputs
        ]
        for value in (*node.inputs, *results):
            if value is not None and info_of(value) is None:
                raise popart_exception(
                    f"{schema.identifier}: the shape of '{value.name}' is not known. It depends on "
                    "an operator without shape inference, or on an input of a subgraph that has "
                    "no type."
                )


_MOST_BLOCKS = 1024
"""Subgraphs of a model: XLA needs some 10 ms for each, and cannot be interrupted."""
_MOST_NESTED = 64
"""Subgraphs in subgraphs of a model: what compiles one goes down by recursion."""
_MOST_BYTES = 2**40
"""Of a tensor: no machine has a TiB for one."""


def _refuse_many_blocks(graph: ir.Graph) -> None:
    """popart_exception for more blocks of If, Loop, Scan and Call than compile in seconds."""
    blocks, deepest, waiting = 0, 0, [(graph, 0)]
    while waiting:
        around, depth = waiting.pop()
        inner = [
            attribute.as_graph()
            for node in around
            for attribute in node.attributes.values()
            if attribute.type == ir.AttributeType.GRAPH
        ]
        blocks, deepest = blocks + len(inner), max(deepest, depth)
        waiting.extend((each, depth + 1) for each in inner)
    if deepest > _MOST_NESTED:
        raise popart_exception(
            f"The model has subgraphs (branches of If, bodies of Loop and the like) in subgraphs, "
            f"{deepest} deep, and at most {_MOST_NESTED} can be compiled. Nest fewer, or use Where "
            "in the place of If."
        )
    if blocks > _MOST_BLOCKS:
        raise popart_exception(
            f"The model has {blocks} subgraphs (branches of If, bodies of Loop and the like), and "
            f"at most {_MOST_BLOCKS} can be compiled. Use fewer, or Where in the place of If."
        )


def _refuse_vast_tensors(graph: ir.Graph) -> None:
    """popart_exception if a tensor is too large for any machine, before anything is allocated."""
    for value in _all_values(graph):
        info = info_of(value)
        if info is not None and math.prod(info.dims) * info.dtype.bitwidth > 8 * _MOST_BYTES:
            raise popart_exception(
                f"Tensor '{value.name}' is {info.data_type()} {info.shape()}, which has "
                f"{math.prod(info.dims)} elements; a tensor has at most 2^40 bytes. Make it "
                "smaller; if the model comes from a file, that may be damaged."
            )


def _all_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """The tensors of a graph, and of its subgraphs."""
    for each in (graph, *graph.subgraphs()):
        yield from each.inputs
        yield from each.initializers.values()
        for node in each:
            yield from node.outputs


def _refuse_negative_dimensions(name: str, dims: Sequence[int]) -> None:
    if any(dim < 0 for dim in dims):
        raise popart_exception(
            f"Input tensor '{name}' has shape [{' '.join(map(str, dims))}]. Values must be "
            "non-negative in each shape dimension."
        )


def _refuse_another_type(name: str, own: TensorInfo, given: TensorInfo) -> None:
    if own != given:
        raise popart_exception(
            f"Input tensor '{name}' is {own!r} in the model and {given!r} in InputShapeInfo, which "
            "is for inputs whose shape the model leaves open: leave this one out of it."
        )


def _refuse_unimplemented(graph: ir.Graph) -> None:
    """popart_exception for the operators of which PopART only has a builder method."""
    schemas = map(schema_of_node, ir.traversal.RecursiveGraphIterator(graph))
    missing = {s.identifier: None for s in schemas if s is not None and not s.implemented}
    if missing:
        raise popart_exception(f"No class for {', '.join(missing)}")


def _refuse_element_types(graph: ir.Graph) -> None:
    """popart_exception if a tensor is of a type that there is not on any device."""
    for value in _all_values(graph):
        dtype = value.dtype
        if dtype is not None and dtype in _NOT_ON_DEVICES:
            raise popart_exception(f"The data type {dtype.name} is not supported in Poplar")


def _refuse_reserved_names(graph: ir.Graph) -> None:
    """popart_exception if a tensor has a name that PopART keeps for its own, as for gradients.

    Optimizer state that ``modelToHost`` wrote has them rightly.
    """
    state = saved_state(graph)
    for name in tensors_of(graph):
        clashes = [prefix for prefix in reservedPrefixes() if prefix in name]
        if clashes and name not in state:
            raise popart_exception(
                f"Provided tensor {name} has an invalid name: clash with reserved prefix "
                f"{clashes[0]}"
            )


def _unknown_shape(value: ir.Value) -> popart_exception:
    dims = [] if value.shape is None else list(value.shape)
    unknown = next((dim for dim in dims if not isinstance(dim, int) or dim < 0), "")
    name = getattr(unknown, "value", unknown)
    return popart_exception(
        f"Input tensor '{value.name}' must be specified in InputShapeInfo, as it has shape "
        f"[{', '.join(str(getattr(dim, 'value', dim)) for dim in dims)}], which uses an unknown "
        f"value '{name}'."
    )


def tensors_of(graph: ir.Graph) -> dict[str, ir.Value]:
    """Every tensor of a graph by its id."""
    tensors = {str(value.name): value for value in graph.inputs}
    tensors.update(graph.initializers)
    for node in graph:
        tensors.update((str(value.name), value) for value in node.outputs)
    return tensors


def broadcast_inputs(model: ir.Model) -> frozenset[str]:
    """Ids of the inputs of which all replicas take the same values, by ``InputSettings``."""
    key = "__replicated_stream_mode/"
    return frozenset(
        name.removeprefix(key)
        for name, mode in model.metadata_props.items()
        if name.startswith(key) and int(mode) == int(ReplicatedStreamMode.Broadcast)
    )


def dims_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape of a tensor.

    Raises:
        popart_exception: it is not known, as for the outputs of custom operators.
    """
    info = info_of(value)
    if info is None:
        raise popart_exception(
            f"the shape of tensor '{value.name}' is not known; it is an output of a custom "
            "operator without shape inference"
        )
    return info.dims


def size_of(value: ir.Value) -> int:
    """The number of elements of a tensor."""
    return math.prod(dims_of(value))


def device_dtype(value: ir.Value, in_64_bits: Collection[str] = ()) -> str:
    """NumPy's name of the element type a tensor has on the device, where 64 bits become 32.

    Args:
        in_64_bits: ids of integers that stay as they are.
    """
    dtype = value.dtype
    if dtype is None:
        raise popart_exception(f"the element type of tensor '{value.name}' is not known")
    return dtype.numpy().name if value.name in in_64_bits else narrowed_dtype(dtype)


def narrowed_dtype(dtype: ir.DataType) -> str:
    """NumPy's name of an element type on a device, which has none of 64 bits."""
    name = dtype.numpy().name
    return _DEVICE_DTYPES.get(name, name)


def saved_state(graph: ir.Graph) -> set[str]:
    """Initializers that are optimizer state under PopART's reserved names, not weights.

    ``modelToHost`` writes them; no node consumes them.
    """
    return {
        name
        for name, value in graph.initializers.items()
        if not value.uses()
        and (
            name in (SCALED_STATE, LOSS_SCALE_UPDATE_FACTOR, LOSS_SCALE_COUNTER)
            or any(
                name.startswith(prefix) and name.removeprefix(prefix) in graph.initializers
                for prefix in _STATE_PREFIXES
            )
        )
    }


def tensors_with_gradient(graph: ir.Graph, loss: str) -> set[str]:
    """Ids of the floating-point tensors that the loss is differentiated with respect to.

    The walk goes from the loss backwards and stops at operators without a gradient (Detach,
    comparisons, Shape, …), at integer and boolean tensors, and before the running statistics of a
    BatchNormalization. Operators that the table does not have are taken to be differentiable.
    """
    dependents = {loss} if is_float(tensors_of(graph)[loss]) else set()
    for node in reversed(graph):
        if dependents.isdisjoint(str(value.name) for value in node.outputs):
            continue
        schema = schema_of_node(node)
        if schema is not None and schema.gradient is NO_GRADIENT:
            continue
        skipped = _RUNNING_STATISTICS if node.op_type == "BatchNormalization" else ()
        dependents.update(
            str(value.name)
            for index, value in enumerate(node.inputs)
            if value is not None and index not in skipped and is_float(value)
        )
        dependents.update(str(value.name) for value in read_by_subgraphs(node) if is_float(value))
    return dependents


def dependents(graph: ir.Graph, names: Collection[str]) -> set[str]:
    """The tensors of a graph that depend on some of these, and these."""
    found = set(names)
    for node in graph:
        read = (*node.inputs, *read_by_subgraphs(node))
        if any(value is not None and value.name in found for value in read):
            found.update(str(value.name) for value in node.outputs)
    return found


def read_by_subgraphs(node: ir.Node) -> list[ir.Value]:
    """What the subgraphs of an operator read of the graphs around them."""
    values: dict[str, ir.Value] = {}
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            block = attribute.as_graph()
            made = tensors_of(block)
            for inner in block:
                for value in (*inner.inputs, *read_by_subgraphs(inner)):
                    if value is not None and value.name not in made:
                        values[str(value.name)] = value
    return list(values.values())


def needed_tensors(graph: ir.Graph, wanted: Collection[str]) -> set[str]:
    """The tensors of a graph that some of them depend on, and these."""
    needed = set(wanted)
    for node in reversed(graph):
        if not needed.isdisjoint(str(value.name) for value in node.outputs):
            read = (*node.inputs, *read_by_subgraphs(node))
            needed.update(str(value.name) for value in read if value is not None)
    return needed


def variable_writes(graph: ir.Graph, *, training: bool) -> dict[str, str]:
    """Variable -> the tensor that is its value after an execution of the graph.

    ``CopyVarUpdate`` writes its first input. A BatchNormalization in training form writes its
    running statistics in a training session, where they are variables.

    Raises:
        popart_exception: a ``CopyVarUpdate`` of a tensor that is no variable.
    """
    writes: dict[str, str] = {}
    for node in graph:
        if node.op_type == "CopyVarUpdate":
            variable, result = node.inputs[0], node.outputs[0]
            if variable is None or variable.name not in graph.initializers:
                raise popart_exception(
                    f"CopyVarUpdate ({node.name}) updates '{variable and variable.name}', which "
                    "is no variable; make it with addInitializedInputTensor"
                )
            writes[str(variable.name)] = str(result.name)
        elif training and node.op_type == "BatchNormalization" and len(node.outputs) > 1:
            for read, written in zip(_RUNNING_STATISTICS, _WRITTEN_STATISTICS, strict=True):
                value = node.inputs[read]
                producer = None if value is None else value.producer()
                if producer is not None and producer.op_type == "Detach":
                    value = producer.inputs[0]
                if value is not None and value.name in graph.initializers:
                    writes[str(value.name)] = str(node.outputs[written].name)
    return writes


def is_float(value: ir.Value) -> bool:
    """True for floating-point tensors and those whose type is not known."""
    return value.dtype is None or value.dtype.is_floating_point()


def states_beside(graph: ir.Graph, names: Collection[str]) -> dict[str, str]:
    """Optimizer state -> its weight, of the names that are such."""
    return {
        name: name.removeprefix(prefix)
        for name in names
        for prefix in _STATE_PREFIXES
        if name.startswith(prefix) and name.removeprefix(prefix) in graph.initializers
    }


def model_with(
    source: ir.Model, arrays: Mapping[str, Any], places: Mapping[str, Place] | None = None
) -> ir.Model:
    """A model with a copy of the graph, other values of weights, and optimizer state.

    Args:
        source: the program.
        arrays: values by name.
        places: where those are written that have a file of their own.
    """
    places = places or {}
    model = ir.Model(
        source.graph.clone(),
        ir_version=source.ir_version,
        producer_name=source.producer_name,
        producer_version=source.producer_version,
        domain=source.domain,
        model_version=source.model_version,
        doc_string=source.doc_string,
        metadata_props=dict(source.metadata_props),
    )
    grouped, initializers = grouped_weights(model), model.graph.initializers
    for name, given in arrays.items():
        array = np.asarray(given)
        value = initializers.get(name)
        if value is not None:
            assert value.dtype is not None
            array = array.astype(value.dtype.numpy(), copy=False)
        tensor: ir.TensorProtocol = ir.tensor(array, name=name)
        if name in places:
            rewrite(name, places[name], array)
            tensor = reference(name, tensor, places[name])
        if value is None:
            shape, kind = ir.Shape(array.shape), ir.TensorType(tensor.dtype)
            value = initializers[name] = ir.Value(name=name, shape=shape, type=kind)
        value.const_value = tensor
        if name in grouped:
            # As in the builder's model: what it has on a replica is not known there.
            value.shape = None
    return model

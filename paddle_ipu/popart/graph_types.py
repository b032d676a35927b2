"""Types of a graph's tensors: read from a model, or inferred node by node."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.external_data import load_external, remember_places
from paddle_ipu.popart.op_schema import ONNX
from paddle_ipu.popart.schema import OpSchema, schema_of_node
from paddle_ipu.popart.shape_inference.constants import constant_of
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.subgraphs import own_body, type_inputs
from paddle_ipu.popart.tensorinfo import TensorInfo, info_of, shape_string
from paddle_ipu.popart.whole_files import written_whole

INLINE_LIMIT = 2**31 - 2**27
"""Bytes of weights that one ONNX file can hold: protobuf's 2 GiB, less room for all else."""

_DATA_SUFFIXES = (".data", ".1.data")
_RESIZE_ATTRIBUTES = frozenset({"coordinate_transformation_mode", "nearest_mode"})
"""Of the file beside a model that has its weights; the second where the model that stands there has
the first. Two files cannot appear at one moment, so none that a model reads is written over."""

_FLOAT_DATA_TAG = bytes([4 << 3 | 2])
"""Field 4 of a TensorProto, float_data, which is packed."""
_INTEGER_FIELDS: dict[int, tuple[str, str]] = {
    onnx.TensorProto.FLOAT16: ("int32_data", "<i4"),
    onnx.TensorProto.INT32: ("int32_data", "<i4"),
    onnx.TensorProto.INT64: ("int64_data", "<i8"),
}
"""Where PopART has a tensor's bytes, and the integers that they are there: pairs of halves."""
_MOST_INTEGER_BYTES = 2**22
"""Of a tensor that is written number by number."""


def infer_outputs(
    schema: OpSchema,
    inputs: Sequence[ir.Value | None],
    attributes: Iterable[ir.Attr],
    output_ids: Sequence[str],
    replicas: int | None = None,
) -> Sequence[TensorInfo | None]:
    """The types of a node's outputs, None where they depend on types that are still open.

    The inputs of a subgraph may have no type until an operator runs it, and a weight that differs
    between groups of replicas has none until a session knows how many replicas there are.

    Args:
        schema: of the operator.
        inputs: of the node.
        attributes: of the node.
        output_ids: ids of its outputs.
        replicas: of the session, None while a graph is built.

    Raises:
        popart_exception: the inputs do not fit, or one comes of an operator without a schema.
    """
    attributes = list(attributes)
    infos = [None if value is None else info_of(value) for value in inputs]
    for value in inputs:
        if value is None or info_of(value) is not None:
            continue
        producer = value.producer()
        if producer is not None and schema_of_node(producer) is None:
            raise popart_exception(
                f"{schema.identifier}: the shape of its input '{value.name}' is not known"
            )
    if _is_open(schema, inputs, attributes, replicas):
        return [None] * len(output_ids)
    ids = ["" if value is None else str(value.name) for value in inputs]
    plain = {attribute.name: attribute.value for attribute in attributes}
    for name, attribute in schema.attributes.items():
        if name not in plain and attribute.default is not None:
            plain[name] = attribute.default
    context = InferenceContext(
        schema.identifier,
        infos,
        plain,
        len(output_ids),
        input_ids=ids,
        output_ids=output_ids,
        value_of=lambda index: None if (value := inputs[index]) is None else constant_of(value),
        replicas=replicas or 1,
    )
    schema.check_dtypes(context)
    try:
        found = schema.infer(context)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        shown = ", ".join("none" if info is None else repr(info) for info in infos)
        raise popart_exception(
            f"{schema.identifier}: its inputs ({shown}) and attributes contradict each other "
            f"({type(error).__name__}: {error}). If the model comes from a file, that may be "
            "damaged; if another runtime takes it, the fault is paddle_ipu's: report it."
        ) from error
    for name, info in zip(output_ids, found, strict=False):
        if info is not None and any(dim < 0 for dim in info.dims):
            raise popart_exception(
                f"Output '{name}' of node '{schema.identifier}' has invalid shape, "
                f"{shape_string(info.dims)}. Values must be non-negative in each shape dimension."
            )
    return found


def _is_open(
    schema: OpSchema,
    inputs: Sequence[ir.Value | None],
    attributes: Iterable[ir.Attr],
    replicas: int | None,
) -> bool:
    """Whether the type of something that an operator reads, or its subgraphs give, is open.

    It is for itself where it depends on how many replicas there are.
    """
    if schema.by_replicas and replicas is None:
        return True
    if any(value is not None and info_of(value) is None for value in inputs):
        return True
    return any(map(_gives_open_types, attributes))


def _gives_open_types(attribute: ir.Attr) -> bool:
    """Whether an attribute is a subgraph that gives tensors whose type is open."""
    if attribute.type != ir.AttributeType.GRAPH:
        return False
    return any(info_of(value) is None for value in attribute.as_graph().outputs)


def fill_types(node: ir.Node, schema: OpSchema, replicas: int | None) -> None:
    """Infers the outputs of a node that is already in a graph and writes their types."""
    names = [str(value.name) for value in node.outputs]
    schema.check_arity(len(node.inputs), len(names))
    attributes = node.attributes.values()
    infos = infer_outputs(schema, node.inputs, attributes, names, replicas)
    for value, info in zip(node.outputs, infos, strict=False):
        if info is not None:
            value.type, value.shape = ir.TensorType(info.dtype), ir.Shape(info.dims)
        elif _is_open(schema, node.inputs, attributes, replicas):
            value.shape = None


def type_graph(
    graph: ir.Graph, open_weights: Collection[str] = (), replicas: int | None = None
) -> None:
    """Infers the types of an imported graph's tensors, node by node, those of subgraphs first.

    Args:
        graph: it.
        open_weights: initializers whose shape is not that of their array, but what they have.
        replicas: of the session, None while a graph is built.
    """
    for value in (*graph.inputs, *graph.initializers.values()):
        if value.name in open_weights:
            continue
        if value.const_value is not None and value.shape is None:
            value.shape = ir.Shape(list(value.const_value.numpy().shape))
            value.type = ir.TensorType(value.const_value.dtype)
    for node in graph:
        schema = schema_of_node(node)
        if schema is None:
            continue
        if node.op_type == "Constant" and "value" in node.attributes:
            node.outputs[0].const_value = node.attributes["value"].as_tensor()
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                body = attribute.as_graph()
                type_inputs(node.op_type, node.inputs, node.attributes.values(), body)
                type_graph(body, replicas=replicas)
        fill_types(node, schema, replicas)


def with_own_bodies(
    op_type: str, inputs: Sequence[ir.Value | None], attributes: Sequence[ir.Attr]
) -> Sequence[ir.Attr]:
    """The attributes of an operator, its subgraphs being copies that are typed from its inputs."""
    own = []
    for attribute in attributes:
        if attribute.type == ir.AttributeType.GRAPH:
            body = own_body(op_type, inputs, attribute.as_graph())
            if type_inputs(op_type, inputs, attributes, body):
                type_graph(body)
            attribute = ir.AttrGraph(attribute.name, body)
        own.append(attribute)
    return own


def read_model(source: bytes | str | Path) -> ir.Model:
    """An ONNX model, serialised or by file name, checked, as onnx_ir's.

    Raises:
        popart_exception: an operator set that PopART does not read, no valid model, or no file.
        OSError: the file cannot be read.
    """
    try:
        if isinstance(source, bytes):
            proto, folder = onnx.load_model_from_string(source), None
        else:
            proto = onnx.load(source, load_external_data=False)
            folder = Path(source).absolute().parent
    except (DecodeError, FileNotFoundError) as error:
        raise _not_loaded(source, error) from error
    for tensor in _tensors(proto.graph):
        _read_pairs(tensor)
    try:
        # The checker takes 2 GiB, so it sees weights of other files without their numbers.
        with _emptied(proto.graph):
            _check(proto)
        places = load_external(_tensors(proto.graph), folder)
        for tensor in _tensors(proto.graph):
            _check_length(tensor)
    except (onnx.checker.ValidationError, ValueError) as error:
        where = "" if isinstance(source, bytes) else f"{source}: "
        raise popart_exception(f"Invalid ONNX Model : {where}{error}") from error
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx") and not 6 <= opset.version <= 11:
            raise popart_exception(
                f"Encountered ONNX opset version {opset.version}, Maximimum supported opset is 11, "
                "minimum 6 and default 10. onnx.version_converter.convert_version(model, 11) may "
                "give one that is."
            )
    try:
        model = ir.serde.deserialize_model(proto)
    except ir.serde.SerdeError as error:
        cause = error.__cause__ or error
        raise popart_exception(f"Invalid ONNX Model : {cause}") from error
    remember_places(model.graph, places)
    opsets = model.graph.opset_imports
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        node.version = opsets.get(node.domain, opsets.get("ai.onnx") if not node.domain else None)
        _add_defaults(node)
    return model


_SHOWN_BYTES = 100


def _not_loaded(source: bytes | str | Path, error: Exception) -> popart_exception:
    """PopART's error of what is neither a file nor a serialised model."""
    if isinstance(error, DecodeError) and not isinstance(source, bytes):
        raised = popart_exception(f"Failed to parse ModelProto from file {source}")
    else:
        text = source if isinstance(source, bytes) else str(source).encode()
        shown = repr(text[:_SHOWN_BYTES])[2:-1] + ("..." if len(text) > _SHOWN_BYTES else "")
        raised = popart_exception(
            f"Failed to load a ModelProto from the string '{shown}'.\nCheck that it is either a "
            "valid path to an existing onnx model file, or is a valid onnx ModelProto string."
        )
    raised.add_note(str(error))
    return raised


def _add_defaults(node: ir.Node) -> None:
    """Gives a node of ONNX's own the attributes that its file leaves out, as the standard has."""
    schema = schema_of_node(node)
    if schema is None or schema.domain != ONNX:
        return
    for name, attribute in _defaults(node.op_type, int(node.version or 0)).items():
        if name in schema.attributes and name not in node.attributes:
            node.attributes.add(attribute)


@cache
def _defaults(op_type: str, opset: int) -> Mapping[str, ir.Attr]:
    standard = onnx.defs.get_schema(op_type, max_inclusive_version=opset)
    return {
        name: ir.serde.deserialize_attribute(attribute.default_value)
        for name, attribute in standard.attributes.items()
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
        # Those of an RNN name two directions, of which it has one unless its file says so.
        and (op_type, name) != ("RNN", "activations")
    }


def write_model(model: ir.Model, path: str | os.PathLike[str]) -> None:
    """Writes a model as an ONNX file; nodes of one name are numbered, as ONNX asks for.

    Weights of more than `INLINE_LIMIT` bytes in all go to ``<path>.data``, or to
    ``<path>.1.data`` where the model before has those. The file appears whole: what was there
    before stays until then, and what killed writers left is removed.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        # A pipe or a device has nothing to lose.
        _write(model, target, target.name + _DATA_SUFFIXES[0])
        return
    with written_model(target) as (place, data):
        _write(model, place, data)


@contextmanager
def written_model(target: Path) -> Iterator[tuple[Path, str]]:
    """Where to write a model, and the name of the file for its weights beside it.

    Both appear at the end of the ``with`` block, by `written_whole`. Until the new model
    stands there, the one before has its weights; then they are removed.

    Args:
        target: the file of the model.

    Raises:
        OSError: the file cannot be written.
    """
    names = [target.name + suffix for suffix in _DATA_SUFFIXES]
    before = _data_files_of(target)
    with written_whole(target) as place:
        yield place, next((name for name in names if name not in before), names[0])
    if before.intersection(names):
        # A file of that name that no model there read may be anybody's.
        for name in set(names) - _data_files_of(target):
            (target.parent / name).unlink(missing_ok=True)


def _data_files_of(path: Path) -> set[str]:
    """The files that have weights of an ONNX model; none of what is no model, or not there."""
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, OSError):
        return set()
    return {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _write(model: ir.Model, target: Path, data: str) -> None:
    if weights_in(model) > INLINE_LIMIT:
        ir.save(model, target, external_data=data)
        complete_file(target)
        return
    target.write_bytes(model_bytes(model))


def weights_in(model: ir.Model) -> int:
    """Bytes of a model's weights that no file has yet."""
    held = [value.const_value for value in model.graph.initializers.values()]
    return sum(
        tensor.nbytes
        for tensor in held
        if tensor is not None and not isinstance(tensor, ir.ExternalTensor)
    )


def complete_file(path: Path) -> None:
    """Completes a model in a file, whose weights may be in another, as `model_bytes` does."""
    proto = onnx.load(str(path), load_external_data=False)
    _complete(proto.graph)
    path.write_bytes(proto.SerializeToString())


def _complete(graph: onnx.GraphProto) -> None:
    """Gives a graph what ONNX asks for: nodes with names of their own, and weights with shapes.

    A weight without one, as it differs between groups of replicas, has that of its array, also
    where it is an output.
    """
    number_equal_names(graph)
    dims = {tensor.name: tensor.dims for tensor in graph.initializer}
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        if value.name in dims and not kind.HasField("shape"):
            kind.shape.SetInParent()
            for dim in dims[value.name]:
                kind.shape.dim.add().dim_value = dim


@contextmanager
def _emptied(graph: onnx.GraphProto) -> Iterator[None]:
    """Lets tensors whose data is in other files have no elements."""
    outside = [t for t in _tensors(graph) if t.data_location == onnx.TensorProto.EXTERNAL]
    kept = [list(tensor.dims) for tensor in outside]
    for tensor in outside:
        tensor.dims[:] = [0]
        tensor.data_location = onnx.TensorProto.DEFAULT
    try:
        yield
    finally:
        for tensor, dims in zip(outside, kept, strict=True):
            tensor.dims[:] = dims
            tensor.data_location = onnx.TensorProto.EXTERNAL


def _check_length(tensor: onnx.TensorProto) -> None:
    """A tensor has the elements of its shape; ONNX's checker counts those of some types only."""
    dtype = ir.DataType(tensor.data_type)
    if dtype == ir.DataType.STRING or not tensor.HasField("raw_data"):
        return
    expected = -(-math.prod(tensor.dims) * dtype.bitwidth // 8)
    if len(tensor.raw_data) != expected:
        raise ValueError(
            f"the data of tensor {tensor.name!r} has {len(tensor.raw_data)} bytes, expected "
            f"{expected} for {dtype.name}{list(tensor.dims)}"
        )


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)


def _check(proto: onnx.ModelProto) -> None:
    """Has ONNX check a model, but for three things that PopART has rightly.

    These are outputs of custom operators, which have no type, an Abort, which has neither inputs
    nor outputs, and a Resize as in versions of ONNX that are newer than its own.
    """
    untyped = [output for output in proto.graph.output if not output.HasField("type")]
    for output in untyped:
        output.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
        output.type.tensor_type.shape.SetInParent()
    checked = proto
    if any(_stands_alone(node) or _is_resize(node) for node in _nodes(proto.graph)):
        checked = onnx.ModelProto()
        checked.CopyFrom(proto)
        _without_lone_nodes(checked.graph)
        for node in filter(_is_resize, _nodes(checked.graph)):
            _make_standard(node)
    onnx.checker.check_model(checked)
    for output in untyped:
        output.ClearField("type")


def _stands_alone(node: onnx.NodeProto) -> bool:
    return bool(node.domain) and not node.input and not node.output


def _is_resize(node: onnx.NodeProto) -> bool:
    return node.op_type == "Resize" and not node.domain


def _make_standard(resize: onnx.NodeProto) -> None:
    """Names the region and the scales, and drops newer attributes from a Resize of opset 10."""
    for at in (1, 2):
        if len(resize.input) > 2 and not resize.input[at]:
            resize.input[at] = resize.input[0]
    if len(resize.input) == 2:
        for attribute in list(resize.attribute):
            if attribute.name in _RESIZE_ATTRIBUTES:
                resize.attribute.remove(attribute)


def _without_lone_nodes(graph: onnx.GraphProto) -> None:
    kept = [node for node in graph.node if not _stands_alone(node)]
    del graph.node[:]
    graph.node.extend(kept)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _without_lone_nodes(attribute.g)


def model_bytes(model: ir.Model, half_pairs: bool = True) -> bytes:
    """The serialised ONNX ModelProto; nodes of one name are numbered, as ONNX asks for.

    Args:
        model: the model.
        half_pairs: FLOAT16 is pairs of halves, as a builder and a session of PopART write them.
    """
    proto = ir.serde.serialize_model(model)
    _complete(proto.graph)
    for tensor in _tensors(proto.graph):
        if half_pairs or tensor.data_type != onnx.TensorProto.FLOAT16:
            _write_as_numbers(tensor)
    return bytes(proto.SerializeToString())


def _write_as_numbers(tensor: onnx.TensorProto) -> None:
    """Moves a tensor's bytes to the field of its type, where PopART's readers look."""
    raw = tensor.raw_data
    if not raw:
        return
    if tensor.data_type == onnx.TensorProto.FLOAT:
        tensor.ClearField("raw_data")
        # A packed field is a length and these bytes; to add them one by one takes seconds a GB.
        tensor.MergeFromString(_FLOAT_DATA_TAG + _varint(len(raw)) + raw)
    elif tensor.data_type in _INTEGER_FIELDS and len(raw) <= _MOST_INTEGER_BYTES:
        field, dtype = _INTEGER_FIELDS[tensor.data_type]
        raw += bytes(-len(raw) % np.dtype(dtype).itemsize)
        getattr(tensor, field).extend(np.frombuffer(raw, dtype).tolist())
        tensor.ClearField("raw_data")


def _read_pairs(tensor: onnx.TensorProto) -> None:
    """Moves pairs of halves, as PopART writes them, to where ONNX has a tensor's bytes.

    In ONNX's own form there is one half in each number.
    """
    size = math.prod(tensor.dims)
    pairs = len(tensor.int32_data)
    if tensor.data_type == onnx.TensorProto.FLOAT16 and pairs and pairs == -(-size // 2):
        raw = np.asarray(tensor.int32_data, "<i4").tobytes()[: 2 * size]
        tensor.ClearField("int32_data")
        tensor.raw_data = raw


def _varint(number: int) -> bytes:
    """A number as protobuf writes it: 7 bits a byte, the low ones first."""
    digits = []
    while number >= 128:
        digits.append(number % 128 + 128)
        number //= 128
    return bytes([*digits, number])


def number_equal_names(graph: onnx.GraphProto) -> None:
    """Numbers the nodes that share a name, those of subgraphs too: ``layer``, ``layer/1``."""
    taken = {node.name for node in _nodes(graph)}
    seen: set[str] = {""}
    for node in _nodes(graph):
        if node.name in seen and node.name:
            numbered = (f"{node.name}/{number}" for number in itertools.count(1))
            node.name = next(name for name in numbered if name not in taken)
            taken.add(node.name)
        seen.add(node.name)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)

"""The paddle dialect: how a Paddle program looks as an onnx-ir graph, and how to read it.

A dialect graph holds nodes of domain ``paddle`` only. A node's type is the phi operator's name
(``matmul``, ``layer_norm``), its inputs stand in PIR's order with ``None`` for an omitted one, and
its attributes carry PIR's names. An operand or result that is a list in PIR is laid out flat; the
attributes ``input_segments`` and ``output_segments`` then give the length of each operand's part.
``ipu_index`` and ``ipu_stage`` are ordinary integer attributes.

What does not fit ONNX is kept beside it: a value's role in ``value.meta[ROLE]``, a node's operand
names in ``node.meta[INPUT_NAMES]``, the user's Python stack in ``node.meta[CALLSTACK]``, the path
of the layer that it is in, "" for none, in ``node.meta[LAYER]``. Where a program writes variables
again, ``value.meta[VARIABLE]`` is the one that a value is a version of;
``value.meta[WRITTEN_AGAIN]`` marks a feed whose variable the program writes: the name of its next
version, True where that cannot be fetched.
``value.meta[STOPPED]`` is the value's ``stop_gradient``. ``node.meta[MADE_FROM]`` is what a node
was read from; for an operator of a ProgramDesc, ``node.meta[OPERAND_VARIABLES]`` and
``node.meta[RESULT_VARIABLES]`` then name the variable of each input and output. A pass sets
``node.meta[DIFFERENTIATED]`` on nodes that the gradient of the loss goes through, and
``node.meta[OVERWRITES]`` where blocks write over operands: number of an operand -> of the result.

Control flow is a node with blocks, which are graphs in its attributes:

    if(cond, captured...)  {then_branch, else_branch}  -> results...
    while(cond, carried..., captured...)  {body}       -> carried...

A block is closed: its inputs are what the node hands in, carried values first, then the values of
the graph around it that it reads, in the order of the node's operands. Its outputs are what it
yields; those of a ``body`` are the next condition and the next carried values.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import InvalidProgramError

DOMAIN = "paddle"

ROLE = "role"
FEED, PARAMETER, STATE, LEARNING_RATE = "feed", "parameter", "state", "learning_rate"
TRAINABLE = "trainable"
VARIABLE = "variable"
WRITTEN_AGAIN = "written_again"
STOPPED = "stopped"
DIFFERENTIATED = "differentiated"
OVERWRITES = "overwrites"
INPUT_NAMES = "input_names"
CALLSTACK = "callstack"
LAYER = "layer"
MADE_FROM = "made_from"
OPERAND_VARIABLES, RESULT_VARIABLES = "operand_variables", "result_variables"

DTYPES: Mapping[str, ir.DataType] = {
    "bool": ir.DataType.BOOL,
    "uint8": ir.DataType.UINT8,
    "int8": ir.DataType.INT8,
    "int16": ir.DataType.INT16,
    "int32": ir.DataType.INT32,
    "int64": ir.DataType.INT64,
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "float32": ir.DataType.FLOAT,
    "float64": ir.DataType.DOUBLE,
    "complex64": ir.DataType.COMPLEX64,
    "complex128": ir.DataType.COMPLEX128,
}
"""Paddle's dtype names and the ONNX types they are."""

POPART_DTYPES: Mapping[str, str] = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT",
    "float64": "DOUBLE",
}
"""Paddle's dtype names and PopART's."""

_NAMES = {onnx: paddle for paddle, onnx in DTYPES.items()}
_LIBRARY = re.compile(
    r"[/\\](site|dist)-packages[/\\](paddle|decorator)[/\\]|[/\\]decorator\.py$|^<decorator-gen"
    # What starts a program: python -m.
    r"|^<frozen "
    # What cpp_extension.load writes for custom operators: folder/name/name_<thread>.py.
    r"|[/\\](?P<extension>\w+)[/\\](?P=extension)_\d+\.py$"
)
_OWN = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"
_NETWORKS = re.compile(rf"{re.escape(_OWN)}zoo[/\\](?!layer_builder\.py$)")
"""Files of this package that a user could have written."""
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in ')


def dtype_name(value: ir.Value) -> str:
    """Paddle's name of a value's dtype, for instance ``float32``."""
    return "undefined" if value.dtype is None else _NAMES.get(value.dtype, value.dtype.name)


def dims_of(value: ir.Value) -> list[int]:
    """A value's dimensions, -1 for one known only at run time."""
    if value.shape is None:
        return []
    return [dim if isinstance(dim, int) else -1 for dim in value.shape]


def make_value(name: str, dims: Sequence[int], dtype: str) -> ir.Value:
    """A value with Paddle's `dims` (-1 for unknown) and `dtype`."""
    shape = ir.Shape([dim if dim >= 0 else None for dim in dims])
    return ir.Value(name=name, shape=shape, type=ir.TensorType(DTYPES[dtype]))


def make_array(name: str, dtype: str) -> ir.Value:
    """An array of tensors of `dtype`; it has no shape."""
    return ir.Value(name=name, type=ir.SequenceType(ir.TensorType(DTYPES[dtype])))


def is_array(value: ir.Value) -> bool:
    """True for an array of tensors."""
    return isinstance(value.type, ir.SequenceType)


def make_attribute(name: str, value: Any) -> ir.Attr:
    """An attribute of the ONNX kind that fits a Python value; booleans become 0 and 1."""
    if isinstance(value, (bool, int, np.integer)):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, (float, np.floating)):
        return ir.AttrFloat32(name, float(value))
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    items = list(value)
    if all(isinstance(item, (bool, int, np.integer)) for item in items):
        return ir.AttrInt64s(name, [int(item) for item in items])
    if all(isinstance(item, (int, float, np.number)) for item in items):
        return ir.AttrFloat32s(name, [float(item) for item in items])
    if all(isinstance(item, str) for item in items):
        return ir.AttrStrings(name, items)
    raise TypeError(f"attribute {name!r} holds {value!r}, which no ONNX attribute can")


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """The Python value of attribute `name`, or `default` where the node has none."""
    found = node.attributes.data.get(name)
    return default if found is None else found.value


def blocks(node: ir.Node) -> list[ir.Graph]:
    """The blocks of a control-flow node; none of any other."""
    return [found.value for found in node.attributes.data.values() if _is_block(found)]


def _is_block(found: ir.Attr) -> bool:
    return found.type == ir.AttributeType.GRAPH


def walk(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Every node, each before those of its blocks."""
    for node in nodes:
        yield node
        for block in blocks(node):
            yield from walk(block)


def graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """A graph, then the blocks in it."""
    yield graph
    for node in graph:
        for block in blocks(node):
            yield from graphs(block)


def source_of(node: ir.Node) -> str:
    """``file:line`` of the user's call that made the node, "" where Paddle recorded none."""
    return source_line(node.meta.get(CALLSTACK, ()))


def layer_of(node: ir.Node) -> str:
    """The path of the layer that made the node, as ``named_sublayers`` has it; "" for none."""
    layer: str = node.meta.get(LAYER, "")
    return layer


def source_line(callstack: Sequence[str]) -> str:
    """``file:line`` of the user's call in a stack that Paddle recorded, "" where there is none.

    The user's call is the innermost frame outside Paddle's own package, ``decorator``, which
    Paddle wraps its functions with, what it writes to call custom operators, and this package,
    which wraps functions too; the networks of its zoo stand for a user's.
    """
    frame = ""
    for line in callstack:
        match = _FRAME.match(line)
        if match and not _is_library(match["file"]):
            frame = f"{match['file']}:{match['line']}"
    return frame


def _is_library(file: str) -> bool:
    if file.startswith(_OWN):
        return _NETWORKS.match(file) is None
    if _LIBRARY.search(file) is not None:
        return True
    # Paddle may lie elsewhere: in a source tree, or in a folder of PYTHONPATH.
    paddle = getattr(sys.modules.get("paddle"), "__file__", None)
    return paddle is not None and file.startswith(f"{os.path.dirname(paddle)}{os.sep}")


def describe(node: ir.Node) -> str:
    """How a message names a node: its operator, the line that made it and the layer it is in."""
    return described(str(node.op_type), source_of(node), layer_of(node))


def described(what: str, source: str, layer: str) -> str:
    """How a message names something by where it comes from.

    Args:
        what: for instance an operator.
        source: ``file:line``, "" where it is not known.
        layer: the layer's path, "" for none.
    """
    at = f"{what} at {source}" if source else what
    return f"{at} ({layer})" if layer else at


def operands(node: ir.Node) -> Iterator[tuple[str, ir.Value | None]]:
    """(operand name, value) for each input; a list operand repeats its name."""
    names: Sequence[str] = node.meta.get(INPUT_NAMES, ())
    segments = attribute(node, "input_segments")
    if segments is not None:
        names = [name for name, size in zip(names, segments, strict=True) for _ in range(size)]
    for index, value in enumerate(node.inputs):
        yield (names[index] if index < len(names) else ""), value


def operand(node: ir.Node, name: str) -> ir.Value | None:
    """The input called `name` in PIR, None where it is omitted or there is none."""
    return next((value for found, value in operands(node) if found == name), None)


def constant(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The value of a constant operand (``full``, ``full_int_array``, ``assign_value``), or None."""
    node = None if value is None else value.producer()
    if node is None or node.op_type not in CONSTANT_OPS:
        return None
    dtype = str(attribute(node, "dtype"))
    if dtype == "bfloat16":
        dtype = "float32"
    if node.op_type == "full":
        check_constant(node, attribute(node, "shape"))
        return np.full(attribute(node, "shape"), attribute(node, "value"), dtype=dtype)
    if node.op_type == "full_int_array":
        return np.asarray(attribute(node, "value"), dtype=dtype)
    return np.asarray(attribute(node, "values"), dtype=dtype).reshape(attribute(node, "shape"))


_MOST_ELEMENTS = 2**29


def check_constant(node: ir.Node, shape: Sequence[int]) -> None:
    """Refuses a constant that no IPU has the memory for, before it is made.

    Raises:
        InvalidProgramError: it has more than 2**29 elements, which are 2 GiB of float32.
    """
    if math.prod(shape) > _MOST_ELEMENTS:
        raise InvalidProgramError(
            f"operator {describe(node)} makes a constant of the shape {list(shape)}, which has "
            f"more than {_MOST_ELEMENTS} elements. Feed the tensor, or make it smaller; if the "
            "program comes from a file, that may be damaged."
        )


CONSTANT_OPS = frozenset({"full", "full_int_array", "assign_value"})
"""Operators without inputs whose result is written in their attributes."""

THEN, ELSE, BODY = "then_branch", "else_branch", "body"
COND, CARRIED, CAPTURED = "cond", "carried", "captured"


def scalar_constant(value: ir.Value | None) -> float | None:
    """The one element of a constant operand as a float, or None."""
    array = constant(value)
    return None if array is None or array.size != 1 else float(array.reshape(()))

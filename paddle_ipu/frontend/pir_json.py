"""Reads saved PIR programs (Paddle 3.x's ``.json``) without Paddle and without running anything.

What is read answers to the few questions that ``frontend/pir.py`` asks of a live program, so one
walk gives the same dialect graph for both. The file's keys:

    base_code                magic "pir", version: 1 is Paddle 3.0, 2 is 3.1, 3 is 3.2, 4 is 3.3
    program.regions[0].blocks[0]: args, kwargs, ops
    operator                 # name, I operands, O results, A attributes, OA of results, regions
    value                    % number (0: none), TT type
    attribute                N name, AT {# kind, D data or VD "NAN", "INF", "-INF"}
    "p"                      builtin.parameter: A [is_distributed, is_parameter, need_clip, name]
                             and OA [persistable, stop_gradient, trainable] by position

Dialects are numbers: 0 builtin, 1 pd_op, 2 cf, 3 custom_op, 4 dist.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from paddle_ipu.errors import ModelFileError, NotSupported
from paddle_ipu.frontend.control_flow import MOST_NESTED
from paddle_ipu.frontend.operand_names import operand_names

VERSIONS = {"3.0": 1, "3.1": 2, "3.2": 3, "3.3": 4}
"""Paddle as major.minor -> the version of the format that it writes; it reads older ones too."""

NEWEST_VERSION = max(VERSIONS.values())
"""The newest version of the format that is known."""

_DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist"}

_DTYPES = {
    "t_bool": "bool",
    "t_ui8": "uint8",
    "t_i8": "int8",
    "t_i16": "int16",
    "t_i32": "int32",
    "t_i64": "int64",
    "t_f16": "float16",
    "t_bf16": "bfloat16",
    "t_f32": "float32",
    "t_f64": "float64",
    "t_c64": "complex64",
    "t_c128": "complex128",
    "t_f8e4m3fn": "float8_e4m3fn",
    "t_f8e5m2": "float8_e5m2",
    "t_index": "index",
}

_NOT_FINITE = {"NAN": math.nan, "INF": math.inf, "-INF": -math.inf}
_INTEGERS = frozenset({"a_i32", "a_i64", "a_index"})
_FLOATS = frozenset({"a_f32", "a_f64"})
_STRINGS = frozenset({"a_str", "a_tensorname"})
_KINDS_OF_PD_OP = frozenset({"a_dtype", "a_intarray", "a_place", "a_scalar"})
_KINDS = frozenset(
    {"a_array", "a_bool", "a_c64", "a_c128", "a_type", *_INTEGERS, *_FLOATS, *_STRINGS}
)  # fmt: skip
"""Kinds of attributes; those of dialect 1, pd_op, are in `_KINDS_OF_PD_OP`."""
_DTYPE_NAMES = frozenset(
    {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
     "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
     "pstring", "undefined", "all_dtype"}
)  # fmt: skip
_LAYOUTS = frozenset(
    {"NHWC", "NCHW", "NDHWC", "NCDHW", "ANYLAYOUT", "UNDEFINED", "UNDEFINED(ANYLAYOUT)",
     "MKLDNNLAYOUT", "ONEDNN", "SPARSE_COO", "SPARSE_CSR", "PSTRING_UNION", "STRIDED"}
)  # fmt: skip
_MOST_AXES = 9
"""Of a tensor. Paddle's reader throws for more, which inside a region ends the process."""
_OF_RESULTS = ("persistable", "stop_gradient", "trainable")
"""Attributes with a truth value for each result."""
_INT64 = range(-(1 << 63), 1 << 63)


class TensorType:
    """The type of a tensor, or of an array of tensors; the absence of one has no dtype."""

    def __init__(
        self, dtype: str = "", shape: Sequence[int] = (), *, is_array: bool = False
    ) -> None:
        self.dtype = dtype
        self.shape = list(shape)
        self.is_array = is_array

    def as_vec_type(self) -> None:
        """None: it is no list."""


class ListType:
    """The type of a list of tensors."""

    def __init__(self, members: Sequence[TensorType]) -> None:
        self._members = list(members)

    def as_vec_type(self) -> ListType:
        """Itself: it is a list."""
        return self

    def as_list(self) -> list[TensorType]:
        """The members' types."""
        return self._members


class Value:
    """A result, an operand, or the absence of one.

    Attributes:
        id: its number in the file.
        stop_gradient: whether no gradient passes it.
    """

    def __init__(self, number: int, type_: TensorType | ListType, present: bool) -> None:
        self.id = number
        # As in Paddle, what says nothing of it stops the gradient.
        self.stop_gradient = True
        self._type = type_
        self._present = present

    def initialized(self) -> bool:
        """Whether there is a value."""
        return self._present

    def type(self) -> TensorType | ListType:
        """Its type."""
        return self._type

    def is_dense_tensor_array_type(self) -> bool:
        """Whether it is an array of tensors."""
        return isinstance(self._type, TensorType) and self._type.is_array

    @property
    def dtype(self) -> str:
        """Paddle's name of its dtype, "" for a list."""
        return self._type.dtype if isinstance(self._type, TensorType) else ""

    @property
    def shape(self) -> list[int]:
        """Its dimensions, -1 for one known only at run time; a list has none."""
        return self._type.shape if isinstance(self._type, TensorType) else []


class Operation:
    """An operator with what ``frontend/pir.py`` asks of ``paddle.pir.Operation``."""

    def __init__(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Value],
        attributes: Mapping[str, object],
        blocks: Sequence[Block],
    ) -> None:
        self._name = name
        self._operands = list(operands)
        self._results = list(results)
        self._attributes = dict(attributes)
        self._blocks = list(blocks)

    def name(self) -> str:
        """The name with its dialect, for instance ``pd_op.matmul``."""
        return self._name

    def operands_source(self) -> list[Value]:
        """The operands."""
        return self._operands

    def operand_source(self, index: int) -> Value:
        """One operand."""
        return self._operands[index]

    def results(self) -> list[Value]:
        """The results."""
        return self._results

    def result(self, index: int) -> Value:
        """One result."""
        return self._results[index]

    def attrs(self) -> dict[str, Any]:
        """The attributes: numbers, strings and lists of them."""
        return self._attributes

    def blocks(self) -> list[Block]:
        """The blocks of control flow."""
        return self._blocks

    def get_input_names(self) -> tuple[str, ...]:
        """The operands' names, a number for one of an operator that is not known."""
        known = operand_names(self._name.partition(".")[2])
        if known is not None and len(known) == len(self._operands):
            return known
        return tuple(str(index) for index in range(len(self._operands)))


class Block:
    """A list of operators."""

    def __init__(self, ops: Sequence[Operation], arguments: Sequence[Value]) -> None:
        self.ops = list(ops)
        self.arguments = list(arguments)

    def args(self) -> list[Value]:
        """The values that come in from outside, in a loop's body for instance."""
        return self.arguments


class SavedPirProgram:
    """A PIR program as it was saved.

    Attributes:
        version: the format's version.
    """

    def __init__(self, block: Block, version: int) -> None:
        self.version = version
        self._block = block

    def global_block(self) -> Block:
        """The main block."""
        return self._block


def parse(content: bytes, where: str = "the model") -> SavedPirProgram:
    """The program that a ``.json`` file of Paddle 3.x holds.

    Args:
        content: the file's bytes.
        where: what messages call the file.

    Raises:
        ModelFileError: it is truncated, damaged, no PIR program, or newer than is known.
        NotSupported: it has types or attributes that the dialect cannot hold.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{where}: no valid JSON ({error}). The file is truncated or damaged, or is no program "
            "of Paddle 3.x; copy it anew or save the model again."
        ) from error
    try:
        return _Parser(where).document(document)
    except RecursionError as error:
        raise ModelFileError(
            f"{where}: nested deeper than any program. The file is damaged; save the model again."
        ) from error


class _Parser:
    """Turns JSON into a program; every part is checked before it is used.

    What only Paddle's own reader uses is checked, too: an error in a block ends its process.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._values: dict[int, Value] = {}
        self._names: set[str] = set()
        self._path: list[str] = []

    def document(self, document: object) -> SavedPirProgram:
        fields = self._object(document)
        base = fields.get("base_code")
        if not isinstance(base, dict) or base.get("magic") != "pir":
            raise ModelFileError(
                f"{self._where}: JSON, but no program of Paddle 3.x: base_code with the magic "
                "'pir' is missing. Give the file that paddle.static.save_inference_model or "
                "paddle.jit.save wrote."
            )
        version = self._integer(base.get("version"), "the version")
        if not 0 <= version <= NEWEST_VERSION:
            raise ModelFileError(
                f"{self._where}: version {version} of the PIR format; paddle_ipu knows versions "
                f"up to {NEWEST_VERSION} (Paddle 3.3). Save the model with Paddle 3.3 or older, or "
                "install a newer paddle_ipu."
            )
        regions = self._array(self._object(fields.get("program")).get("regions"), "regions")
        if len(regions) != 1:
            self._fail(f"has {len(regions)} main regions, expected 1")
        blocks = self._array(self._object(regions[0]).get("blocks"), "blocks")
        if len(blocks) != 1:
            self._fail(f"has {len(blocks)} main blocks, expected 1")
        return SavedPirProgram(self._block(blocks[0]), version)

    # -- program ---------------------------------------------------------------------------------

    def _block(self, block: object) -> Block:
        fields = self._object(block)
        self._string(fields.get("#"), "a block's name")
        arguments = [self._define(each, "#") for each in self._array(fields.get("args"), "args")]
        for each in self._array(fields.get("kwargs", []), "kwargs"):
            arguments.append(self._define(each, "#"))
        if len(self._path) > MOST_NESTED:
            self._fail(f"is nested in more than {MOST_NESTED} blocks")
        ops = []
        for number, op in enumerate(self._array(fields.get("ops"), "ops")):
            parts = self._object(op)
            self._path.append(f"operator {number} ({parts.get('#')})")
            ops.append(self._operation(parts))
            self._path.pop()
        return Block(ops, arguments)

    def _operation(self, op: Mapping[str, object]) -> Operation:
        written = self._string(op.get("#"), "the name")
        if written == "p":
            return self._parameter(op)
        name = self._decompress(written)
        operands = [self._use(each) for each in self._array(op.get("I"), "I")]
        attributes = dict(self._attributes(op.get("A")))
        attributes.update(self._attributes(op.get("OA", [])))
        regions = self._array(op.get("regions", []), "regions")
        for region in regions:
            self._string(self._object(region).get("#"), "a region's name")
        blocks = [
            self._block(block)
            for region in regions
            for block in self._array(self._object(region).get("blocks"), "blocks")
        ]
        results = [self._define(each, "%") for each in self._array(op.get("O"), "O")]
        of_results = {
            key: self._array(attributes.get(key, []), f"attribute {key!r}") for key in _OF_RESULTS
        }
        for result, stops in zip(results, of_results["stop_gradient"], strict=False):
            result.stop_gradient = bool(stops)
        if name == "pd_op.feed":
            name = "pd_op.data"
        if name == "pd_op.data":
            self._claim(attributes.get("name"), results)
        self._check_operands(name, operands, results, attributes)
        if name == "pd_op.repeat_interleave":
            # Versions 1 and 2 lack it; Paddle 3.3 reads -1 for it.
            attributes.setdefault("output_size", -1)
        return Operation(name, operands, results, attributes, blocks)

    def _parameter(self, op: Mapping[str, object]) -> Operation:
        flags = self._array(op.get("A"), "A")
        of_result = self._array(op.get("OA", [1, 0, 1]), "OA")
        if len(flags) != 4 or len(of_result) != 3:
            self._fail(f"has {len(flags)} and {len(of_result)} attributes, expected 4 and 3")
        result = self._define(op.get("O"), "%")
        name = self._claim(flags[3], [result])
        attributes: dict[str, Any] = {"parameter_name": name}
        keys = ("is_distributed", "is_parameter", "need_clip")
        numbers = [*flags[:3], *of_result]
        for key, value in zip((*keys, *_OF_RESULTS), numbers, strict=True):
            attributes[key] = [bool(self._integer(value, key))]
        result.stop_gradient = attributes["stop_gradient"][0]
        return Operation("builtin.parameter", [], [result], attributes, [])

    def _claim(self, name: object, results: Sequence[Value]) -> str:
        """The name of a parameter or feed, which only one may have."""
        claimed = self._string(name, "its name")
        if not claimed or claimed in self._names:
            self._fail(f"is named {claimed!r}, as another value is" if claimed else "has no name")
        if len(results) != 1 or not isinstance(results[0].type(), TensorType):
            self._fail(f"{claimed!r} must be one tensor")
        if not results[0].initialized():
            self._fail(f"{claimed!r} has no type")
        self._names.add(claimed)
        return claimed

    def _check_operands(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Value],
        attributes: Mapping[str, object],
    ) -> None:
        if name == "builtin.combine":
            members = self._members(results[0]) if len(results) == 1 else -1
            if members != len(operands) or any(self._members(each) >= 0 for each in operands):
                self._fail(f"makes a list of {members} from {len(operands)} operand(s)")
        elif name == "builtin.split":
            members = self._members(operands[0]) if len(operands) == 1 else -1
            if members != len(results) or any(self._members(each) >= 0 for each in results):
                self._fail(f"takes {len(results)} value(s) from a list of {members}")
        elif name == "builtin.slice":
            members = self._members(operands[0]) if len(operands) == 1 else -1
            index = attributes.get("index")
            one = len(results) == 1 and self._members(results[0]) < 0
            if not one or not isinstance(index, int) or index not in range(members):
                self._fail(f"takes member {index} of a list of {members}")
        dialect, _, short = name.partition(".")
        known = operand_names(short) if dialect == "pd_op" else None
        if known is not None and len(known) != len(operands):
            self._fail(
                f"has {len(operands)} operand(s), expected {len(known)}: "
                f"{', '.join(known) or 'none'}"
            )

    @staticmethod
    def _members(value: Value) -> int:
        found = value.type()
        return len(found.as_list()) if isinstance(found, ListType) else -1

    # -- values and types --------------------------------------------------------------------------

    def _define(self, value: object, key: str) -> Value:
        fields = self._object(value)
        number = self._integer(fields.get(key), "a value's number")
        if number == 0 or number in self._values:
            self._fail(f"defines value {number}, which is taken")
        found = self._type(fields.get("TT"))
        present = not isinstance(found, TensorType) or bool(found.dtype)
        self._values[number] = Value(number, found, present)
        return self._values[number]

    def _use(self, operand: object) -> Value:
        number = self._integer(self._object(operand).get("%"), "an operand's number")
        if number == 0:
            return Value(0, TensorType(), False)
        if number not in self._values:
            self._fail(f"reads value {number}, which no operator before it defines")
        return self._values[number]

    def _type(self, found: object) -> TensorType | ListType:
        fields = self._object(found)
        name = self._string(fields.get("#"), "a type's name")
        if name == "NULL":
            return TensorType()
        if name == "0.t_vec":
            members = [self._type(each) for each in self._array(fields.get("D"), "D")]
            tensors = [each for each in members if isinstance(each, TensorType) and each.dtype]
            if len(tensors) != len(members):
                self._fail("has a list of what are no tensors")
            return ListType(tensors)
        is_array = name == "1.t_dense_tensor_array"
        if name != "0.t_dtensor" and not is_array:
            raise NotSupported(
                f"{self._where}: {' > '.join(self._path)} has a value of type {name}; programs for "
                "the IPU hold dense tensors only. Rewrite the model without it."
            )
        data = self._array(fields.get("D"), "D")
        if len(data) < (3 if is_array else 5):
            self._fail("has a tensor without a shape, a layout or levels")
        kind = self._string(self._object(data[0]).get("#"), "a dtype's name")
        dialect, _, short = kind.partition(".")
        if dialect != "0" or short not in _DTYPES:
            self._fail(f"has the dtype {kind!r}, which no version of Paddle writes")
        shape = [self._integer(dim, "a dimension") for dim in self._array(data[1], "a shape")]
        if any(dim < -1 for dim in shape):
            self._fail(f"has the shape {shape}")
        if len(shape) > _MOST_AXES:
            self._fail(f"has a tensor of {len(shape)} axes; Paddle's have at most {_MOST_AXES}")
        if self._string(data[2], "a layout").upper() not in _LAYOUTS:
            self._fail(f"has the layout {data[2]!r}, which no version of Paddle writes")
        if not is_array:
            for level in self._array(data[3], "the levels"):
                for each in self._array(level, "a level"):
                    self._integer(each, "an offset")
            self._integer(data[4], "the offset")
        return TensorType(_DTYPES[short], shape, is_array=is_array)

    # -- attributes --------------------------------------------------------------------------------

    def _attributes(self, attributes: object) -> Iterator[tuple[str, object]]:
        for each in self._array(attributes, "attributes"):
            fields = self._object(each)
            name = self._string(fields.get("N"), "an attribute's name")
            value = self._attribute(name, fields.get("AT"))
            if value is not None:
                yield name, value

    def _attribute(self, name: str, attribute: object) -> object:
        fields = self._object(attribute)
        kind = self._string(fields.get("#"), f"the kind of attribute {name!r}")
        if kind == "NULL":
            return None
        data = fields.get("D")
        dialect, _, short = kind.partition(".")
        what = f"attribute {name!r}"
        known = {"0": _KINDS, "1": _KINDS_OF_PD_OP}.get(dialect, frozenset())
        if short not in known and dialect != "4":
            self._fail(f"{what} is of kind {kind!r}, which no version of Paddle writes")
        if short in _FLOATS:
            missing = _NOT_FINITE.get(str(fields.get("VD")))
            return self._float(data, what) if missing is None else missing
        if short in _INTEGERS:
            return self._integer(data, what)
        if short == "a_bool":
            if not isinstance(data, bool):
                self._fail(f"{what} is {_shown(data)}, expected true or false")
            return data
        if short == "a_dtype":
            # PIR calls the dtype that is left open by all that it may become.
            dtype = self._string(data, what).partition("(")[0].lower()
            if dtype not in _DTYPE_NAMES:
                self._fail(f"{what} is the dtype {data!r}, which no version of Paddle writes")
            return dtype
        if short in _STRINGS:
            return self._string(data, what)
        if short == "a_intarray":
            return [self._integer(each, what) for each in self._array(data, what)]
        if short == "a_array":
            return self._list(name, [self._attribute(name, e) for e in self._array(data, what)])
        if short == "a_scalar":
            parts = self._array(data, what)
            if not parts or parts[0] not in _DTYPE_NAMES:
                self._fail(f"{what} is the scalar {_shown(parts)}, expected a dtype and a number")
            if len(parts) != 2 or isinstance(parts[1], (dict, list, str)) or parts[1] is None:
                raise NotSupported(self._unheld(f"{what} is the scalar {_shown(parts)}"))
            return self._float(parts[1], what) if isinstance(parts[1], float) else parts[1]
        if short == "a_place":
            device, number, kind_of_device = [*self._array(data, what), None, None, None][:3]
            self._integer(device, what)
            self._integer(number, what)
            self._string(kind_of_device, what)
        if short in ("a_place", "a_type") or dialect == "4":
            # Where a kernel runs and how a tensor is distributed are no part of the dialect.
            return None
        raise NotSupported(self._unheld(f"{what} is of kind {kind}"))

    def _list(self, name: str, items: list[object]) -> list[object]:
        alike = (
            all(isinstance(item, (bool, int, float)) for item in items),
            all(isinstance(item, str) for item in items),
        )
        if not any(alike):
            raise NotSupported(self._unheld(f"attribute {name!r} is the list {_shown(items)}"))
        return items

    def _unheld(self, what: str) -> str:
        return (
            f"{self._where}: {' > '.join(self._path)}: {what}, which the IPU program cannot hold. "
            "Rewrite the model without it."
        )

    # -- JSON --------------------------------------------------------------------------------------

    def _decompress(self, written: str) -> str:
        dialect, dot, name = written.partition(".")
        if not dot or not name or dialect not in _DIALECTS:
            self._fail(f"is of dialect {dialect!r}, which no version of Paddle writes")
        return f"{_DIALECTS[dialect]}.{name}"

    def _object(self, found: object) -> Mapping[str, object]:
        if not isinstance(found, dict):
            self._fail(f"has {_shown(found)} where an object is expected")
        return found

    def _array(self, found: object, what: str) -> Sequence[object]:
        if not isinstance(found, list):
            self._fail(f"{what} is {_shown(found)}, expected a list")
        return found

    def _string(self, found: object, what: str) -> str:
        if not isinstance(found, str):
            self._fail(f"{what} is {_shown(found)}, expected a string")
        return found

    def _integer(self, found: object, what: str) -> int:
        if isinstance(found, bool) or not isinstance(found, int) or found not in _INT64:
            self._fail(f"{what} is {_shown(found)}, expected an integer")
        return found

    def _float(self, found: object, what: str) -> float:
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            self._fail(f"{what} is {_shown(found)}, expected a number")
        try:
            return float(found)
        except OverflowError:
            self._fail(f"{what} is {_shown(found)}, which is too large")

    def _fail(self, what: str) -> NoReturn:
        place = " > ".join(self._path) or "the program"
        raise ModelFileError(
            f"{self._where}: {place}: {what}. The file is damaged or was not written by Paddle; "
            "copy it anew or save the model again."
        )


def _shown(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."

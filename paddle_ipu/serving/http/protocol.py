"""Requests and answers of the Open Inference Protocol (KServe v2), as JSON and as binary.

In the binary form the body is a JSON header, as long as the HTTP header
``Inference-Header-Content-Length`` says, and behind it the tensors' bytes, little-endian, in the
order of the header.

JSON has no NaN and no infinity: neither requests nor answers hold them as numbers, nor numbers
beyond their datatype. Binary data holds every number.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from paddle_ipu.errors import FeedError, PaddleIpuError
from paddle_ipu.serving.model import Array, Model, TensorSpec

HEADER_LENGTH = "inference-header-content-length"

DATATYPES: Mapping[str, str] = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
}
"""The protocol's names of NumPy's dtypes."""

_DTYPES = {datatype: dtype for dtype, datatype in DATATYPES.items()}
_BITS = {"bfloat16": "uint16"}
"""How arrays hold a dtype that NumPy does not have."""

_LARGEST = 2**31 - 1
"""Bound of dimensions, lengths and times in a request; Python reads numbers of any size."""
_MOST_AXES = 32


class RequestError(Exception):
    """A body that is no valid request; the message says what was got and what is expected."""


@dataclass(slots=True)
class InferenceRequest:
    """A request.

    Attributes:
        feed: input name -> array.
        outputs: names of the outputs wanted, None for all.
        binary: the outputs wanted as bytes, None for all.
        id: returned with the answer.
        datatypes: of the inputs, by their names.
        timeout: seconds it may take, None for the server's own limit.
        ignored: fields that nothing here reads, as ``parameters.priority``.
    """

    feed: dict[str, Array]
    outputs: list[str] | None = None
    binary: set[str] | None = field(default_factory=set)
    id: str | None = None
    datatypes: dict[str, str] = field(default_factory=dict)
    timeout: float | None = None
    ignored: list[str] = field(default_factory=list)


def parse(body: bytes, header_length: str | None, model: Model) -> InferenceRequest:
    """Reads a request.

    Args:
        body: of the HTTP request.
        header_length: the HTTP header of that name, None without one.
        model: that is asked.

    Raises:
        RequestError: it is malformed, or does not fit the model.
    """
    text, raw = _divided(body, header_length)
    try:
        given = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeated_fields
        )
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    inputs = _member(given, "the body", "inputs", list)
    parameters = _member(given, "the body", "parameters", dict, {})
    feed: dict[str, Array] = {}
    datatypes: dict[str, str] = {}
    for item in inputs:
        name = _member(item, "an item of 'inputs'", "name", str)
        if name in feed:
            raise RequestError(f"input {name!r} is given twice.")
        feed[name], raw = _tensor(name, item, raw)
        datatypes[name] = item["datatype"]
    if raw:
        raise RequestError(
            f"{len(raw)} bytes are left behind the tensors: the binary_data_size of the inputs "
            "must add up to the length of the data."
        )
    request = InferenceRequest(feed, datatypes=datatypes)
    request.id = _member(given, "the body", "id", str, None)
    timeout = _member(parameters, "'parameters'", "timeout_ms", (int, float), None)
    if timeout is not None:
        if isinstance(timeout, bool) or not 0 < timeout < math.inf:
            raise RequestError(f"'timeout_ms' is {timeout!r}, expected milliseconds above 0.")
        request.timeout = min(timeout, _LARGEST) / 1000
    binary = _member(parameters, "'parameters'", "binary_data_output", bool, False)
    _take_outputs(request, given, binary, model)
    request.ignored = list(_ignored(given))
    return request


def _refuse_constant(text: str) -> NoReturn:
    raise RequestError(
        f"the body holds {text}, which JSON has no form for. Send the tensor as binary data."
    )


def _without_repeated_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which others may read the first of two fields and this the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (repeated, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise RequestError(f"the field {_listed([repeated])!r} stands twice in one object.")
    return found


_READ: Mapping[str, frozenset[str]] = {
    "": frozenset({"id", "inputs", "outputs", "parameters"}),
    "parameters.": frozenset({"timeout_ms", "binary_data_output"}),
    "inputs.": frozenset({"name", "shape", "datatype", "data", "parameters"}),
    "inputs.parameters.": frozenset({"binary_data_size"}),
    "outputs.": frozenset({"name", "parameters"}),
    "outputs.parameters.": frozenset({"binary_data"}),
}
"""Where a field stands -> the fields that are read there."""


def _ignored(given: object, where: str = "") -> Iterator[str]:
    """The fields of a request that nothing reads, each once."""
    if isinstance(given, list):
        yield from dict.fromkeys(name for item in given for name in _ignored(item, where))
    elif isinstance(given, dict):
        for name, value in given.items():
            if name not in _READ[where]:
                yield where + name
            elif (inner := f"{where}{name}.") in _READ:
                yield from _ignored(value, inner)


def answer(
    request: InferenceRequest, model_name: str, outputs: Mapping[str, Array], model: Model
) -> tuple[bytes, int | None]:
    """Writes an answer.

    Returns:
        The body, and the length of its JSON header where tensors stand behind it as bytes.

    Raises:
        RequestError: it cannot hold the numbers of an output.
    """
    dtypes = {spec.name: spec.dtype for spec in model.outputs or ()}
    items, raw = [], []
    for name, array in outputs.items():
        dtype = dtypes.get(name, array.dtype.name)
        if dtype not in DATATYPES:
            raise RequestError(f"output {name!r} is {dtype}, which the protocol has no form for.")
        item: dict[str, Any] = {
            "name": name,
            "shape": list(array.shape),
            "datatype": DATATYPES[dtype],
        }
        if request.binary is None or name in request.binary:
            data = np.ascontiguousarray(array).tobytes()
            item["parameters"] = {"binary_data_size": len(data)}
            raw.append(data)
        else:
            item["data"] = _numbers(name, dtype, array)
        items.append(item)
    given: dict[str, Any] = {"model_name": model_name, "outputs": items}
    if request.id is not None:
        given["id"] = request.id
    if request.ignored:
        given["parameters"] = {"ignored": _listed(request.ignored)}
    header = json.dumps(given, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([header, *raw]), len(header) if raw else None


def _listed(names: Sequence[str]) -> str:
    """Names as a text, which the protocol's parameters may be; few of them, and short ones."""
    shown = [name if len(name) <= 60 else f"{name[:57]}..." for name in names[:20]]
    return ", ".join([*shown, "..."] if len(names) > len(shown) else shown)


def describe(model_name: str, model: Model) -> dict[str, Any]:
    """The metadata of a model; -1 is the number of rows."""
    return {
        "name": model_name,
        "platform": "paddle_ipu",
        "inputs": [_shown(spec) for spec in model.inputs],
        "outputs": [_shown(spec) for spec in model.outputs or ()],
    }


def _shown(spec: TensorSpec) -> dict[str, Any]:
    shape = list(spec.shape) if spec.shared else [-1, *spec.shape]
    return {"name": spec.name, "datatype": DATATYPES.get(spec.dtype, spec.dtype), "shape": shape}


def _divided(body: bytes, header_length: str | None) -> tuple[bytes, memoryview]:
    """The JSON and the bytes behind it."""
    if header_length is None:
        return body, memoryview(b"")
    is_short = header_length.isdecimal() and len(header_length) <= len(str(_LARGEST))
    if not is_short or int(header_length) > len(body):
        raise RequestError(
            f"{HEADER_LENGTH} is {header_length[:99]!r}, expected the length of the JSON header, "
            f"at most the {len(body)} bytes of the body."
        )
    length = int(header_length)
    # A view: however many tensors share the bytes, they are copied once each.
    return body[:length], memoryview(body)[length:]


def _member(
    given: object, where: str, name: str, kind: type | tuple[type, ...], *default: object
) -> Any:
    if not isinstance(given, dict):
        raise RequestError(f"{where} is {_kind(given)}, expected an object.")
    if name not in given:
        if default:
            return default[0]
        raise RequestError(f"{where} has no {name!r}.")
    value = given[name]
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(dict.fromkeys(_JSON[k] for k in kinds))
        raise RequestError(f"{where}: {name!r} is {_kind(value)}, expected {expected}.")
    return value


_JSON = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _JSON[type(value)]


def _tensor(name: str, item: object, raw: memoryview) -> tuple[Array, memoryview]:
    """An input's array, and the bytes that are left."""
    where = f"input {name!r}"
    datatype = _member(item, where, "datatype", str)
    dtype = _DTYPES.get(datatype)
    if dtype is None:
        raise RequestError(
            f"{where}: the datatype {datatype!r} is unknown; there are {', '.join(_DTYPES)}."
        )
    shape = _member(item, where, "shape", list)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape):
        raise RequestError(f"{where}: the shape {shape} is no list of whole numbers from 0 on.")
    if len(shape) > _MOST_AXES or any(n > _LARGEST for n in shape):
        raise RequestError(
            f"{where}: the shape has {len(shape)} dimensions, expected at most {_MOST_AXES}, each "
            f"up to {_LARGEST}."
        )
    parameters = _member(item, where, "parameters", dict, {})
    size = _member(parameters, f"{where}: 'parameters'", "binary_data_size", int, None)
    if size is None:
        return _from_numbers(where, item, dtype, shape), raw
    held = np.dtype(_BITS.get(dtype, dtype)).newbyteorder("<")
    expected = math.prod(shape) * held.itemsize
    if size != expected or size > len(raw):
        raise RequestError(
            f"{where}: binary_data_size is {size}, and {len(raw)} bytes are there; {datatype} of "
            f"shape {shape} takes {expected}."
        )
    if isinstance(item, dict) and "data" in item:
        raise RequestError(f"{where} has both 'data' and a binary_data_size. Send one of them.")
    if dtype == "bool" and np.frombuffer(raw[:size], "u1").max(initial=0) > 1:
        raise RequestError(f"{where}: a BOOL is a byte of 0 or 1, got others.")
    return _shaped(where, np.frombuffer(raw[:size], held), shape), raw[size:]


def _types_in(data: list[Any]) -> set[type]:
    """The types of what nested lists hold.

    NumPy alone would make NaN of null, numbers of truth values among numbers, and every number as
    long as the longest string.
    """
    found: set[type] = set()
    lists = [data]
    while lists:
        kinds = set(map(type, last := lists.pop()))
        found |= kinds
        if list in kinds:
            lists += [item for item in last if isinstance(item, list)]
    return found - {list}


def _shaped(where: str, array: Array, shape: list[int]) -> Array:
    try:
        return array.reshape(shape)
    except ValueError as error:
        # An empty shape may have other dimensions that are too large for NumPy.
        raise RequestError(f"{where}: the shape {shape}: {error}.") from None


_OTHERS = {str: "strings", dict: "objects", bool: "truth values", type(None): "null"}
"""What JSON has beside numbers and lists."""


def _from_numbers(where: str, item: object, dtype: str, shape: list[int]) -> Array:
    data = _member(item, where, "data", list)
    if dtype in _BITS:
        raise RequestError(f"{where}: {DATATYPES[dtype]} is taken as binary data only.")
    taken = {int, float} if dtype != "bool" else {int, float, bool}
    if other := _types_in(data) - taken:
        held = " and ".join(sorted(_OTHERS[kind] for kind in other))
        raise RequestError(f"{where}: 'data' holds {held}, expected numbers of {DATATYPES[dtype]}.")
    try:
        found = np.asarray(data)
    except ValueError:
        raise RequestError(f"{where}: the lists of 'data' differ in length.") from None
    if found.dtype == object and np.dtype(dtype).kind == "f":
        # Whole numbers of more than 64 bits; those that no float holds are refused below.
        with suppress(OverflowError):
            found = found.astype(np.float64)
    if found.size != math.prod(shape):
        raise RequestError(
            f"{where}: 'data' holds {found.size} numbers, and the shape {shape} takes "
            f"{math.prod(shape)}."
        )
    if found.size and not _fits(found, dtype):
        raise RequestError(
            f"{where}: 'data' holds {_what(found)}, expected numbers of {DATATYPES[dtype]}."
        )
    with np.errstate(over="ignore"):
        array = found.astype(dtype)
    # A literal as 1e999 is infinite already.
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise RequestError(f"{where}: 'data' holds numbers beyond {DATATYPES[dtype]}.")
    return _shaped(where, array, shape)


def _fits(found: Array, dtype: str) -> bool:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return (
            found.dtype == np.bool_
            or found.dtype.kind == "i"
            and bool(np.isin(found, (0, 1)).all())
        )
    if kind == "f":
        return found.dtype.kind in "iuf"
    if found.dtype.kind not in "iu":
        return False
    limits = np.iinfo(dtype)
    return int(found.min()) >= limits.min and int(found.max()) <= limits.max


def _what(found: Array) -> str:
    if found.dtype.kind in "iu":
        return f"whole numbers from {found.min()} to {found.max()}"
    if found.dtype.kind == "f":
        return "numbers with a fraction"
    return "whole numbers of more than 64 bits"


def _take_outputs(
    request: InferenceRequest, given: dict[str, Any], binary: bool, model: Model
) -> None:
    """Which outputs are wanted, and how."""
    known = [spec.name for spec in model.outputs or ()]
    asked = _member(given, "the body", "outputs", list, None)
    if not asked:
        request.binary = None if binary else set()
        return
    request.outputs, request.binary = [], set()
    for item in asked:
        name = _member(item, "an item of 'outputs'", "name", str)
        if known and name not in known:
            raise RequestError(
                f"output {name!r} is unknown; the model has {', '.join(map(repr, known))}."
            )
        parameters = _member(item, f"output {name!r}", "parameters", dict, {})
        if _member(parameters, f"output {name!r}: 'parameters'", "binary_data", bool, binary):
            request.binary.add(name)
        if name not in request.outputs:
            request.outputs.append(name)


def _numbers(name: str, dtype: str, array: Array) -> list[Any]:
    if dtype in _BITS:
        raise RequestError(
            f"output {name!r} is {DATATYPES[dtype]}, which JSON has no form for. Ask for it as "
            "binary: 'parameters': {'binary_data_output': true}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise RequestError(
            f"output {name!r} holds NaN or infinity, which JSON has no form for. Ask for it as "
            "binary: 'parameters': {'binary_data_output': true}."
        )
    numbers: list[Any] = array.ravel().tolist()
    return numbers


def problem(error: Exception) -> str:
    """What a client is told of an error: its message; of errors that are not ours their type too.

    Those are a model's own, whose message may be a single word.
    """
    if isinstance(error, (RequestError, PaddleIpuError)):
        return str(error)
    return f"the model failed: {type(error).__name__}: {error}"


def feed_problem(error: FeedError, request: InferenceRequest, model: Model) -> str:
    """What a client is told of inputs that a model refused, in the protocol's words."""
    for spec in model.inputs:
        got, expected = request.datatypes.get(spec.name), DATATYPES.get(spec.dtype, spec.dtype)
        if got is None or got == expected:
            continue
        try:
            model.convert(spec, request.feed[spec.name])
        except FeedError:
            return f"input {spec.name!r}: the datatype is {got}, expected {expected}."
    return str(error)

"""Reading C++ text: arguments of a call, parameters of a function, types and defaults in Python."""

from __future__ import annotations

import re
from typing import NamedTuple

_OPEN, _CLOSE = "([{", ")]}"
_LITERAL = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Parameter(NamedTuple):
    """One argument of a bound function.

    Attributes:
        name: what Python calls it; empty where it is taken by position alone.
        kind: its type, in the words of the table.
        default: its default as Python text; None where it must be given.
    """

    name: str
    kind: str
    default: str | None

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}" if self.name else self.kind
        return text if self.default is None else f"{text} = {self.default}"


def without_comments(text: str) -> str:
    """The text without comments; what is between quotes stays."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if match[0][0] in "\"'" else " "

    return re.sub(f"{_LITERAL.pattern}|{_COMMENT.pattern}", kept, text, flags=re.DOTALL)


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed."""
    depth, at = 0, start
    while at < len(text):
        literal = _LITERAL.match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        if depth == 0:
            return at
        at += 1
    raise ValueError(f"no end of {text[start : start + 60]!r}")


def parts(text: str) -> list[str]:
    """What commas divide, on the outermost level."""
    found, angles, at, last = [], 0, 0, 0
    while at < len(text):
        literal = _LITERAL.match(text, at)
        if literal:
            at = literal.end()
        elif text[at] in _OPEN:
            at = closing(text, at) + 1
        elif text[at] == "<":
            angles, at = angles + 1, at + 1
        elif text[at] == ">":
            angles, at = angles - (text[at - 1] != "-"), at + 1
        elif text[at] == "," and angles == 0:
            found.append(text[last:at].strip())
            at = last = at + 1
        else:
            at += 1
    found.append(text[last:].strip())
    return [part for part in found if part]


_PLAIN = {
    "TensorId": "str", "OpType": "str", "OpName": "str", "std::string": "str", "string": "str",
    "char": "str", "Attributes::String": "str",
    "int": "int", "int64_t": "int", "Attributes::Int": "int", "long": "int", "OpVersion": "uint",
    "OpsetVersion": "int", "PingPongPhase": "int",
    "unsigned": "uint", "unsigned int": "uint", "uint64_t": "uint", "uint32_t": "uint",
    "size_t": "uint", "std::size_t": "uint", "unsigned char": "uint",
    "float": "float", "double": "float", "Attributes::Float": "float",
    "bool": "bool", "void": "None", "py::object": "object", "py::dict": "dict", "py::list": "list",
    "py::array": "array", "py::bytes": "bytes", "py::str": "str", "any": "object",
    "popart::any": "object", "Shape": "list[int]", "Attributes::Ints": "list[int]",
    "Attributes::Floats": "list[float]", "Attributes::Strings": "list[str]", "Rank": "int",
    "AnchorReturnTypeMap": "dict[str, AnchorReturnType]", "ReturnPeriod": "int",
    "DebugId": "uint", "OpDefinitions": "dict[OperatorIdentifier, OpDefinition]",
    "MultiConvInputs": "list[list[str]]", "MultiConvDilations": "list[list[int]]",
    "MultiConvPads": "list[list[int]]", "MultiConvStrides": "list[list[int]]",
    "ProfileValue::String": "str", "ProfileValue::Vector": "list[ProfileValue]", "OpDomain": "str",
    "StepIONS::PyArray": "array", "ConstVoidData": "array", "PatternNames": "list[str]",
}  # fmt: skip


_SCALARS = ("str", "int", "uint", "float", "bool")


def kind_of(text: str) -> str:
    """A C++ type in the words of the table: pointers may be None, references not."""
    text = re.sub(r"\bconst\b|&", " ", text)
    text = " ".join(text.split()).replace(" *", "*").removeprefix("popart::")
    text = re.sub(r"\b(std|nonstd|popart|poplar|popx)::(?!string\b|size_t\b)", "", text)
    if text.endswith("*"):
        return f"{kind_of(text[:-1])} | None"
    outer, _, inner = text.partition("<")
    if not inner:
        plain = _PLAIN.get(text, text)
        return plain.rpartition("::")[2]
    arguments = [kind_of(part) for part in parts(inner.rstrip()[:-1])]
    if outer in ("vector", "initializer_list", "array"):
        return f"list[{arguments[0]}]"
    if outer == "set":
        return f"set[{arguments[0]}]"
    if outer in ("map", "unordered_map"):
        return f"dict[{arguments[0]}, {arguments[1]}]"
    if outer == "pair":
        return f"tuple[{arguments[0]}, {arguments[1]}]"
    if outer == "tuple":
        return f"tuple[{', '.join(arguments)}]"
    if outer in ("optional", "shared_ptr", "unique_ptr"):
        return f"{arguments[0]} | None"
    if outer == "function":
        return "function"
    raise ValueError(f"no word for the type {text}")


def default_of(text: str, kind: str) -> str:
    """A C++ default in Python."""
    text = text.strip()
    empty = {"list": "[]", "set": "set()", "dict": "{}"}
    if text == "{}":
        return "None" if kind.endswith("None") else empty.get(kind.partition("[")[0], f"{kind}()")
    if text.startswith("{"):
        inside = [default_of(part, "") for part in parts(text[1:-1])]
        outer = kind.partition("[")[0]
        shown = {"list": "[{}]", "set": "{{{}}}"}.get(outer, f"{kind}({{}})")
        return inside[0] if kind in _SCALARS else shown.format(", ".join(inside))
    if text in ("py::none()", "pybind11::none()", "nullptr") or "optional<" in text:
        return "None"
    if text in ("std::string()", "std::string{}", ""):
        return "''"
    if re.fullmatch(r"std::vector<.*>(\(\)|\{\})|(py|pybind11)::list\(\)", text):
        return "[]"
    if text in ("true", "false"):
        return text.title()
    if match := re.fullmatch(r"(?:std::string\()?(\".*\")\)?", text):
        return repr(match[1][1:-1])
    if re.fullmatch(r"'.'", text):
        return text
    if match := re.fullmatch(r"(?:float\()?(-?[\d.]+(?:e[-+]?\d+)?)f?\)?", text):
        return repr(float(match[1])) if kind == "float" else str(int(float(match[1])))
    if match := re.fullmatch(r"static_cast<\w+>\((.*)\)", text, re.DOTALL):
        inner = default_of(match[1], "int")
        return inner if inner.isdecimal() else f"{inner}.value"
    if match := re.fullmatch(r"(?:\w+::)*?(\w+)::(\w+)", text):
        return f"{match[1]}.{match[2]}"
    if match := re.fullmatch(r"(\w+)[({](.*)[)}]", text, re.DOTALL):
        return f"{match[1]}({', '.join(default_of(part, '') for part in parts(match[2]))})"
    raise ValueError(f"no Python for the default {text}")

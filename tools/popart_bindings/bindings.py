"""What pybind11 binds: classes, methods with their overloads, fields, enumerations, functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.popart_bindings.cxx import (
    Parameter,
    closing,
    default_of,
    kind_of,
    parts,
    without_comments,
)
from tools.popart_bindings.headers import Headers, type_of


class Form(NamedTuple):
    """One overload.

    Attributes:
        parameters: its arguments, without the object itself.
        gives: the type of its result; empty where the sources of the binding do not tell.
    """

    parameters: tuple[Parameter, ...]
    gives: str = ""

    def __str__(self) -> str:
        gives = f" -> {self.gives}" if self.gives not in ("", "None") else ""
        return f"({', '.join(map(str, self.parameters))}){gives}"


@dataclass
class Class:
    """One bound class.

    Attributes:
        base: the class it comes from, where it comes from one.
        methods: overloads by method; ``__init__`` are the constructors.
        static: its methods that need no object.
        fields: types and defaults by field; one that can only be read has no default.
        read_only: the fields that cannot be set.
        wrapped: the dictionaries of which setting an item sets the field; of other containers a
            script gets a copy.
    """

    base: str = ""
    methods: dict[str, list[Form]] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    fields: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    read_only: set[str] = field(default_factory=set)
    wrapped: set[str] = field(default_factory=set)


@dataclass
class Module:
    """What a module binds.

    Attributes:
        classes: by name.
        functions: overloads by name.
        enumerations: the numbers of members by enumeration.
        exceptions: the exception that each comes from.
        constants: numbers, and the texts that functions without arguments give.
        spellings: what Python calls a member of a C++ enumeration.
    """

    classes: dict[str, Class] = field(default_factory=dict)
    functions: dict[str, list[Form]] = field(default_factory=dict)
    enumerations: dict[str, dict[str, int]] = field(default_factory=dict)
    exceptions: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)


_CLASS = re.compile(r"py::class_<")
_NAMED = re.compile(r"\s*(?:\w+)?\s*\(\s*m\s*,\s*\"([\w:]+)\"")
_STEP = re.compile(
    r"py::class_<|py::enum_<|(?:(?<=\W)(\w+)\s*)?\.(def\w*|value)\s*\(|"
    r"py::exception<[^>]*>\s*\w+\s*\(|recoverable_exception<[^>]*>\s*\w+\s*\("
)


def read_module(text: str, headers: Headers) -> Module:
    """Reads the bindings of one C++ source.

    Raises:
        ValueError: something that this does not understand; the message has the place.
    """
    text = without_comments(text)
    begin = text.find("PYBIND11_MODULE")
    text = text[begin:] if begin >= 0 else text
    module = Module()
    for name in re.findall(r"m\.attr\(\"(default\w+)\"\)", text):
        module.constants[name] = headers.constant(name) or ""
    variables: dict[str, tuple[str, str]] = {}
    exceptions: dict[str, str] = {}
    latest = ("", "")
    at = 0
    while match := _STEP.search(text, at):
        what = match[0]
        if what in ("py::class_<", "py::enum_<"):
            end = _closing_angle(text, match.end() - 1)
            template = parts(text[match.end() : end])
            head = re.match(r"\s*(\w*)\s*\(", text[end + 1 :])
            assert head is not None, text[end : end + 80]
            opening = end + head.end()
            inside = parts(text[opening + 1 : closing(text, opening)])
            at = opening + 1
            if inside[0] != "m":
                raise ValueError(f"what does this bind: {text[match.start() : opening + 60]}")
            latest = (inside[1].strip('"'), template[0].removeprefix("popart::"))
            if head[1]:
                variables[head[1]] = latest
            if what == "py::enum_<":
                module.enumerations[latest[0]] = {}
            else:
                bases = [variables[part][0] for part in inside[2:] if part in variables]
                module.classes[latest[0]] = Class(base="".join(bases[:1]))
            continue
        opening = match.end() - 1
        inside = [
            "".join(part.split()) if part.startswith("&") else part
            for part in parts(text[opening + 1 : closing(text, opening)])
        ]
        at = match.end()
        if "exception<" in what:
            base = exceptions.get(inside[2], "") if len(inside) > 2 else ""
            exceptions[re.split(r"\W+", what.rstrip("( "))[-1]] = inside[1].strip('"')
            module.exceptions[inside[1].strip('"')] = base or "Exception"
            continue
        receiver = match[1]
        owner = variables.get(receiver, latest)
        _bind(module, match[2], "m" if receiver == "m" else "", owner, inside, headers)
    return module


_EMPTY = {"list": "[]", "dict": "{}", "set": "set()", "str": "''"}
"""What C++ makes of a member without a default of its own."""


def _closing_angle(text: str, start: int) -> int:
    depth, at = 0, start
    while True:
        if text[at] in "([{":
            at = closing(text, at)
        depth += (text[at] == "<") - (text[at] == ">")
        if depth == 0:
            return at
        at += 1


def _bind(
    module: Module,
    how: str,
    receiver: str,
    owner: tuple[str, str],
    inside: list[str],
    headers: Headers,
) -> None:
    """Takes note of one ``def``, ``def_readwrite``, ``value`` and so on."""
    bound, native = owner
    if how == "value":
        numbers = headers.enumeration(native.rpartition("::")[2])
        name, member = inside[0].strip('"'), inside[1].rpartition("::")[2]
        members = module.enumerations[bound]
        members[name] = len(members) if numbers is None else numbers[member]
        module.spellings.setdefault(f"{bound}.{member}", f"{bound}.{name}")
        return
    if receiver == "m":
        name = inside[0].strip('"')
        if not name.startswith("_"):
            module.functions.setdefault(name, []).append(_form(inside[1:], "", "", headers))
            if value := headers.constant(name):
                module.constants[name] = value
        return
    made = module.classes.get(bound)
    if made is None or re.match(r"py::self\b", inside[0]):
        return  # comparisons, and what an enumeration prints
    if how in ("def_readwrite", "def_readonly"):
        name, _, member = inside[1].strip("& ").rpartition("::")
        kind, default = headers.members(native, member)
        text = None
        if how == "def_readwrite" and default is not None:
            text = default_of(default, kind_of(kind))
        elif how == "def_readwrite":
            word = kind_of(kind)
            text = "None" if word.endswith("None") else _EMPTY.get(word.partition("[")[0])
        made.fields[inside[0].strip('"')] = (kind_of(kind), text)
        if how == "def_readonly":
            made.read_only.add(inside[0].strip('"'))
    elif how in ("def_property", "def_property_readonly"):
        kind = _gives(inside[1], native, headers)
        made.fields[inside[0].strip('"')] = (kind, None)
        if how == "def_property_readonly":
            made.read_only.add(inside[0].strip('"'))
    elif inside[0].startswith("py::init"):
        made.methods.setdefault("__init__", []).append(_form(inside, native, bound, headers))
    else:
        name = inside[0].strip('"')
        form = _form(inside[1:], native, bound, headers, static=how == "def_static")
        made.methods.setdefault(name, []).append(form)
        if how == "def_static":
            made.static.add(name)


def _lambda(text: str) -> tuple[list[str], str]:
    """Types that a lambda takes, and gives where it says so."""
    start = text.index("(", closing(text, text.index("[")))
    end = closing(text, start)
    gives = re.match(r"\s*->\s*([^{]*)\{", text[end + 1 :])
    return [type_of(part) for part in parts(text[start + 1 : end])], gives[1] if gives else ""


def _gives(function: str, native: str, headers: Headers) -> str:
    if function.startswith("["):
        return kind_of(_lambda(function)[1])
    owner, _, name = function.strip("& ").rpartition("::")
    return headers.result(owner.removeprefix("popart::") or native, name) or "object"


def _types(function: str, native: str, bound: str, headers: Headers) -> tuple[list[str], str]:
    """The types that a bound function takes, without the object, and gives."""
    if function.startswith("py::init"):
        end = function.index("(")
        if function.startswith("py::init<"):
            return parts(function[len("py::init<") : function.rindex(">")]), ""
        function = function[end + 1 : -1].strip()
        if function.startswith("["):
            return _lambda(function)[0], ""
        bound = ""
    if function.startswith("["):
        taken, gives = _lambda(function)
        return taken[1:] if bound else taken, gives
    if function.startswith("static_cast<"):
        inner = function[len("static_cast<") : _closing_angle(function, len("static_cast"))]
        first = inner.index("(", inner.index("("))
        gives = inner[:first]
        pointer = closing(inner, first)
        start = inner.index("(", pointer)
        taken = parts(inner[start + 1 : closing(inner, start)])
        return [type_of(part) for part in taken], gives
    if function.startswith("py::overload_cast<"):
        end = _closing_angle(function, len("py::overload_cast"))
        return parts(function[len("py::overload_cast<") : end]), ""
    owner, _, name = function.strip("& ").rpartition("::")
    owner = owner.removeprefix("popart::").removeprefix("core")
    for place in dict.fromkeys((owner, native, "")):
        taken_types = headers.parameters(place.rpartition("::")[2] or place, name)
        if taken_types is not None:
            return taken_types, headers.result(place, name) or ""
    raise ValueError(f"no header declares {function}")


def _form(
    inside: list[str], native: str, bound: str, headers: Headers, static: bool = False
) -> Form:
    types, gives = _types(inside[0], native, "" if static else bound, headers)
    named = [part for part in inside[1:] if part.startswith(("py::arg(", "pybind11::arg("))]
    if named and len(named) != len(types):
        raise ValueError(f"{bound}: {inside[0]} takes {types}, and {len(named)} are named")
    parameters = []
    for at, kind_text in enumerate(types):
        kind = kind_of(kind_text)
        if not named:
            parameters.append(Parameter("", kind, None))
            continue
        start = named[at].index("(")
        end = closing(named[at], start)
        name = named[at][start + 1 : end].strip().strip('"')
        rest = named[at][end + 1 :].partition("=")[2].strip()
        default = default_of(rest, kind) if rest else None
        parameters.append(Parameter(name, kind, default))
    made = inside[0].startswith("py::init")
    return Form(tuple(parameters), "" if made or not gives.strip() else kind_of(gives))

"""Reads the tables in bindings/: what PopART's Python module takes.

A line is a function, ``name(argument: type = default) -> type``; an argument without a name is
taken by position alone, and a function may have several lines. ``enum``, ``exception`` and
``class`` begin what they say. Under a class, a line without a name is a constructor; ``fixed`` are
fields that cannot be set, ``wrapped`` those whose items can; of any other list or dictionary a
script gets a copy. A line of operators.txt begins with the domain and the operator sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.popart_bindings.cxx import closing, parts

_FOLDER = Path(__file__).parent / "bindings"


class Argument(NamedTuple):
    """One argument: its type and its default as the table has them."""

    name: str
    kind: str
    default: str | None


class Form(NamedTuple):
    """One overload."""

    arguments: tuple[Argument, ...]
    gives: str
    text: str


@dataclass
class Entry:
    """One class."""

    base: str = ""
    methods: dict[str, list[Form]] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    fields: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    wrapped: set[str] = field(default_factory=set)


@dataclass
class Table:
    """A file but that of the operators."""

    constants: dict[str, str] = field(default_factory=dict)
    functions: dict[str, list[Form]] = field(default_factory=dict)
    enumerations: dict[str, dict[str, int]] = field(default_factory=dict)
    exceptions: dict[str, str] = field(default_factory=dict)
    classes: dict[str, Entry] = field(default_factory=dict)


_DECLARED = re.compile(r"((?:fixed |wrapped )*)(\w+): (.*?)(?: = (.*))?$")


def _form(text: str) -> tuple[str, Form]:
    """The name before the bracket, and the overload."""
    start = text.index("(")
    end = closing(text, start)
    arguments = []
    for part in parts(text[start + 1 : end]):
        match = re.fullmatch(r"(?:(\*?\w+): )?(.*?)(?: = (.*))?", part)
        assert match is not None
        arguments.append(Argument(match[1] or "", match[2], match[3]))
    gives = text[end + 1 :].removeprefix(" -> ")
    return text[:start], Form(tuple(arguments), gives, text[start:])


def _lines(name: str) -> list[str]:
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _read(name: str) -> Table:
    table = Table()
    entry = Entry()
    for line in _lines(name):
        word, _, rest = line.partition(" ")
        if line.startswith("  "):
            _read_member(entry, line.strip())
        elif word == "class":
            made, _, base = rest.rstrip(")").partition("(")
            entry = table.classes[made] = Entry(base)
        elif word == "enum":
            made, _, members = rest.partition(": ")
            pairs = [member.split("=") for member in members.split()]
            table.enumerations[made] = {member: int(number) for member, number in pairs}
        elif word == "exception":
            made, _, base = rest.rstrip(")").partition("(")
            table.exceptions[made] = base
        elif rest.startswith("= "):
            table.constants[word] = rest.removeprefix("= ")
        else:
            made, form = _form(line)
            table.functions.setdefault(made, []).append(form)
    return table


def _read_member(entry: Entry, line: str) -> None:
    declared = _DECLARED.fullmatch(line)
    if declared and "(" not in line.partition(":")[0]:
        how, name, kind, default = declared.groups()
        entry.fields[name] = (kind, default)
        if "fixed" in how:
            entry.fixed.add(name)
        if "wrapped" in how:
            entry.wrapped.add(name)
        return
    static = line.startswith("static ")
    name, form = _form(line.removeprefix("static "))
    entry.methods.setdefault(name or "__init__", []).append(form)
    if static:
        entry.static.add(name)


@cache
def module_table() -> Table:
    """What pybind11 binds of ``popart``, but its operators."""
    return _read("module.txt")


@cache
def python_table() -> Table:
    """The classes of the package that are written in Python; their arguments have no types."""
    return _read("python.txt")


@cache
def operator_forms(domain: str, opset: int) -> dict[str, list[Form]]:
    """Overloads of the operator methods that a builder's operator set has, by method.

    A few methods are functions in Python that hand their arguments on, in order: these have the
    names and the defaults of the function and the types of what it calls.
    """
    found = dict(_bound_forms(domain, opset))
    layer = python_table().classes
    names = [f"AiOnnx{at}" for at in range(6, opset + 1)] if domain == "ai.onnx" else []
    functions: dict[str, list[Form]] = {}
    for name in ("AiOnnx", *names) if names else ("AiGraphcore",):
        functions |= layer[name].methods
    for method, (form,) in functions.items():
        if method not in found:
            continue
        (called,) = found[method]
        pairs = zip(form.arguments, called.arguments, strict=True)
        arguments = tuple(outer._replace(kind=inner.kind) for outer, inner in pairs)
        found[method] = [Form(arguments, called.gives, form.text)]
    return found


@cache
def _bound_forms(domain: str, opset: int) -> dict[str, list[Form]]:
    """What pybind11 binds of an operator set."""
    found: dict[str, list[Form]] = {}
    for line in _lines("operators.txt"):
        where, versions, rest = line.split(" ", 2)
        first, last = map(int, versions.split("-"))
        if where == domain and first <= opset <= last:
            name, form = _form(rest)
            found.setdefault(name, []).append(form)
    return found

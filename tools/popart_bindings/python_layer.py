"""The classes that PopART's package defines in Python, over those that pybind11 binds."""

from __future__ import annotations

import ast

from tools.popart_bindings.bindings import Class, Form
from tools.popart_bindings.cxx import Parameter

_INTERNAL = ("Opset", "AiOnnxMl")


def read_classes(text: str) -> dict[str, Class]:
    """Classes of a Python source and the arguments of their methods, without types."""
    found: dict[str, Class] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef) or node.name in _INTERNAL:
            continue
        base = node.bases[0] if node.bases else None
        made = found[node.name] = Class(base=ast.unparse(base).rpartition(".")[2] if base else "")
        for item in node.body:
            if not isinstance(item, ast.FunctionDef):
                continue
            hidden = item.name.startswith("_") and item.name != "__init__"
            if hidden:
                continue
            if any(ast.unparse(decorator) == "property" for decorator in item.decorator_list):
                made.fields[item.name] = ("object", None)
                made.read_only.add(item.name)
                continue
            if any(ast.unparse(d) == "classmethod" for d in item.decorator_list):
                made.static.add(item.name)
            made.methods[item.name] = [Form(_parameters(item.args))]
    return found


def _parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    taken = arguments.args[1:]
    defaults: list[str | None] = [None] * (len(taken) - len(arguments.defaults))
    defaults += [ast.unparse(value).replace("popart.", "") for value in arguments.defaults]
    made = [
        Parameter(argument.arg, "object", default)
        for argument, default in zip(taken, defaults, strict=True)
    ]
    if arguments.vararg is not None:
        made.append(Parameter(f"*{arguments.vararg.arg}", "object", None))
    return tuple(made)

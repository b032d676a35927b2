"""The table as text: one line for each name, overload, field and enumeration."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.popart_bindings.bindings import Class, Form, Module, read_module
from tools.popart_bindings.headers import Headers
from tools.popart_bindings.python_layer import read_classes

FILES = ("module.txt", "python.txt", "operators.txt")
_OPSETS = range(6, 12)
_HEAD = "# PopART 3.4. Made by tools.popart_bindings from its sources; how to read it: {}\n"


def tables(show: Callable[[str], str], names: Callable[[str], list[str]]) -> dict[str, str]:
    """The three files by name.

    Args:
        show: the text of a file of PopART's repository.
        names: the files of a folder there.
    """
    wanted = [
        name
        for name in names("willow/include/popart")
        if name.endswith((".hpp", ".hpp.in")) and "/docs/" not in name
    ]
    core = show("python/popart/popart_core/popart.cpp")
    # What it defines before it binds anything is read as a header is.
    own = [core.partition("PYBIND11_MODULE")[0], show("python/popart/shared_cpp/np_utils.hpp")]
    headers = Headers([*own, *(show(name) for name in wanted)])
    inner = "python/popart._internal.ir/bindings"
    module = read_module(core, headers)
    graphcore = module.classes.pop("AiGraphcoreOpset1")
    for name in ("debugcontext", "tensorinfo", "commgroup", "replicagrouping", "op/optimizervalue"):
        shared = read_module(show(f"{inner}/{name}.cpp"), headers)
        for made, entry in shared.classes.items():
            public = f'attr("{made}")' in core
            module.classes[made if public else f"ir::{made}"] = entry
        module.enumerations |= shared.enumerations
    _name_dictionaries(module, show("python/popart/__init__.py.in"))
    kinds = read_module(show(f"{inner}/op/enums.cpp"), headers).enumerations
    module.enumerations["CollectiveOperator"] = kinds["CollectiveOperator"]
    module.classes["_TensorInfoCore"] = module.classes.pop("TensorInfo")
    opsets = {}
    for number in _OPSETS:
        text = show(f"python/popart/popart_opset{number}/popart_opset{number}.gen.cpp")
        opsets[number] = read_module(text, headers).classes[f"AiOnnxOpset{number}"]
    layer: dict[str, Class] = {}
    for name in ("builder", "session", "tensorinfo"):
        layer |= read_classes(show(f"python/popart/python_files/{name}.py"))
    here = "tests/popart_stand_in/table.py"
    return {
        "module.txt": _HEAD.format(here) + _spelled(_module_text(module), module),
        "python.txt": _HEAD.format(here) + "".join(_class_text(n, c) for n, c in layer.items()),
        "operators.txt": _HEAD.format(here) + _spelled(_operators_text(opsets, graphcore), module),
    }


def _name_dictionaries(module: Module, text: str) -> None:
    """The fields that Python wraps, so that setting an item of one is setting the field."""
    wrapped = r"(\w+)\.(\w+) = property\(\s*_get_options_dict\('(\w+)'\)"
    for owner, name, field in re.findall(wrapped, text):
        fields = module.classes[owner].fields
        if field in fields:  # it wraps one that is not there
            fields[name] = fields.pop(field)
            module.classes[owner].wrapped.add(name)


def _module_text(module: Module) -> str:
    lines = [f"{name} = {value}\n" for name, value in sorted(module.constants.items())]
    for name, forms in sorted(module.functions.items()):
        lines += [f"{name}{form}\n" for form in forms]
    for name, members in sorted(module.enumerations.items()):
        told = " ".join(f"{member}={number}" for member, number in members.items())
        lines.append(f"enum {name}: {told}\n")
    for name, base in module.exceptions.items():
        lines.append(f"exception {name}({base})\n")
    lines += [_class_text(name, made) for name, made in sorted(module.classes.items())]
    return "".join(lines)


def _spelled(text: str, module: Module) -> str:
    """The text with members of enumerations as Python calls them."""
    return re.sub(r"\b\w+\.\w+\b", lambda m: module.spellings.get(m[0], m[0]), text)


def _class_text(name: str, made: Class) -> str:
    lines = [f"class {name}({made.base})\n" if made.base else f"class {name}\n"]
    for method, forms in made.methods.items():
        shown = "" if method == "__init__" else method
        static = "static " if method in made.static else ""
        # The binding has some overloads twice.
        lines += [f"  {static}{shown}{form}\n" for form in dict.fromkeys(forms)]
    for name, (kind, default) in made.fields.items():
        fixed = "fixed " * (name in made.read_only) + "wrapped " * (name in made.wrapped)
        lines.append(f"  {fixed}{name}: {kind}{'' if default is None else f' = {default}'}\n")
    return "".join(lines)


def _operators_text(opsets: dict[int, Class], graphcore: Class) -> str:
    versions: dict[tuple[str, Form], list[int]] = {}
    for number, made in opsets.items():
        for method, forms in made.methods.items():
            for form in forms:
                versions.setdefault((method, form), []).append(number)
    lines = []
    for (method, form), numbers in sorted(versions.items(), key=lambda item: item[0][0]):
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), (method, numbers)
        lines.append(f"ai.onnx {numbers[0]}-{numbers[-1]} {method}{form}\n")
    for method, forms in sorted(graphcore.methods.items()):
        lines += [f"ai.graphcore 1-1 {method}{form}\n" for form in forms]
    return "".join(lines)

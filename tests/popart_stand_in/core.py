"""What the parts of the popart stand-in share: errors, enumerations, recorded and bound calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from tests.popart_stand_in.table import Argument, Entry, Form, module_table
from tools.popart_bindings.cxx import parts

EXCEPTIONS: dict[str, Any] = {"Exception": Exception}
for _name, _base in module_table().exceptions.items():
    EXCEPTIONS[_name] = type(_name, (EXCEPTIONS[_base],), {"__module__": __name__})
del EXCEPTIONS["Exception"]
popart_exception = EXCEPTIONS["popart_exception"]
popart_runtime_error = EXCEPTIONS["popart_runtime_error"]


class Call(NamedTuple):
    """One recorded call."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Calls = list[Call]

# pybind's members are no numbers and equal only themselves.
ENUMS: dict[str, Any] = {
    name: Enum(name, members, module=__name__)
    for name, members in module_table().enumerations.items()
}
NAMES: dict[str, Any] = dict(ENUMS)
"""Enumerations and, from when they are made, classes: what types and defaults are made of."""


class Recorded:
    """Base of the stand-in's classes; `make_popart` derives from them with a list of its own."""

    _calls: Calls = []


_ATOMS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: True,
    # A std::string takes bytes too.
    "str": lambda value: isinstance(value, (str, bytes)),
    "DebugContext": lambda value: isinstance(value, (str, NAMES["DebugContext"])),
    "ProfileValue": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, (int, np.integer)),
    "uint": lambda value: isinstance(value, (int, np.integer)) and bool(value >= 0),
    "float": lambda value: isinstance(value, (int, float, np.number)),
    # Whatever has a truth of its own, as numbers have.
    "bool": lambda value: value is None or isinstance(value, (int, float, np.bool_, np.number)),
    "array": lambda value: isinstance(value, np.ndarray),
    "dict": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "function": lambda value: value is None or callable(value),
}


def fits(value: Any, kind: str) -> bool:
    """Whether pybind takes `value` for an argument of a type of the table."""
    if kind.endswith(" | None"):
        return value is None or fits(value, kind.removesuffix(" | None"))
    outer, _, inside = kind.partition("[")
    if not inside:
        known = _ATOMS.get(kind)
        # There is no object of a class that is bound in another module, such as ReplicaGrouping.
        return known(value) if known is not None else isinstance(value, NAMES.get(kind, ()))
    kinds = parts(inside.removesuffix("]"))
    if outer == "dict":
        return isinstance(value, dict) and all(
            fits(key, kinds[0]) and fits(item, kinds[1]) for key, item in value.items()
        )
    if outer == "tuple":
        whole = isinstance(value, (tuple, list)) and len(value) == len(kinds)
        return whole and all(map(fits, value, kinds))
    sequences = (set,) if outer == "set" else (list, tuple, range, np.ndarray)
    return isinstance(value, sequences) and all(fits(item, kinds[0]) for item in value)


def _assigned(
    arguments: tuple[Argument, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any] | None:
    """The value of each argument of one form, or None where the call does not fit it."""
    if len(args) > len(arguments):
        return None
    left, values = dict(kwargs), []
    for at, argument in enumerate(arguments):
        if at < len(args):
            value = args[at]
        elif argument.name in left:
            value = left.pop(argument.name)
        elif argument.default is not None:
            values.append(eval(argument.default, NAMES))
            continue
        else:
            return None
        if not fits(value, argument.kind):
            return None
        values.append(value)
    return None if left else values


def chosen(
    name: str, forms: list[Form], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """What the first form that fits takes: by position where it has no name, and by name.

    Raises:
        TypeError: none fits, in pybind's words.
    """
    if forms[0].arguments and forms[0].arguments[0].name == "*args":
        return list(args), kwargs  # a function in Python that checks them itself
    for form in forms:
        values = _assigned(form.arguments, args, kwargs)
        if values is not None:
            pairs = list(zip(form.arguments, values, strict=True))
            unnamed = [value for argument, value in pairs if not argument.name]
            return unnamed, {argument.name: v for argument, v in pairs if argument.name}
    what = "constructor" if name.endswith("__init__") else "function"
    told = "\n".join(f"    {at}. {form.text}" for at, form in enumerate(forms, 1))
    raise TypeError(
        f"{name}(): incompatible {what} arguments. The following argument types are supported:\n"
        f"{told}\n\nInvoked with: {args} {kwargs}"
    )


def _checked(cls: type, name: str, forms: list[Form], does: Any, static: bool) -> Any:
    """A method that binds its arguments as pybind does and records the call."""
    # What a base of the table's does is not what this one does.
    bound_before = getattr(does, "is_bound", False)
    known = (inspect.isfunction(does) or isinstance(does, staticmethod)) and not bound_before
    plain = getattr(does, "__func__", does)
    own = known and not issubclass(cls, Record)
    recorded = plain.__qualname__ if own else f"{cls.__name__}.{name}"
    recorded = recorded.removesuffix(".__init__")

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        unnamed, named = chosen(f"{cls.__name__}.{name}", forms, args, kwargs)
        Recorded._calls.append(Call(recorded, args, kwargs))
        if not known:
            raise NotImplementedError(f"the stand-in only checks the arguments of {recorded}")
        return plain(*([] if static else [self]), *unnamed, **named)

    functools.update_wrapper(call, plain if known else call)
    vars(call)["is_bound"] = True
    if static:
        return staticmethod(functools.partial(call, None))
    return call


_OWN = ("__init__", "__enter__", "__exit__")


def bind(cls: type, *entries: Entry) -> type:
    """Gives a class the methods of the table, which call its own; it may have no others.

    Args:
        cls: what the methods do; one that it does not have says so when it is called.
        entries: of the table, the later before the earlier; that of its name by default.
    """
    given = entries or (module_table().classes[cls.__name__],)
    methods: dict[str, list[Form]] = {}
    static: set[str] = set()
    for entry in given:
        methods |= entry.methods
        static |= entry.static
    fields = {name for entry in given for name in entry.fields}
    base = given[0].base
    while base:
        fields |= set(module_table().classes[base].methods)
        base = module_table().classes[base].base
    own = {name for kind in cls.__mro__[:-1] for name in vars(kind) if not name.startswith("_")}
    if extra := own - set(methods) - fields:
        raise AssertionError(f"PopART's {cls.__name__} has no {sorted(extra)}")
    for name, forms in methods.items():
        if not name.startswith("_") or name in _OWN:
            does = inspect.getattr_static(cls, name, None)
            setattr(cls, name, _checked(cls, name, forms, does, name in static))
    NAMES.setdefault(cls.__name__, cls)
    return cls


class Record(Recorded):
    """A structure: a field takes what its type takes, and no other field can be set.

    Of a list, a set or a dictionary it gives a copy, as pybind does, but of those dictionaries
    that PopART wraps in Python.
    """

    _entry = Entry()

    def __init__(self, **given: Any) -> None:
        for name, (kind, default) in self._entry.fields.items():
            value = given.pop(name) if name in given else _start(kind, default)
            self.__dict__[f"_{name}"] = value
        self._other(given)

    def _other(self, given: dict[str, Any]) -> None:
        """Takes arguments that are no field."""
        assert not given, given

    def __getattr__(self, name: str) -> Any:
        field = self._entry.fields.get(name)
        if field is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        value = self.__dict__[f"_{name}"]
        if name in self._entry.wrapped:
            return _Wrapped(value, self, name)
        return type(value)(value) if isinstance(value, (list, dict, set)) else value

    def __setattr__(self, name: str, value: Any) -> None:
        what = type(self).__name__
        if name not in self._entry.fields:
            raise AttributeError(f"'{what}' object has no attribute '{name}'")
        if name in self._entry.fixed:
            raise AttributeError(f"can't set attribute '{name}'")
        kind = self._entry.fields[name][0]
        if not fits(value, kind):
            raise TypeError(
                f"{what}.{name}: incompatible function arguments. It takes {kind}, got {value!r}"
            )
        self._calls.append(Call(f"{what}.{name}", (value,), {}))
        self.__dict__[f"_{name}"] = value


class _Wrapped(dict[Any, Any]):
    """A dictionary of options: setting an item, and nothing else, sets the field."""

    def __init__(self, value: dict[Any, Any], owner: Record, name: str) -> None:
        super().__init__(value)
        self._owner, self._name = owner, name

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        setattr(self._owner, self._name, dict(self))


def _start(kind: str, default: str | None) -> Any:
    """What a field has when its structure is made."""
    if default is not None:
        return eval(default, NAMES)
    if kind in ENUMS:
        return ENUMS[kind](0)
    plain: dict[str, Any] = {"int": 0, "uint": 0, "bool": False, "float": 0.0, "dict": {}}
    outer = kind.partition("[")[0]
    return plain[outer] if outer in plain else NAMES[kind]()


def record(name: str, base: type[Record] = Record) -> type[Record]:
    """A structure of the table; `base` has what it does beside."""
    entry = module_table().classes[name]
    made = type(name, (base,), {"_entry": entry, "__doc__": f"{name} as bound."})
    bind(made)
    return made

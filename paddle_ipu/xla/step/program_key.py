"""The key of a compiled step: what it computes, where, and by which code.

Two keys lead to a step. That of the *program* is made of everything that tracing reads, so that a
process that finds it neither traces nor compiles. That of the *traced step* is made of what XLA is
given; it is there for programs that hold what has no key of its own, such as a user's function.
Whatever an object has counts, known or not: a key that says too much costs a compilation, one that
says too little would run the wrong program.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import struct
from collections.abc import Collection, Mapping, Sequence, Set
from types import FunctionType
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.step.graph import OWN_LOWERINGS, LoweredGraph
from paddle_ipu.xla.step.surroundings import source_digest, surroundings
from paddle_ipu.xla.step.traced_step import Step

_OWN = "paddle_ipu."
_DEPTH = 60
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_SET_BY_TRACING = (
    "program", "graph", "state", "segments", "checked", "checks", "fed_checks", "watch",
)  # fmt: skip
"""Fields of a step that have their own place in the key, or no value before it is traced."""

_NOT_IN_KEY = ("_drew", "progress")
"""Attributes of a lowered graph that decide nothing about the step."""


class NoKeyError(Exception):
    """An object that no key can be made of; the message says which."""


def program_key(step: Step, devices: Sequence[Any]) -> str:
    """The key of a step that is not traced yet, hexadecimal.

    Args:
        step: the step.
        devices: JAX's, on which it runs, those of other processes too.

    Raises:
        NoKeyError: the program holds a user's function or the like.
    """
    digest = Digest()
    digest.add("program", surroundings(), source_digest(), [device.id for device in devices])
    program, state = step.program, step.state
    digest.add(_fields(program, ("graph",)), _fields(step, _SET_BY_TRACING))
    digest.add(state.shapes, state.device_shapes(), [state.dtype(name) for name in state.shapes])
    digest.add(program.graph, step.graph)
    return digest.hexdigest()


def _fields(item: Any, skipped: Sequence[str]) -> list[tuple[str, Any]]:
    names = [field.name for field in dataclasses.fields(item) if field.name not in skipped]
    return [(name, getattr(item, name)) for name in names]


def traced_key(
    text: str, trees: str, kept: Collection[int], devices: Sequence[Any], options: Mapping[str, Any]
) -> str:
    """The key of a traced step, hexadecimal.

    Args:
        text: the step as StableHLO.
        trees: names, shapes and dtypes of its arguments and results.
        kept: which arguments it reads.
        devices: on which it runs.
        options: of the compiler.
    """
    digest = Digest()
    digest.add("traced", surroundings(), text, trees, sorted(kept), dict(options))
    digest.add([device.id for device in devices])
    return digest.hexdigest()


class Digest:
    """A digest of Python objects, by their structure."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._depth = 0

    def hexdigest(self) -> str:
        """The digest of everything that was added."""
        return self._hash.hexdigest()

    def add(self, *items: Any) -> None:
        """Adds objects, in order.

        Raises:
            NoKeyError: one of them, or what it holds, is of an unknown kind.
        """
        self._depth += 1
        if self._depth > _DEPTH:
            raise NoKeyError(f"an object of {type(items[0]).__name__} holds itself")
        for item in items:
            self._add(item)
        self._depth -= 1

    def _add(self, item: Any) -> None:
        if type(item) in _PLAIN:
            self._plain(item)
        elif isinstance(item, enum.Enum):
            self._name("enum", type(item), item.name)
        elif isinstance(item, (np.ndarray, np.generic)):
            self._array(np.asarray(item))
        elif isinstance(item, Mapping):
            self._begin("map", len(item))
            for key, value in item.items():
                self.add(key, value)
        elif isinstance(item, (list, tuple)):
            self._begin("list", len(item))
            self.add(*item)
        elif isinstance(item, Set):
            self._begin("set", len(item))
            self.add(*sorted(item, key=repr))
        elif isinstance(item, ir.Graph):
            self._graph(item)
        elif isinstance(item, LoweredGraph):
            known = {n: v for n, v in vars(item).items() if n not in _NOT_IN_KEY}
            self.add("lowered", known)
        elif isinstance(item, np.dtype):
            self._name("dtype", type(item), item.str, item.name)
        elif isinstance(item, PaddleOptimizer):
            # The step takes it as an argument.
            self._object(item.with_learning_rate(0.0))
        elif isinstance(item, (int, float, str, bytes)):
            # Of a class of its own, as onnx_ir's enumerations of numbers.
            self._name("of", type(item))
            self._plain(item)
        elif isinstance(item, (type, FunctionType)):
            self._code(item)
        else:
            self._object(item)

    def _begin(self, *what: Any) -> None:
        self._hash.update(repr(what).encode() + b"\0")

    def _plain(self, item: Any) -> None:
        if isinstance(item, bytes):
            data = item
        elif isinstance(item, float):
            data = struct.pack("<d", item)
        else:
            data = str(item).encode()
        self._hash.update(b"%s %d %s" % (type(item).__name__.encode(), len(data), data))

    def _name(self, kind: str, value: type, *more: Any) -> None:
        self._begin(kind, value.__module__, value.__qualname__, *more)

    def _array(self, array: HostArray) -> None:
        if array.dtype.hasobject:
            raise NoKeyError(f"an array of {array.dtype}")
        self._begin("array", array.dtype.name, array.shape)
        self._hash.update(np.ascontiguousarray(array).tobytes())

    def _code(self, item: Any) -> None:
        """A class or function of a module's, which is known by its name."""
        known = item.__module__.startswith((_OWN, "numpy", "jax", "ml_dtypes"))
        if not known or "<" in item.__qualname__:
            raise NoKeyError(f"the function {item.__module__}.{item.__qualname__}")
        self._begin("code", item.__module__, item.__qualname__)

    def _object(self, item: Any) -> None:
        kind = type(item)
        if not kind.__module__.startswith(_OWN):
            raise NoKeyError(f"an object of {kind.__module__}.{kind.__qualname__}")
        self._name("object", kind)
        if isinstance(item, LoweredNode) and not item.rule.__module__.startswith(OWN_LOWERINGS):
            raise NoKeyError(f"the operator {item.domain}.{item.op_type}")
        skipped = ("rule",) if isinstance(item, LoweredNode) else ()
        slots = [
            name
            for base in kind.__mro__
            for name in _slots(base)
            if hasattr(item, name)
        ]  # fmt: skip
        attributes = {name: getattr(item, name) for name in slots} | getattr(item, "__dict__", {})
        for name in sorted(attributes):
            if name not in skipped:
                self.add(name, attributes[name])

    def _graph(self, graph: ir.Graph) -> None:
        """A graph without its initializers' values: those that tracing reads are in its nodes."""
        self._begin("graph", len(graph))
        for value in (*graph.inputs, *graph.initializers.values()):
            self._value(value)
        for node in graph:
            self.add(node.domain, node.op_type, node.name, [v and v.name for v in node.inputs])
            for value in node.outputs:
                self._value(value)
            for name in sorted(node.attributes):
                self.add(name)
                self._attribute(node.attributes[name])
        self.add([value.name for value in graph.outputs])

    def _value(self, value: ir.Value) -> None:
        self.add(value.name, str(value.dtype), str(value.shape))

    def _attribute(self, attribute: Any) -> None:
        if attribute.type == ir.AttributeType.GRAPH:
            self._graph(attribute.as_graph())
        elif attribute.type == ir.AttributeType.TENSOR:
            self._array(attribute.value.numpy())
        else:
            self.add(attribute.value)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)

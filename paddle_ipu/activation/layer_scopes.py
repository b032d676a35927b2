"""Notes on the operators of static programs which layer they are built in.

The layers that are being called are known here, in static mode only; a call in dynamic mode passes
through. An operator of a ProgramDesc reads Paddle's name scope when it is made. PIR operators are
made in C++, which knows no scope: the last operator of a block is noted where a layer begins and
ends, and the new ones are written on when the outermost layer ends.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import paddle
from paddle.base import framework

from paddle_ipu.dialect import scopes
from paddle_ipu.dialect.paddle_objects import Block

_SCOPE = "struct_name"
_pir = paddle.base.libpaddle.pir
_NOT_OPERATORS = frozenset({"builtin.parameter", "pd_op.data"})
"""Paddle does not save them with an attribute it does not know."""

Result = Any


class _Marks:
    """Where in a block of PIR layers begin and end."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._count = len(block.ops)
        self._marks: list[tuple[int | None, str]] = []

    def add(self, part: str) -> None:
        """The operators that are built from now on belong to a layer."""
        last = None if self.block.empty() else self.block.back().id()
        self._marks.append((last, part))

    def write(self) -> None:
        """Writes on the operators that were built since the first mark."""
        first = self._marks[0][0]
        built = []
        operators = self.block.ops
        # Parameters are inserted further up, which only moves the new operators on.
        for operator in reversed(operators[self._count :]):
            if operator.id() == first:
                break
            built.append(operator)
        marks = dict(self._marks)
        part = marks[first]
        for operator in reversed(built):
            if operator.name() not in _NOT_OPERATORS:
                # Paddle's auto-parallel passes read the classes that it has noted there.
                classes = operator.str_attr(_SCOPE) if operator.has_attr(_SCOPE) else "/"
                operator.set_str_attr(_SCOPE, f"{classes}{part}/")
            part = marks.get(operator.id(), part)


class _Call:
    """The layer that is being called.

    Attributes:
        root: the name of the layer that paths start from.
        prefix: in front of the paths, for layers that are no member of the one that calls them.
        paths: id of each layer in the root -> its path there.
        part: the layer as a part of a scope.
        marks: of its block; None for a ProgramDesc, and before its program is known.
    """

    __slots__ = ("marks", "part", "paths", "prefix", "root")

    def __init__(
        self, root: str, prefix: str, paths: Mapping[int, str], path: str, marks: _Marks | None
    ) -> None:
        self.root, self.prefix, self.paths, self.marks = root, prefix, paths, marks
        self.part = scopes.scope_part(root, ".".join(filter(None, (prefix, path))))


class _Thread(threading.local):
    call: _Call | None = None


_thread = _Thread()


def naming(call: Callable[..., Result]) -> Callable[..., Result]:
    """``Layer._dygraph_call_func`` that notes the layer on what it builds in static mode."""

    @functools.wraps(call)
    def named_call(self: paddle.nn.Layer, *inputs: object, **keywords: object) -> Result:
        if framework.in_dygraph_mode():
            return call(self, *inputs, **keywords)
        outer = _thread.call
        if framework.in_pir_mode():
            inner = _thread.call = _called(self, outer, _marks(outer))
            _begin(inner)
            try:
                return call(self, *inputs, **keywords)
            finally:
                _thread.call = outer
                _end(inner, outer)
        _thread.call = inner = _called(self, outer, None)
        before = framework._name_scope
        around = before.parent() if before.parent() and scopes.is_layer(before.name()) else before
        framework._name_scope = framework.NameScope(inner.part, around)
        try:
            return call(self, *inputs, **keywords)
        finally:
            _thread.call = outer
            framework._name_scope = before

    return named_call


def tracing(trace: Callable[..., Result]) -> Callable[..., Result]:
    """``ConcreteProgram.from_func_spec``, which calls the ``forward`` of a layer, not the layer."""
    function = trace.__func__ if isinstance(trace, staticmethod) else trace

    @functools.wraps(function)
    def trace_named(
        func_spec: object,
        input_spec: object,
        input_kwargs_spec: object,
        class_instance: object,
        **keywords: object,
    ) -> Result:
        with _inside(class_instance):
            return function(func_spec, input_spec, input_kwargs_spec, class_instance, **keywords)

    return staticmethod(trace_named)


@contextmanager
def _inside(layer: object) -> Iterator[None]:
    before = _thread.call
    _thread.call = None
    if isinstance(layer, paddle.nn.Layer):
        _thread.call = _Call(layer.full_name(), "", _paths(layer), "", None)
    try:
        yield
    finally:
        _thread.call = before


def _called(layer: paddle.nn.Layer, outer: _Call | None, marks: _Marks | None) -> _Call:
    if outer is not None and (path := outer.paths.get(id(layer))) is not None:
        return _Call(outer.root, outer.prefix, outer.paths, path, marks)
    name, paths = layer.full_name(), _paths(layer)
    if outer is not None:
        # It is no member: its paths go on from the layer that calls it.
        prefix = ".".join(filter(None, (outer.part.partition(":")[2], name)))
        return _Call(outer.root, prefix, paths, "", marks)
    if len(paths) == 1:
        return _Call("", name, paths, "", marks)
    return _Call(name, "", paths, "", marks)


def _paths(root: paddle.nn.Layer) -> dict[int, str]:
    return {id(layer): path for path, layer in root.named_sublayers(include_self=True)}


def _marks(outer: _Call | None) -> _Marks:
    """The marks of the block under construction: a layer's within a branch are their own."""
    block = _pir.get_current_insertion_point().block()
    if outer is not None and outer.marks is not None and outer.marks.block == block:
        return outer.marks
    return _Marks(block)


def _begin(call: _Call) -> None:
    assert call.marks is not None
    call.marks.add(call.part)


def _end(call: _Call, outer: _Call | None) -> None:
    assert call.marks is not None
    if outer is not None and outer.marks is call.marks:
        call.marks.add(outer.part)
    else:
        call.marks.write()

"""``ipu_shard_guard`` for PIR programs: writes ``ipu_index`` and ``ipu_stage`` on operators.

A legacy operator reads the guard when it is made; PIR operators are made in C++, which knows no
guard. So a guard remembers which operators a block held when it began, and stamps the new ones
when it ends. An inner guard ends first and hands its operators to the outer one as done, also
those it left without an attribute because its index or stage was negative.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import paddle

_pir = paddle.base.libpaddle.pir
# What legacy Paddle has no operator for: they have no place of their own.
_NOT_OPERATORS = frozenset({"builtin.parameter", "pd_op.data"})


class _Guard:
    """One active guard: the blocks it watches and the operators that are placed already."""

    def __init__(self, index: int, stage: int) -> None:
        self.index = index
        self.stage = stage
        self.placed: set[int] = set()
        # The program is held so that the block outlives the guard.
        self._watched: list[tuple[Any, Any, frozenset[int]]] = []

    def watch(self, program: Any) -> None:
        """Remembers what the block under construction in `program` holds now."""
        block = current_block()
        if any(block == watched for _, watched, _ in self._watched):
            return
        before = frozenset(operator.id() for operator in block.ops)
        self._watched.append((program, block, before))

    def finish(self) -> set[int]:
        """Stamps what is new in the watched blocks; returns the ids of all placed operators."""
        for _, block, before in self._watched:
            for operator in block.ops:
                if operator.id() not in before:
                    self._place(operator)
        return self.placed

    def _place(self, operator: Any) -> None:
        if operator.id() not in self.placed:
            self.placed.add(operator.id())
            if operator.name() not in _NOT_OPERATORS:
                if self.index >= 0:
                    operator.set_int_attr("ipu_index", self.index)
                if self.stage >= 0:
                    operator.set_int_attr("ipu_stage", self.stage)
        for block in operator.blocks():
            for nested in block.ops:
                self._place(nested)


_guards: list[_Guard] = []
watchers: list[Any] = []
"""Other guards, which are told of each program that becomes the default one: ``watch(program)``."""


def current_block() -> Any:
    """The block under construction."""
    return _pir.get_current_insertion_point().block()


def stamping(ipu_shard_guard: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's ``ipu_shard_guard``, which serves legacy programs, made to serve PIR ones too."""

    @contextlib.contextmanager
    def stamping_guard(index: int = -1, stage: int = -1) -> Iterator[None]:
        for what, number in (("index", index), ("stage", stage)):
            if not isinstance(number, int):
                raise TypeError(
                    f"ipu_shard_guard: {what} must be an int, got {type(number).__name__} "
                    f"({number!r}). Leave it out, or pass -1, to write no ipu_{what}."
                )
        guard = _Guard(index, stage)
        if paddle.base.framework.in_pir_mode():
            guard.watch(paddle.static.default_main_program())
        _guards.append(guard)
        try:
            with ipu_shard_guard(index, stage):
                yield
        finally:
            _guards.remove(guard)
            placed = guard.finish()
            if _guards:
                _guards[-1].placed |= placed

    return functools.wraps(ipu_shard_guard)(stamping_guard)


def following_programs(switch_main_program: Callable[..., Any]) -> Callable[..., Any]:
    """``switch_main_program`` that lets guards begun outside of a ``program_guard`` see into it."""

    @functools.wraps(switch_main_program)
    def switch_and_watch(program: Any, insertion_point: Any = None) -> Any:
        previous = switch_main_program(program, insertion_point)
        for guard in (*_guards, *watchers):
            guard.watch(program)
        return previous

    return switch_and_watch

"""``ipu_shard_guard`` for PIR programs: writes ``ipu_index`` and ``ipu_stage`` on operators.

An operator of a ProgramDesc reads the guard when it is made; PIR operators are made in C++, which
knows no guard. So a guard notes which operators a block has when it begins, and writes on the new
ones when it ends. An inner guard ends first. The outer one leaves its operators alone, those
without attributes too, whose index or stage is negative.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import paddle

from paddle_ipu.dialect.paddle_objects import Block, Operation, Program

_pir = paddle.base.libpaddle.pir
# ProgramDescs have no operators for these: they are on no IPU.
_NOT_OPERATORS = frozenset({"builtin.parameter", "pd_op.data"})


class OperatorWatch:
    """The operators that are built in some blocks from a moment on."""

    def __init__(self) -> None:
        # The program is held so that the block outlives the watch.
        self._watched: list[tuple[Program, Block, frozenset[int]]] = []

    def watch(self, program: Program) -> None:
        """Watches the block of `program` that is under construction, from now on."""
        block: Block = _pir.get_current_insertion_point().block()
        if any(block == watched for _, watched, _ in self._watched):
            return
        before = frozenset(operator.id() for operator in block.ops)
        self._watched.append((program, block, before))

    def built(self) -> Iterator[Operation]:
        """The operators that were built since."""
        for _, block, before in self._watched:
            for operator in block.ops:
                if operator.id() not in before:
                    yield operator


class _Guard(OperatorWatch):
    """One active guard.

    Attributes:
        placed: ids of the operators that it or an inner guard has placed.
    """

    def __init__(self, index: int, stage: int) -> None:
        super().__init__()
        self._index = index
        self._stage = stage
        self.placed: set[int] = set()

    def finish(self) -> None:
        """Places the operators that were built."""
        for operator in self.built():
            self._place(operator)

    def _place(self, operator: Operation) -> None:
        if operator.id() not in self.placed:
            self.placed.add(operator.id())
            if operator.name() not in _NOT_OPERATORS:
                if self._index >= 0:
                    operator.set_int_attr("ipu_index", self._index)
                if self._stage >= 0:
                    operator.set_int_attr("ipu_stage", self._stage)
        for block in operator.blocks():
            for nested in block.ops:
                self._place(nested)


_guards: list[_Guard] = []
watches: list[OperatorWatch] = []
"""Others than guards; each watches all programs that become the default one."""


def stamping(ipu_shard_guard: Callable[..., Any]) -> Callable[..., Any]:
    """``ipu_shard_guard`` that places the operators of PIR programs too."""

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
            guard.finish()
            if _guards:
                _guards[-1].placed |= guard.placed

    return functools.wraps(ipu_shard_guard)(stamping_guard)


def following_programs(switch_main_program: Callable[..., Any]) -> Callable[..., Any]:
    """``switch_main_program`` that has guards from outside of a ``program_guard`` watch inside."""

    @functools.wraps(switch_main_program)
    def switch_and_watch(program: Program, insertion_point: object = None) -> object:
        previous = switch_main_program(program, insertion_point)
        for watch in (*_guards, *watches):
            watch.watch(program)
        return previous

    return switch_and_watch

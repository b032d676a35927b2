"""A copy of a ProgramDesc program in which every write makes a variable of its own.

A ProgramDesc writes a variable again and again; the dialect calls its versions ``x@1``, ``x@2``,
..., ``x``. The copy has variables of these names, so that each can be fetched at the end of a run.
Persistable variables, which live on in the scope, and variables that nested blocks use stay as they
are; their versions are copied between two operators instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import program_desc, programs
from paddle_ipu.frontend.legacy_operator import EMPTY
from paddle_ipu.frontend.saved_model import SavedProgram, SavedTensor
from paddle_ipu.passes.support.roles import BACKWARD, FORWARD, LOSS, OP_ROLE, OPTIMIZE
from paddle_ipu.verification.program_copy import DROPOUT, Operand, not_a_variable

if TYPE_CHECKING:
    from paddle.base.framework import Block, Operator, Program, Variable

_SIDE_EFFECTS = frozenset({"print", "py_func", "assert"})


class ProgramDescCopy:
    """A copy of a ``paddle.base.framework.Program``."""

    def __init__(
        self, program: Program, learning_rate_name: str | None, feeds_written: frozenset[str]
    ) -> None:
        """Takes a program that is a copy already, with a variable for each version."""
        self.program = program
        self._feeds_written = feeds_written
        self._block = program.global_block()
        self._learning_rate_name = learning_rate_name
        self._versions: dict[str, tuple[str, Operator]] = {}
        self._has_gradient: dict[str, bool] = {}
        for op, variable, name in _versions(program):
            if variable != name:
                self._versions[name] = (variable, op)
            so_far = self._has_gradient.get(variable, True)
            self._has_gradient[variable] = so_far and _has_gradient(op)

    @classmethod
    def of(cls, program: Program, without_dropout: bool) -> ProgramDescCopy:
        """Copies a program."""
        duplicate = program.clone()
        if hasattr(duplicate, "lr_scheduler"):
            del duplicate.lr_scheduler
        block = duplicate.global_block()
        for name in _fed(block):
            # Paddle's executor makes the operators that feed and fetch anew for every run.
            block.var(name).desc.set_need_check_feed(True)
        for index in reversed(range(len(block.ops))):
            if block.ops[index].type in ("feed", "fetch"):
                block._remove_op(index, sync=False)
        if without_dropout:
            _switch_dropout_off(duplicate)
        _make_gradients_dense(duplicate)
        written = {
            name
            for op in block.ops
            if op.type not in program_desc.STATISTICS
            for name in op.output_arg_names
        }
        feeds_written = frozenset(_fed(block) & written)
        _separate_versions(duplicate)
        return cls(duplicate, programs.learning_rate_name(program), feeds_written)

    @classmethod
    def of_saved(cls, program: SavedProgram, without_dropout: bool) -> ProgramDescCopy | None:
        """Copies a ``SavedProgram``; None where it is not a ProgramDesc."""
        from paddle.base.framework import Program
        from paddle.base.proto import framework_pb2

        description = program.description
        if not isinstance(description, framework_pb2.ProgramDesc):
            return None
        parsed = Program.parse_from_string(description.SerializeToString())
        return cls.of(parsed, without_dropout)

    def read(self) -> ir.Graph:
        graph = program_desc.read(self.program, self._learning_rate_name)
        for value in graph.inputs:
            if value.name in self._feeds_written:
                # Nothing writes the copy's feed, and the program's is written.
                value.meta[dialect.WRITTEN_AGAIN] = True
        return graph

    def fetch_name(self, item: Variable | SavedTensor) -> str:
        from paddle.base.framework import Variable

        if not isinstance(item, (Variable, SavedTensor)):
            raise not_a_variable(item)
        # By name, as Paddle's executor does: scripts fetch from clones by the variables they have.
        return str(item.name)

    def value(self, name: str) -> Variable | None:
        variable, _ = self._versions.get(name, (name, None))
        return self._block.vars.get(variable)

    def is_differentiable(self, name: str) -> bool:
        variable, _ = self._versions.get(name, (name, None))
        return self._has_gradient[variable] and _is_float(self._block.var(variable))

    def pruned(self, names: Sequence[str], training: bool) -> ProgramDescCopy:
        copy = ProgramDescCopy(self.program.clone(), self._learning_rate_name, self._feeds_written)
        _prune(copy._block, {str(copy._variable(name).name) for name in names}, training)
        return copy

    def _variable(self, name: str) -> Variable:
        variable = self.value(name)
        assert variable is not None, name
        return variable

    def as_computed(self, name: str) -> Variable:
        variable = self._variable(name)
        _, writer = self._versions.get(name, (name, None))
        if writer is None:
            return variable
        copy = _variable_like(self._block, variable, name)
        place = next(i for i, op in enumerate(self._block.ops) if op is writer)
        self._block._insert_op_without_sync(
            place + 1, type="assign", inputs={"X": variable}, outputs={"Out": copy}
        )
        return copy

    def operands(self) -> Iterator[Operand]:
        newest: dict[str, str] = {}
        names = {(id(op), variable): name for op, variable, name in _versions(self.program)}
        for op in self._block.ops:
            for slot in op.input_names:
                for index, variable in enumerate(op.input(slot)):
                    if variable not in self._block.vars:
                        continue
                    differentiable = _has_gradient(op) and _is_float(self._block.var(variable))
                    yield Operand(
                        newest.get(variable, variable),
                        differentiable,
                        partial(_replace, op, slot, index),
                        variable in op.output_arg_names,
                    )
            for variable in op.output_arg_names:
                newest[variable] = names.get((id(op), variable), variable)

    def feeds(self) -> frozenset[str]:
        return frozenset(_fed(self._block))

    def variables(self) -> Mapping[str, Sequence[int]]:
        return {
            name: list(variable.shape)
            for name, variable in self._block.vars.items()
            if variable.persistable and _is_dense(variable)
        }

    def running(self) -> AbstractContextManager[None]:
        """Paddle 3 runs ProgramDesc programs with PIR switched off."""
        from paddle import pir_utils

        guard: AbstractContextManager[None] = getattr(pir_utils, "OldIrGuard", nullcontext)()
        return guard


def _fed(block: Block) -> set[str]:
    """What ``static.data`` declares, feed operators write, or is read though nothing writes it."""
    names = {name for name, variable in block.vars.items() if variable.desc.need_check_feed()}
    written: set[str] = set()
    for op in block.ops:
        if op.type == "feed":
            names.update(op.output("Out"))
        else:
            names.update(name for name in op.input_arg_names if name not in written)
            written.update(op.output_arg_names)
    return {
        name
        for name in names
        if name in block.vars and not block.var(name).persistable and _is_dense(block.var(name))
    }


def _versions(program: Program) -> Iterator[tuple[Operator, str, str]]:
    """(operator, variable that it writes, the dialect's name for what it writes there)."""
    block = program.global_block()
    writes = Counter(name for op in block.ops for name in op.output_arg_names)
    written: Counter[str] = Counter()
    for op in block.ops:
        for name in op.output_arg_names:
            if name == EMPTY:
                continue
            written[name] += 1
            variable = block.vars.get(name)
            is_last = written[name] == writes[name]
            keeps_first = variable is not None and (
                variable.persistable or variable.desc.need_check_feed()
            )
            if is_last and not keeps_first:
                yield op, name, name
            else:
                yield op, name, f"{name}@{written[name]}"


def _separate_versions(program: Program) -> None:
    """Gives each version of a variable a variable of its own, where that can be done."""
    block = program.global_block()
    nested = {
        name
        for inner in program.blocks[1:]
        for op in inner.ops
        for name in (*op.input_arg_names, *op.output_arg_names)
    }
    names = {(id(op), variable): name for op, variable, name in _versions(program)}
    newest: dict[str, str] = {}
    for op in block.ops:
        for name in set(op.input_arg_names):
            if newest.get(name, name) != name:
                op.desc._rename_input(name, newest[name])
        for name in set(op.output_arg_names):
            variable = None if name == EMPTY else block.vars.get(name)
            if variable is None or variable.persistable or not _is_dense(variable):
                continue
            version = names[id(op), name]
            if name in nested:
                continue
            newest[name] = version
            if version != name:
                _variable_like(block, variable, version)
                op.desc._rename_output(name, version)


def _variable_like(block: Block, variable: Variable, name: str) -> Variable:
    return block.create_var(
        name=name,
        shape=variable.shape,
        dtype=variable.dtype,
        type=variable.type,
        stop_gradient=variable.stop_gradient,
        persistable=False,
    )


def _is_dense(variable: Variable) -> bool:
    from paddle.base import core

    return bool(variable.type == core.VarDesc.VarType.LOD_TENSOR)


def _is_float(variable: Variable) -> bool:
    from paddle.base import core

    return (
        _is_dense(variable)
        and bool(variable.dtype == core.VarDesc.VarType.FP32)
        and not variable.stop_gradient
    )


def _has_gradient(op: Operator) -> bool:
    from paddle.base import core

    return bool(core.has_non_empty_grad_op_maker(op.type))


def _replace(op: Operator, slot: str, index: int, variable: Variable) -> None:
    names = list(op.input(slot))
    names[index] = variable.name
    op.desc.set_input(slot, names)


def _switch_dropout_off(program: Program) -> None:
    for block in program.blocks:
        for op in block.ops:
            if op.type.removesuffix("_grad") in DROPOUT:
                op.desc._set_bool_attr("is_test", True)


def _make_gradients_dense(program: Program) -> None:
    """Has embeddings compute whole gradients, not the rows they touched: those can be compared."""
    from paddle.base import core

    kinds = core.VarDesc.VarType
    for block in program.blocks:
        for op in block.ops:
            if op.has_attr("is_sparse") and op.attr("is_sparse"):
                op.desc._set_bool_attr("is_sparse", False)
        for variable in block.vars.values():
            if variable.type == kinds.SELECTED_ROWS:
                variable.desc.set_type(kinds.LOD_TENSOR)


def _prune(block: Block, wanted: set[str], training: bool) -> None:
    needed = set(wanted)
    for index in reversed(range(len(block.ops))):
        op = block.ops[index]
        if not needed.isdisjoint(op.output_arg_names) or _is_root(block, op, training):
            needed.update(op.input_arg_names)
            if not training and _role(op) == FORWARD | LOSS:
                op._set_attr(OP_ROLE, FORWARD)
        else:
            block._remove_op(index, sync=False)


def _role(op: Operator) -> int:
    # Operators that Paddle's own passes make, for inference, have no role.
    return int(op.attr(OP_ROLE)) if op.has_attr(OP_ROLE) else FORWARD


def _is_root(block: Block, op: Operator, training: bool) -> bool:
    if op.type in _SIDE_EFFECTS:
        return True
    if not training and _role(op) & (BACKWARD | OPTIMIZE):
        return False
    if op.has_attr("is_test") and op.attr("is_test"):
        return False
    outputs = (block.vars.get(name) for name in op.output_arg_names)
    return any(variable is not None and variable.persistable for variable in outputs)

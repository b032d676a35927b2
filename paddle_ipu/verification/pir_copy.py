"""A copy of a PIR program with a name on every value, stamped on its operators as attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.dialect.value_names import NAME_PREFIX
from paddle_ipu.errors import FetchError
from paddle_ipu.frontend import pir
from paddle_ipu.passes.extract_forward import SIDE_EFFECTS
from paddle_ipu.passes.support.state_writes import IN_PLACE
from paddle_ipu.passes.support.update_operators import OPTIMIZER_OPS
from paddle_ipu.verification.program_copy import DROPOUT, Operand, not_a_variable

if TYPE_CHECKING:
    import paddle
    from paddle.pir import Operation, Program, Value

_PARAMETER, _DATA = "builtin.parameter", "pd_op.data"
# Adamax leaves the power of its beta to an operator of its own, whose result nobody reads.
_ADVANCES_A_POWER = "scale_"
_COMBINE, _SPLIT = "builtin.combine", "builtin.split"


class PirCopy:
    """A copy of a ``paddle.pir.Program``."""

    def __init__(self, program: Program, learning_rate_name: str | None) -> None:
        """Takes a program that is a copy already, with names on every value."""
        self.program = program
        self._learning_rate_name = learning_rate_name
        self._values: dict[str, Value] = {}
        for name, value in named_values(program):
            self._values.setdefault(name, value)
        self._original: Program | None = None
        self._mapping: paddle.pir.IrMapping | None = None

    @classmethod
    def of(cls, program: Program, without_dropout: bool) -> PirCopy:
        """Copies a program."""
        import paddle

        mapping = paddle.pir.IrMapping()
        duplicate = program.clone(mapping)
        if hasattr(duplicate, "lr_scheduler"):
            # With it the executor would write the rate to the global scope.
            del duplicate.lr_scheduler
        if without_dropout:
            _switch_dropout_off(duplicate)
        name_values(duplicate)
        copy = cls(duplicate, getattr(program, "lr_name", None))
        copy._original, copy._mapping = program, mapping
        return copy

    def read(self) -> ir.Graph:
        return pir.read(self.program, self._learning_rate_name)

    def fetch_name(self, item: Value) -> str:
        import paddle

        if not isinstance(item, paddle.pir.Value):
            raise not_a_variable(item)
        if item.get_defining_op().get_parent_block().program != self._original:
            raise FetchError(
                f"fetch_list holds a variable of another program, made by "
                f"{item.get_defining_op().name()}. Fetch a variable of the program to verify."
            )
        assert self._mapping is not None
        wanted = self._mapping.look_up(item).id
        return next(name for name, value in named_values(self.program) if value.id == wanted)

    def value(self, name: str) -> Value | None:
        return self._values.get(name)

    def is_differentiable(self, name: str) -> bool:
        return _is_differentiable(self._values[name])

    def pruned(self, names: Sequence[str], training: bool) -> PirCopy:
        copy = PirCopy(self.program.clone(), self._learning_rate_name)
        _prune(copy.program, [copy._values[name] for name in names], training)
        return copy

    def as_computed(self, name: str) -> Value:
        import paddle

        value = self._values[name]
        producer = value.get_defining_op()
        if producer.name() == _PARAMETER or not _is_overwritten(value):
            return value
        with paddle.static.program_guard(self.program):
            paddle.pir.set_insertion_point_after(producer)
            copy = paddle.assign(value)
            paddle.pir.set_insertion_point_to_block_end(self.program.global_block())
        return copy

    def operands(self) -> Iterator[Operand]:
        names = {value.id: name for name, value in named_values(self.program)}
        for op in self.program.global_block().ops:
            for index, value in enumerate(op.operands_source()):
                if value.initialized() and value.id in names:
                    replace = op.operand(index).set_source
                    yield Operand(names[value.id], _is_differentiable(value), replace)

    def feeds(self) -> frozenset[str]:
        return frozenset(
            op.attrs()["name"]
            for op in self.program.global_block().ops
            if op.name() == _DATA and not op.attrs().get("persistable", [False])[0]
        )

    def variables(self) -> Mapping[str, Sequence[int]]:
        shapes: dict[str, Sequence[int]] = {}
        for op in self.program.global_block().ops:
            attributes = op.attrs()
            persistable = attributes.get("persistable", [False])[0]
            if op.name() == _PARAMETER or (op.name() == _DATA and persistable):
                name = str(attributes.get("parameter_name") or attributes["name"])
                shapes[name] = list(op.result(0).shape)
        return shapes

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()


def name_values(program: Program) -> None:
    """Gives every result that has no name one, as an attribute of its operator."""
    lists: dict[int, str] = {}
    for number, op in enumerate(program.global_block().ops):
        stem = f"{op.name().rpartition('.')[2]}.{number}"
        if op.name() == _SPLIT:
            stem = lists.get(op.operand_source(0).id, stem)
        for index in range(op.num_results()):
            attribute = f"{NAME_PREFIX}{index}"
            if not op.has_attr(attribute):
                op.set_str_attr(attribute, f"{stem}.{index}")
            if _is_list(op.result(index)) and op.name() != _COMBINE:
                lists[op.result(index).id] = op.str_attr(attribute)


def named_values(program: Program) -> Iterator[tuple[str, Value]]:
    """(name in the dialect, value) of a program with names on every value.

    A member of a list that is taken out again comes twice, under one name.
    """
    lists: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for op in program.global_block().ops:
        attributes = op.attrs()
        for index, result in enumerate(op.results()):
            if not result.initialized():
                continue
            name = str(attributes[f"{NAME_PREFIX}{index}"])
            if op.name() == _COMBINE:
                lists[result.id] = [names.get(v.id, "") for v in op.operands_source()]
                continue
            if _is_list(result):
                continue
            if op.name() == _SPLIT and op.operand_source(0).id in lists:
                name = lists[op.operand_source(0).id][index]
            elif op.name() in (_PARAMETER, _DATA):
                name = str(attributes.get("parameter_name") or attributes["name"])
            names[result.id] = name
            yield name, result


def _is_list(value: Value) -> bool:
    return value.initialized() and value.type().as_vec_type() is not None


def _is_differentiable(value: Value) -> bool:
    return not value.stop_gradient and str(value.dtype).lower().endswith("float32")


def _switch_dropout_off(program: Program) -> None:
    for op in program.global_block().ops:
        name = op.name().rpartition(".")[2]
        if name.removesuffix("_grad") in DROPOUT:
            op.set_bool_attr("is_test", True)


def _prune(program: Program, wanted: Sequence[Value], training: bool) -> None:
    block = program.global_block()
    kept = {value.id for value in wanted}
    for op in reversed(block.ops):
        results = [result for result in op.results() if result.initialized()]
        if any(result.id in kept or not result.use_empty() for result in results):
            continue
        if not _is_root(op, training):
            block.remove_op(op)


def _is_root(op: Operation, training: bool) -> bool:
    name = op.name().rpartition(".")[2]
    if name in IN_PLACE:
        return True
    if training and name == _ADVANCES_A_POWER:
        maker = op.operand_source(0).get_defining_op()
        return maker is not None and maker.name() in (_PARAMETER, _DATA)
    return name in SIDE_EFFECTS or (training and name in OPTIMIZER_OPS)


def _is_overwritten(value: Value) -> bool:
    """True when an operator writes its result over this value."""
    return any(op.name().endswith("_") for op in value.all_used_ops())

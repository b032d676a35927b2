"""Programs on the CPU that share variables of one Scope with a compiled program.

Paddle's executor reads and writes the Scope while the newest weights are on the device: it is
given them before such a run, and after one that writes variables the device takes the Scope's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from paddle_ipu.frontend.programs import is_pir
from paddle_ipu.runtime.weights.owner import live_backends, restore_state

_KEPT = {"builtin.parameter": "parameter_name", "builtin.set_parameter": "parameter_name"}
_DATA = "pd_op.data"


@contextmanager
def in_turn(program: Any, scope: Any) -> Iterator[None]:
    """Has a run of `program` by Paddle's executor see what devices trained, and they what it did.

    Args:
        program: what runs, None for the default main program.
        scope: of the run, None for the global one.
    """
    restore_state()
    backends = live_backends()
    if not backends:
        yield
        return
    import paddle

    scope = paddle.static.global_scope() if scope is None else scope
    program = paddle.static.default_main_program() if program is None else program
    beside = [backend for backend in backends if backend.scope is scope]
    kept, written = _variables(program) if beside else (set(), False)
    sharing = [backend for backend in beside if not kept.isdisjoint(backend.variables)]
    for backend in sorted(sharing, key=lambda backend: backend.ahead):
        backend.update_scope()
    try:
        yield
    finally:
        if written:
            for backend in sharing:
                backend.mark_stale()


def _variables(program: Any) -> tuple[set[str], bool]:
    """(names of what a program keeps in the Scope, whether it writes any of them)."""
    if is_pir(program):
        operators = list(program.global_block().ops)
        names = set()
        for operator in operators:
            if operator.name() in _KEPT:
                names.add(str(operator.attrs()[_KEPT[operator.name()]]))
            elif operator.name() == _DATA and operator.result(0).persistable:
                names.add(str(operator.attrs()["name"]))
        return names, _writes(operators)
    # A legacy CompiledProgram holds the program that it runs.
    program = getattr(program, "_program", program)
    if not hasattr(program, "list_vars"):
        return set(), False
    names = {variable.name for variable in program.list_vars() if variable.persistable}
    blocks = [program.block(index) for index in range(program.num_blocks)]
    outputs = {name for block in blocks for op in block.ops for name in op.output_arg_names}
    return names, not names.isdisjoint(outputs)


def _writes(operators: Iterable[Any]) -> bool:
    """Whether an operator of a PIR block, or of one within, writes what it reads or a parameter."""
    return any(
        operator.name().endswith("_")
        or operator.name() == "builtin.set_parameter"
        or any(_writes(block.ops) for block in operator.blocks())
        for operator in operators
    )

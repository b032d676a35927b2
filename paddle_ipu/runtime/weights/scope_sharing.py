"""Programs on the CPU that share variables of one Scope with a compiled program.

Paddle's executor reads and writes the Scope while the newest weights are on a device: they are
synced to the Scope before such a run, and one that writes variables makes the device's outdated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from paddle_ipu.frontend.programs import is_pir
from paddle_ipu.runtime.weights.owner import owners, restore_released

_PERSISTABLE = {"builtin.parameter": "parameter_name", "builtin.set_parameter": "parameter_name"}
_DATA = "pd_op.data"


@contextmanager
def synced(program: Any, scope: Any) -> Iterator[None]:
    """Syncs the Scope with devices before and after a run of `program` by Paddle's executor.

    Args:
        program: what runs, None for the default main program.
        scope: of the run, None for the global one.
    """
    restore_released()
    if not owners():
        yield
        return
    import paddle

    scope = paddle.static.global_scope() if scope is None else scope
    program = paddle.static.default_main_program() if program is None else program
    names, writes = _variables(program) if owners(scope) else (set(), False)
    sharing = owners(scope, names)
    for owner in sharing:
        owner.sync_to_host()
    try:
        yield
    finally:
        if writes:
            for owner in sharing:
                owner.scope_was_written()


def _variables(program: Any) -> tuple[set[str], bool]:
    """(names of a program's persistable variables, whether it writes any of them)."""
    if is_pir(program):
        operators = list(program.global_block().ops)
        names = set()
        for operator in operators:
            if operator.name() in _PERSISTABLE:
                names.add(str(operator.attrs()[_PERSISTABLE[operator.name()]]))
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

"""The names that a ProgramDesc program has for the operators and operands of a PIR program.

They come from the frontend's vocabulary, read backwards. Where several old operators became one,
the newest is used, which Paddle 2.6 builds too: ``matmul_v2``, ``reshape2``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from paddle_ipu.dialect.paddle_objects import Operation, Value

if TYPE_CHECKING:
    from paddle_ipu.frontend.vocabulary.row import Row

PADDLE = "pd_op"
"""PIR's dialect of Paddle's operators; ``builtin`` has parameters and lists of values."""


def type_of(operator: Operation) -> str:
    """The operator's old type; PIR's name where there was no such operator."""
    name = operator.name()
    dialect, _, phi = name.rpartition(".")
    if dialect != PADDLE:
        return name
    # A trailing underscore marks an operator that works in place; old types have none.
    forward, is_grad, _ = phi.rstrip("_").partition("_grad")
    if forward in _types():
        return _types()[forward] + is_grad
    return phi


def operand_of(operator: Operation, slot: str) -> str:
    """PIR's name of the operand that was in an input slot; the slot's name where it is unknown."""
    row = _row(operator)
    for operand in () if row is None else row.inputs:
        if any(getattr(source, "name", None) == slot for source in operand.sources):
            return operand.name
    return slot


def result_of(operator: Operation, slot: str) -> str:
    """PIR's name of the result that was in an output slot; the slot's name where it is unknown."""
    row = _row(operator)
    for result in () if row is None else row.outputs:
        if result.slot == slot:
            return result.name
    return slot


def is_attribute_constant(operator: Operation) -> bool:
    """Whether it makes a constant that all its readers have as an attribute in a ProgramDesc."""
    name = operator.name()
    if name == f"{PADDLE}.full_int_array":
        return True
    if name != f"{PADDLE}.full":
        return False
    value = operator.result(0)
    readers = value.all_used_ops()
    return bool(readers) and all(_reads_as_attribute(reader, value) for reader in readers)


def _reads_as_attribute(operator: Operation, value: Value) -> bool:
    row = _row(operator)
    if row is None:
        return False
    reads = [operand.is_same(value) for operand in operator.operands_source()]
    names = list(operator.get_input_names())
    constants = {
        operand.name
        for operand in row.inputs
        if any(hasattr(source, "attribute") for source in operand.sources)
    }
    return {name for name, read in zip(names, reads, strict=True) if read} <= constants


def _vocabulary() -> dict[str, Row]:
    # It imports ONNX, which waits for the first use.
    from paddle_ipu.frontend.vocabulary import table  # noqa: F401 - fills the next
    from paddle_ipu.frontend.vocabulary.row import TABLE

    return TABLE


def _row(operator: Operation) -> Row | None:
    return _vocabulary().get(type_of(operator))


@functools.cache
def _types() -> dict[str, str]:
    # Each of these old operators became two.
    types = {"split_with_num": "split", "tril": "tril_triu", "triu": "tril_triu"}
    for legacy, row in _vocabulary().items():
        op = row.op.rstrip("_")
        if op not in types or legacy.endswith("2"):
            types[op] = legacy
    return types

"""The members of the old API that PIR's classes get: a function, a property, or a refusal."""

from __future__ import annotations

from typing import NoReturn

from paddle_ipu.legacy import (
    inference_clone,
    pir_append_op,
    pir_block,
    pir_operation,
    pir_program,
    pir_value,
)
from paddle_ipu.legacy.pir_names import PirName

_MODULES = {
    "inference_clone": inference_clone,
    "pir_append_op": pir_append_op,
    "pir_block": pir_block,
    "pir_operation": pir_operation,
    "pir_program": pir_program,
    "pir_value": pir_value,
}


def member_of(row: PirName) -> object:
    """What a row of the table puts into its class."""
    return _refusal(row) if row.module is None else getattr(_MODULES[row.module], row.function)


def _refusal(row: PirName) -> property:
    """A property that raises, and says what to write instead."""

    def refuse(owner: object) -> NoReturn:
        # Python's own wording first, and its type: hasattr must answer no.
        raise AttributeError(
            f"'{type(owner).__module__}.{type(owner).__name__}' object has no attribute "
            f"'{row.name}': this is a PIR program, which has no ProgramDesc. Write instead: "
            f"{row.does}."
        )

    return property(refuse, doc=f"Not in PIR programs. Write instead: {row.does}.")

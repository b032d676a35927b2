"""What each name that PIR classes are given answers with: a function, or a refusal."""

from __future__ import annotations

from typing import Any

from paddle_ipu.legacy import (
    inference_clone,
    pir_append_op,
    pir_block,
    pir_operation,
    pir_program,
    pir_value,
)
from paddle_ipu.legacy.pir_names import PirName
from paddle_ipu.legacy.pir_refusals import refusal

_MODULES = {
    "inference_clone": inference_clone,
    "pir_append_op": pir_append_op,
    "pir_block": pir_block,
    "pir_operation": pir_operation,
    "pir_program": pir_program,
    "pir_value": pir_value,
}


def answer_of(row: PirName) -> Any:
    """What is put into the class."""
    return refusal(row) if row.module is None else getattr(_MODULES[row.module], row.function)

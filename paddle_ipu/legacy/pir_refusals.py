"""Names of ProgramDesc programs that PIR programs cannot answer: they say what to write instead."""

from __future__ import annotations

from typing import Any

from paddle_ipu.legacy.pir_names import PirName


def refusal(row: PirName) -> property:
    """A property that says what to write instead."""

    def refuse(owner: Any) -> Any:
        # Python's own wording first, and its type: hasattr must answer no.
        raise AttributeError(
            f"'{type(owner).__module__}.{type(owner).__name__}' object has no attribute "
            f"'{row.name}': this is a PIR program, which has no ProgramDesc. Write instead: "
            f"{row.does}."
        )

    refuse.__qualname__ = row.function
    return property(refuse, doc=f"Not in PIR programs. Write instead: {row.does}.")

"""Where the figures of a prediction come from: those of the machine, and the constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from paddle_ipu.cost_model.constants import CONSTANTS, TABLE
from paddle_ipu.cost_model.machines import (
    MACHINE_SOURCES,
    MACHINES,
    PROCESSOR_SOURCES,
    Machine,
)


class Source(NamedTuple):
    """A figure that predictions are computed from.

    Attributes:
        name: of the constant, or of the machine's figure.
        value: in the units of :class:`Machine`, :class:`Processor` and :class:`Constants`.
        kind: ``machine``, ``fitted`` or ``assumed``.
        source: where it comes from, in words.
    """

    name: str
    value: float
    kind: str
    source: str


def sources(machine: Machine) -> Iterator[Source]:
    """Every figure: the machine's, whose source is known where a listed machine has it; constants.

    Args:
        machine: that the program was predicted for.
    """
    for table, part, others in (
        (PROCESSOR_SOURCES, machine.processor, [m.processor for m in MACHINES.values()]),
        (MACHINE_SOURCES, machine, list(MACHINES.values())),
    ):
        for name, source in table.items():
            value = getattr(part, name)
            listed = any(getattr(other, name) == value for other in others)
            yield Source(name, value, "machine", source if listed else "given with the machine")
    for name, provenance in TABLE.items():
        yield Source(name, getattr(CONSTANTS, name), provenance.kind, provenance.why)

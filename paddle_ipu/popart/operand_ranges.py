"""Which numbers an operator takes, where a program says it more narrowly than PopART does.

In ONNX an index below zero counts from the end, and a class that does not exist has no place in a
one-hot row; what an IPU makes of a division by zero is a number. Paddle takes none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

HIGHEST = 2**31 - 1
"""The largest number on the device: no bound."""


@dataclass(frozen=True, slots=True)
class OperandRange:
    """Which numbers an operator takes of one of its inputs.

    Attributes:
        operand: number of the input, which holds integers.
        what: how a message names one of them, for instance ``index``.
        low: the smallest.
        high: the largest.
        nonzero: any number but zero instead; ``low`` and ``high`` are 1 then.
    """

    operand: int
    what: str
    low: int
    high: int
    nonzero: bool = False

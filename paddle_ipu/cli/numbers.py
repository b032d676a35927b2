"""Converters of arguments that are numbers within bounds, for ``type=`` of ``add_argument``."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def number(
    convert: Callable[[str], Number], least: float, expected: str
) -> Callable[[str], Number]:
    """A converter of finite numbers.

    Args:
        convert: ``int`` or ``float``.
        least: the smallest number that is accepted.
        expected: what the message of a refusal says was expected.
    """

    def parsed(text: str) -> Number:
        with contextlib.suppress(ValueError):
            value = convert(text)
            if least <= value < math.inf:
                return value
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {expected}")

    return parsed


positive = number(int, 1, "a whole number from 1 on")
above_zero = number(float, sys.float_info.min, "a number above 0")
not_negative = number(int, 0, "a whole number from 0 on")

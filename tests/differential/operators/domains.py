"""What random draws seldom hit: attributes of few values, and operands of a certain kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.differential.operators.use import Array, Use

Draw = Callable[[np.random.Generator, Array, Use], Array]

ATTRIBUTES: Mapping[tuple[str, str], Sequence[Any]] = {}
"""(operator, attribute) -> values that it may have."""

OPERANDS: Mapping[tuple[str, str], Draw] = {}
"""(operator, operand) -> numbers for it."""

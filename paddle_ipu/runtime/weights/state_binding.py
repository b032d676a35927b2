"""Converts optimizer state between a variable of the Scope and a state array of the device.

Paddle's own rules keep on the device what the Scope has, sometimes in half or in loss-scaled units.
PopART's rules keep the same moments under names of their own, a count of steps where Paddle has
powers of its betas, and a velocity that is one step further.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Read = Callable[[str], Array]
"""Reads another variable of the Scope."""

_SMALLEST = float(np.finfo(np.float32).tiny)
_MANY = 2**24 - 1
"""The largest count that float32 can add one to."""


@dataclass(frozen=True, slots=True)
class StateBinding:
    """A state array of the device for a variable of the Scope, with the same elements.

    Attributes:
        tensor: the state array's id.
        dtype: its element type.
        unit: what the device's numbers are multiplied by.
    """

    tensor: str
    dtype: str = "float32"
    unit: float = 1.0

    @property
    def is_exact(self) -> bool:
        """Whether the device has the variable's very numbers, where it has its dtype."""
        return type(self) is StateBinding and self.unit == 1.0

    def to_device(self, array: Array, read: Read) -> Array | None:
        """The device's array for the variable's; None if another variable's binding gives it."""
        array = array if self.unit == 1.0 else array * np.float32(self.unit)
        return array.astype(self.dtype, copy=False)

    def buffer(self, shape: tuple[int, ...]) -> Array:
        """An array to read the device's into, for a variable of that shape."""
        return np.empty(shape, self.dtype)

    def to_scope(self, array: Array, read: Read) -> Array:
        """The variable's array for the device's."""
        return array if self.unit == 1.0 else array / np.float32(self.unit)


@dataclass(frozen=True, slots=True)
class LossScaleBinding(StateBinding):
    """The factor of automatic loss scaling, for the loss scale and the scaling it started from.

    Attributes:
        loss_scaling: what the factor multiplies.
    """

    loss_scaling: float = 1.0

    def to_device(self, array: Array, read: Read) -> Array | None:
        return np.asarray(array[0] / np.float32(self.loss_scaling), np.float32)

    def buffer(self, shape: tuple[int, ...]) -> Array:
        return np.empty((), np.float32)

    def to_scope(self, array: Array, read: Read) -> Array:
        scaling = np.float32(self.loss_scaling)
        return np.asarray([np.float32(array) * scaling, scaling], np.float32)


@dataclass(frozen=True, slots=True)
class StepBinding(StateBinding):
    """A count of steps for the power of a beta, which is the beta itself before the first step.

    A power that is too small for float32 determines no count. That of the larger beta does so for
    longer; once it is too small as well, no correction is left that a count would change.

    Attributes:
        beta: the beta.
        powers: what determines the count, as (variable, beta), the best one first; empty if
            another variable's binding has them.
    """

    beta: float = 0.9
    powers: tuple[tuple[str, float], ...] = ()

    def to_device(self, array: Array, read: Read) -> Array | None:
        if not self.powers:
            return None
        for name, beta in self.powers:
            power = float(read(name).reshape(-1)[0])
            if 0.0 < beta < 1.0 and power >= _SMALLEST:
                return np.asarray(round(math.log(power) / math.log(beta)) - 1, np.float32)
        return np.asarray(_MANY, np.float32)

    def buffer(self, shape: tuple[int, ...]) -> Array:
        return np.zeros((), np.float32)

    def to_scope(self, array: Array, read: Read) -> Array:
        return np.asarray([self.beta ** (float(array) + 1)], np.float32)


@dataclass(frozen=True, slots=True)
class VelocityBinding(StateBinding):
    """The velocity of ``popart.SGD`` in its combined form: momentum * v + decay * w beside v.

    Attributes:
        parameter: the weight w.
        momentum: not 0.
        decay: the weight decay.
    """

    parameter: str = ""
    momentum: float = 0.9
    decay: float = 0.0

    def to_device(self, array: Array, read: Read) -> Array | None:
        weight = read(self.parameter).astype(np.float32)
        return (self.momentum * array + self.decay * weight).astype(self.dtype)

    def to_scope(self, array: Array, read: Read) -> Array:
        weight = read(self.parameter).astype(np.float32)
        return (array.astype(np.float32) - self.decay * weight) / np.float32(self.momentum)

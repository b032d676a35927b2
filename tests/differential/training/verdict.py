"""Whether two runs of a training differ by more than rounding.

Two right evaluations differ in their roundings, and a training magnifies that by a factor that no
fixed tolerance knows. So Paddle trains again with weights, feeds, layers' results and gradients
that are changed in their last place, and in double precision, which shows where a kernel itself is
off, as ``exp(x) - 1`` of small numbers.
With ``y`` its plain result, ``y_k`` those of the others and ``g`` that of the IPU,

    |g - y| <= max_k FACTOR[p_k] * |y_k - y| + LEAST * |y|     (Euclidean norms of whole tensors)

where ``p_k`` is how many last places the numbers of a run are changed by: one, or, where a rule
has steps that one does not reach, as where an optimizer goes by a gradient's sign, several.

In half, gradients below its smallest number become 0: as many elements may be off by that each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.differential.training.recipe import GRADIENT

Arrays = dict[str, np.ndarray]

FACTOR = {1: 8.0, 8: 2.0}
"""By how many last places numbers were changed."""
LEAST = {False: 1e-6, True: 2e-3}
"""Of the expected tensor's norm, in float32 and in half."""
LARGEST = {False: 1e15, True: 65504.0}
"""Beyond it a training has diverged: in float32 some squares later is infinity, in half now."""
SMALLEST = {False: 0.0, True: 2.0**-24}
UNIT = {False: 2.0**-23, True: 2.0**-11}
"""By how much of itself a number is changed: its last place, or that of half."""
NOTHING = {False: 1e-7, True: 1e-2}
"""Of the largest gradient's mean square, in float32 and in half: less is rounding."""


@dataclass(frozen=True)
class Other:
    """Another answer of Paddle's to a training.

    Attributes:
        arrays: its results.
        places: last places that numbers were changed by.
    """

    arrays: Arrays
    places: int = 1


class Nudge:
    """Changes each float by some times :data:`UNIT`, up or down at random.

    Args:
        half: whether by the last place of half.
        seed: of the draws.
        places: how many times that.
    """

    def __init__(self, half: bool, seed: int, places: int = 1) -> None:
        self._half, self._unit = half, places * UNIT[half]
        self._rng = np.random.default_rng(seed)

    def __call__(self, arrays: Arrays) -> Arrays:
        """The arrays, changed."""
        return {name: self._changed(array) for name, array in arrays.items()}

    def of_gradients(self, gradients: Arrays, loss: float) -> Arrays:
        """Gradients of a micro-batch with a loss, changed."""
        largest = max((_size(array) for array in gradients.values()), default=0.0)
        if largest <= NOTHING[False] * abs(loss):
            # In all of them terms cancel.
            largest = abs(loss)
        return {name: self._of_gradient(array, largest) for name, array in gradients.items()}

    def _of_gradient(self, gradient: np.ndarray, largest: float) -> np.ndarray:
        """One, changed; where its terms cancel, they were as large as those elsewhere in it.

        A gradient that is nothing beside the others is what is left of terms like theirs, as that
        of an attention's key bias: whatever rounding leaves, which most optimizers scale up, or
        nothing at all, for which some have a rule of their own.
        """
        size, nothing = _size(gradient), NOTHING[self._half] * largest
        if size <= nothing:
            if self._rng.random() < 0.5:
                return np.zeros_like(gradient)
            size = nothing / UNIT[self._half]
        return np.float32(gradient + self._steps(gradient) * (np.abs(gradient) + size))

    def _changed(self, array: np.ndarray) -> np.ndarray:
        if array.dtype != np.float32:
            return array
        return np.float32(array * (1 + self._steps(array)))

    def _steps(self, array: np.ndarray) -> np.ndarray:
        return self._unit * self._rng.choice([-1.0, 1.0], array.shape)


def _size(array: np.ndarray) -> float:
    """The root of the mean of squares."""
    return norm(array) / float(np.sqrt(max(array.size, 1)))


def norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(array, np.float64)))


def diverged(arrays: Arrays, half: bool, scale: float = 1.0) -> bool:
    """Whether some number is not finite, or so large that soon none is.

    Args:
        arrays: results of a training.
        half: whether anything is computed in half.
        scale: of the loss, and so of gradients while they are computed.
    """
    return any(
        not np.all(np.abs(array) * (scale if name.startswith(GRADIENT) else 1) <= LARGEST[half])
        for name, array in arrays.items()
        if array.dtype.kind == "f"
    )


def noise_of(name: str, expected: np.ndarray, others: Sequence[Other]) -> float:
    """How far a tensor may be off by Paddle's other answers."""
    return max(
        (
            FACTOR[other.places] * norm(np.float64(other.arrays[name]) - expected)
            for other in others
        ),
        default=0.0,
    )


def off(got: np.ndarray, expected: np.ndarray, noise: float, half: bool) -> str:
    """What is wrong with a tensor, "" if nothing is.

    Args:
        got: the IPU's.
        expected: Paddle's.
        noise: how far off it may be by Paddle's other answers.
        half: whether anything is computed in half.
    """
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if not half and got.dtype != expected.dtype:
        return f"dtype {got.dtype}, expected {expected.dtype}"
    error = norm(np.float64(got) - expected)
    lost = SMALLEST[half] * np.sqrt(expected.size)
    if error <= noise + LEAST[half] * norm(expected) + lost:
        return ""
    return f"error {error:.3g}, bound {noise:.3g}, norm {norm(expected):.3g}"

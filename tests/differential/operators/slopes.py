"""Gradients from differences of Paddle's results, for where its own gradient is not a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.differential.operators.neighbours import retyped
from tests.differential.operators.program import write
from tests.differential.operators.use import Array, Case

MOST = 6
"""How many numbers of a gradient are tried."""

_STEP = 1e-4
_TOLERANCE = 1e-3


def stepped(case: Case, fetch: str, place: Sequence[int]) -> list[Case]:
    """The case forward and in double precision, with one number a step less, and a step more.

    Args:
        case: a training.
        fetch: ``gradient of`` and the operand's name.
        place: of the number in the operand.
    """
    double = replace(retyped(case, "float32", "float64"), training=False)
    number, _, slot = fetch.removeprefix("gradient of ").partition("_")
    at = int(number)
    made = []
    for sign in (-1.0, 1.0):
        use = double.steps[at]
        for name, index, tensor in list(use.tensors()):
            if slot in (name, f"{name}_{index}"):
                array = tensor.array.copy()
                array[tuple(place)] += sign * _step(array[tuple(place)])
                use = use.with_operand(name, index, replace(tensor, array=array))
        made.append(replace(double, steps=(*double.steps[:at], use, *double.steps[at + 1 :])))
    return made


def slopes(
    case: Case, fetch: str, places: Sequence[Sequence[int]], results: Sequence[Mapping[str, Array]]
) -> Array:
    """The slope of a training's loss at some numbers of an operand; NaN where it has none.

    Args:
        case: the training.
        fetch: ``gradient of`` and the operand's name.
        places: of the numbers.
        results: of the cases that `stepped` gives for each.
    """
    weights = {
        name.rpartition("_")[2]: array
        for name, array in write([case]).feed.items()
        if "_cotangent_" in name
    }

    def loss(outputs: Mapping[str, Array]) -> float:
        terms = (outputs.get(f"output {at}", np.nan) * array for at, array in weights.items())
        return float(sum(np.sum(term) for term in terms))

    with np.errstate(all="ignore"):
        rises = [
            loss(above) - loss(below)
            for below, above in zip(results[::2], results[1::2], strict=True)
        ]
        number, _, slot = fetch.removeprefix("gradient of ").partition("_")
        array = next(
            tensor.array
            for name, at, tensor in case.steps[int(number)].tensors()
            if slot in (name, f"{name}_{at}")
        )
        return np.asarray(
            [
                rise / (2 * _step(array[tuple(place)]))
                for rise, place in zip(rises, places, strict=True)
            ]
        )


def is_slope(got: Array, slope: Array) -> bool:
    """Whether numbers are those of differences, but for the error of differences."""
    return bool(np.allclose(got, slope, rtol=_TOLERANCE, atol=_TOLERANCE))


def _step(number: float) -> float:
    return _STEP * max(1.0, abs(float(number)))

"""How far rounding alone moves a tensor, measured by Paddle's own kernels.

Two right float32 evaluations of a program differ: they add in another order, and what they read
differs in its last bit. How much of that reaches a tensor is its condition, which no fixed
tolerance knows: digits that cancel, long sums and small gradients of large terms magnify it. So
Paddle runs again, :data:`RUNS` times, with every float of the feeds and variables one unit in the
last place up or down at random. Each run rounds anew wherever it rounds. With ``y`` the plain run
and ``y_k`` the nudged ones, the noise of element i and its typical size are

    s_i = sqrt(mean_k (y_k[i] - y[i])^2),    s = rms_i min(s_i, 8 median of the s_i that are not 0)

and an error e_i = max(|got_i - y_i| - atol - rtol |y_i|, 0) is rounding where

    e_i <= ELEMENT * max(s_i, s) for every i,    and    |e| <= WHOLE * |(s_i)|  (Euclidean norms).

The same holds of each operator by itself, whose operands are nudged; nothing is rounding while one
of them is wrong for what it reads. The first condition finds a fault in one element, the second one
that is spread thin. The typical size is there because few runs sometimes miss that an element is
noisy at all, the median because a few elements that are very noisy must not excuse the others. The
idea is stochastic arithmetic: D. S. Parker, Monte Carlo Arithmetic, 1997; J. Vignes, A stochastic
arithmetic for reliable scientific computation, 1993.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

RUNS = 5
"""How often Paddle runs with nudged inputs."""
ELEMENT = 32.0
"""What an element's error may be, in its noise."""
WHOLE = 8.0
"""What the norm of a tensor's errors may be, in that of its noise."""

_BITS = {"float32": (np.int32, 0x7FF), "float64": (np.int64, 0xFFFFFF)}
_NOISY = 8.0


def nudged(arrays: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The arrays with each float32 and float64 one unit in the last place up or down.

    Numbers whose last bits are all 0 stay: small whole numbers, masks and constants such as 0.5 are
    meant exactly, and programs compare with them.
    """
    random = np.random.default_rng(seed)
    return {name: _nudged(array, random) for name, array in arrays.items()}


def _nudged(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.name not in _BITS:
        return array
    whole, last = _BITS[array.dtype.name]
    array = np.asarray(array, order="C")
    draws = np.frombuffer(random.bytes(-(-array.size // 8)), np.uint8)
    # As whole numbers, a float and its neighbour differ by one.
    step = np.unpackbits(draws, count=array.size).view(np.int8).reshape(array.shape)
    step <<= 1
    step -= 1
    bits = array.view(whole)
    step *= ((bits & whole(last)) != 0) & np.isfinite(array)
    return np.asarray((bits + step).view(array.dtype))


def noise(expected: Array, runs: Sequence[Array]) -> Array:
    """s_i of each element; nudged results that are not finite do not count.

    Args:
        expected: y, the plain run's tensor.
        runs: y_k, the same tensor of each nudged run.
    """
    y = np.asarray(expected, np.float64)
    squares = np.zeros(y.shape)
    for run in runs:
        with np.errstate(invalid="ignore", over="ignore"):
            moved = np.asarray(run, np.float64) - y
        squares += np.where(np.isfinite(moved), moved, 0.0) ** 2
    return np.asarray(np.sqrt(squares / max(len(runs), 1)))


def is_rounding(excess: Array, of_elements: Array) -> bool:
    """Whether errors are no more than rounding makes.

    Args:
        excess: e_i, by how much each element is out of tolerance.
        of_elements: s_i, as :func:`noise` gives it.
    """
    if not np.isfinite(excess).all():
        return False
    moving = of_elements[of_elements > 0]
    if not moving.size:
        return not excess.any()
    most = _NOISY * float(np.median(moving))
    typical = float(np.sqrt(np.mean(np.square(np.minimum(of_elements, most)))))
    return bool(
        (excess <= ELEMENT * np.maximum(of_elements, typical)).all()
        and np.linalg.norm(excess) <= WHOLE * np.linalg.norm(of_elements)
    )

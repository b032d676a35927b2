"""Cases next to a case: what Paddle gives for them says how far rounding may go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.differential.operators.use import Array, Case, DType, Result, Tensor, Use

MOVES = 3
"""In how many ways operands change, each in both directions."""


def has_dtype(case: Case, dtype: str) -> bool:
    """Whether an operand has a dtype."""
    return any(tensor.dtype == dtype for use in case.steps for _, _, tensor in use.tensors())


def retyped(case: Case, old: str, new: str) -> Case:
    """The case with one dtype of floats where it has another."""

    def of_use(use: Use) -> Use:
        for name, at, tensor in list(use.tensors()):
            if tensor.dtype == old:
                made = Tensor(tensor.array.astype(new), new, tensor.constant)
                use = use.with_operand(name, at, made)
        attributes = {
            name: DType(new) if value == DType(old) else value
            for name, value in use.attributes.items()
        }
        return replace(use, attributes=attributes)

    return replace(case, steps=tuple(map(of_use, case.steps)))


def without_denormals(case: Case) -> Case:
    """The case with zeros where float32 numbers, or halves of them, are too small to be normal."""

    def of_use(use: Use) -> Use:
        for name, at, tensor in list(use.tensors()):
            if tensor.dtype == "float32":
                is_denormal = np.abs(tensor.array) < 2 * np.finfo(np.float32).tiny
                array = np.where(is_denormal, np.copysign(0, tensor.array), tensor.array)
                array = array.astype(np.float32)
                use = use.with_operand(name, at, replace(tensor, array=array))
        return use

    return replace(case, steps=tuple(map(of_use, case.steps)))


def last_alone(case: Case, results: Sequence[Mapping[str, Array]]) -> Case:
    """The last operator of a case, of what the earlier ones gave.

    Args:
        case: of several operators.
        results: of each but the last, name of a fetch -> its value.
    """
    use = case.steps[-1]
    for name, operands in use.operands.items():
        for at, operand in enumerate(operands if isinstance(operands, tuple) else (operands,)):
            if isinstance(operand, Result):
                array = results[operand.step][f"output {operand.output}"]
                use = use.with_operand(name, at, _tensor(array))
    return replace(case, steps=(use,))


def _tensor(array: Array) -> Tensor:
    name = array.dtype.name
    return Tensor(array.astype(np.float32) if name == "bfloat16" else array, name)


def shaken(case: Case) -> Iterator[Case]:
    """The case with matrices changed by the rounding of orthogonal transformations, at random.

    Each element, a zero too, may be off by last places of its column's largest (N. Higham, Accuracy
    and Stability of Numerical Algorithms, chapter 19.3).
    """

    def of_use(use: Use, random: np.random.Generator) -> Use:
        for name, at, tensor in list(use.tensors()):
            is_matrix = tensor.dtype in ("float32", "float64") and tensor.array.ndim > 1
            if is_matrix and tensor.array.size:
                single = tensor.array.astype(np.float32)
                largest = np.abs(single).max(-2, keepdims=True)
                with np.errstate(all="ignore"):
                    array = single + np.spacing(largest) * random.choice([-1, 1], single.shape)
                array = np.where(np.isfinite(array), array, single).astype(tensor.array.dtype)
                use = use.with_operand(name, at, replace(tensor, array=array))
        return use

    for seed in range(2 * MOVES):
        random = np.random.default_rng(seed)
        yield replace(case, steps=tuple(of_use(use, random) for use in case.steps))


def moved(case: Case) -> Iterator[Case]:
    """The case with finite numbers changed in their last bits, as by the rounding of sums of them.

    The error of a sum of n terms grows like the root of n (N. Higham, Accuracy and Stability of
    Numerical Algorithms, chapter 4.5): numbers move by that many of float32's last places, up or
    down at random, and then all away from zero or towards it.
    """

    def of_use(use: Use, random: np.random.Generator | None, sign: float) -> Use:
        for name, at, tensor in list(use.tensors()):
            if tensor.dtype in ("float32", "float64"):
                single = tensor.array.astype(np.float32)
                signs = np.sign(single) if random is None else random.choice([-1, 1], single.shape)
                with np.errstate(all="ignore"):
                    array = single + np.float32(sign * steps) * signs * np.spacing(np.abs(single))
                kept = ~(np.isfinite(single) & np.isfinite(array))
                array = np.where(kept, tensor.array, array).astype(tensor.array.dtype)
                use = use.with_operand(name, at, replace(tensor, array=array))
        return use

    sizes = [tensor.array.size for use in case.steps for _, _, tensor in use.tensors()]
    steps = max(1, round(max(sizes, default=1) ** 0.5))
    for seed in (*range(MOVES), None):
        for sign in (1.0, -1.0):
            random = None if seed is None else np.random.default_rng(seed)
            yield replace(case, steps=tuple(of_use(use, random, sign) for use in case.steps))

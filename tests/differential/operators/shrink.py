"""Makes a case smaller while it still shows the same finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.differential.operators.use import Array, Case, Operands, Tensor, Use

ROUNDS = 8
MOST_CANDIDATES = 24

Titles = Callable[[Sequence[Case]], Sequence[str]]


def shrunk(case: Case, title: str, titles_of: Titles) -> Case:
    """The smallest case met that has the same title.

    Args:
        case: where to begin.
        title: the finding's.
        titles_of: gives each case's finding, "" for none.
    """
    for _ in range(ROUNDS):
        candidates = list(_smaller(case))[:MOST_CANDIDATES]
        same = [
            candidate
            for candidate, other in zip(candidates, titles_of(candidates), strict=True)
            if other == title
        ]
        if not same:
            return case
        case = min(same, key=lambda candidate: candidate.size)
    return case


def _smaller(case: Case) -> Iterator[Case]:
    if case.block:
        yield replace(case, block="")
    if case.training:
        yield replace(case, training=False)
    if len(case.steps) > 1 and all(isinstance(o, Tensor) for o in _flat(case.steps[-1])):
        yield replace(case, steps=case.steps[-1:])
    for at, use in enumerate(case.steps):
        for smaller in _smaller_uses(use):
            if smaller is not use:
                yield replace(case, steps=(*case.steps[:at], smaller, *case.steps[at + 1 :]))


def _flat(use: Use) -> Iterator[Any]:
    for operands in use.operands.values():
        yield from operands if isinstance(operands, tuple) else (operands,)


def _smaller_uses(use: Use) -> Iterator[Use]:
    sizes = sorted({size for _, _, t in use.tensors() for size in t.array.shape}, reverse=True)
    for size in sizes:
        for new in sorted({1, size // 2, size - 1}):
            if 0 < new < size:
                yield _with_arrays(use, lambda array, s=size, n=new: _cut(array, s, n))
    yield _with_arrays(use, lambda array: array[0] if array.shape[:1] > (0,) else array)
    for name, operands in use.operands.items():
        if isinstance(operands, tuple) and len(operands) > 1:
            yield replace(use, operands={**use.operands, name: operands[:1]})
        elif operands is not None and not isinstance(operands, tuple):
            without: dict[str, Operands] = {**use.operands, name: None}
            yield replace(use, operands=without)
    yield _with_arrays(use, lambda array: np.ones_like(array))
    yield _with_arrays(use, _rounded)


def _with_arrays(use: Use, change: Callable[[Array], Array]) -> Use:
    for name, at, tensor in list(use.tensors()):
        use = use.with_operand(name, at, replace(tensor, array=np.asarray(change(tensor.array))))
    return use


def _cut(array: Array, size: int, new: int) -> Array:
    return array[tuple(slice(new) if length == size else slice(None) for length in array.shape)]


def _rounded(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        return np.where(np.abs(array) < 100, np.round(array, 1), array).astype(array.dtype)

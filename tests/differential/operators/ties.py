"""Results that say which elements were taken: of equal ones, any may be."""

from __future__ import annotations

import numpy as np

from tests.differential.operators.use import Array, Case

_TAKES = frozenset({"topk", "topk_v2", "top_k", "top_k_v2"})


def same_but_for_ties(case: Case, what: str, got: Array, expected: Array) -> bool:
    """Whether a result takes other elements than Paddle's, but equal ones, and each once.

    Of positions, the elements there are compared; of a gradient, its sum over equal elements.

    Args:
        what: the name of the result.
        got: ours.
        expected: Paddle's, of the same shape.
    """
    use = case.steps[-1]
    tensors = {name.lower(): tensor for name, _, tensor in use.tensors()}
    if use.op not in _TAKES or "x" not in tensors or not tensors["x"].array.ndim:
        return False
    array, axis = tensors["x"].array, int(use.attributes.get("axis", -1))
    if what.startswith("gradient"):
        if got.shape != array.shape:
            return False
        sums = (_sums_of_equals(array, gradient, axis) for gradient in (got, expected))
        return bool(np.allclose(*sums, rtol=1e-6, atol=0, equal_nan=True))
    if got.dtype.kind not in "iu" or not _are_distinct(got, axis, array.shape[axis]):
        return False
    ours, paddles = (np.take_along_axis(array, places, axis) for places in (got, expected))
    return bool(np.array_equal(ours, paddles, equal_nan=array.dtype.kind == "f"))


def _are_distinct(places: Array, axis: int, size: int) -> bool:
    ordered = np.sort(places, axis)
    in_range = bool(((places >= 0) & (places < size)).all())
    return in_range and bool((np.diff(ordered, axis=axis) > 0).all())


def _sums_of_equals(array: Array, gradient: Array, axis: int) -> Array:
    """Of each element the sum of the gradients of those along the axis that are equal to it."""
    array, gradient = (np.moveaxis(each, axis, -1) for each in (array, gradient))
    left, right = array[..., :, None], array[..., None, :]
    equal = (left == right) | ((left != left) & (right != right))
    return np.asarray(np.where(equal, gradient[..., None, :], 0.0).sum(-1))

"""Activations in NumPy, as the oracles of several families of cases need them."""

from __future__ import annotations

import numpy as np

from tests.operators.operator_case import Array


def relu(x: Array) -> Array:
    """The larger of x and 0."""
    return np.maximum(x, 0)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return np.asarray(1 / (1 + np.exp(-x)))


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``."""
    return np.asarray(x / (1 + np.exp(-x)))

"""Lowers PopART programs to XLA through JAX; the only package that imports JAX."""

from __future__ import annotations

import numpy as np

# JAX draws a number when it is imported; whoever seeded NumPy before the first compilation counts
# on the next one.
_state = np.random.get_state()
import jax as _jax  # noqa: E402, F401

np.random.set_state(_state)

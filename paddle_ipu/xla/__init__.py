"""Lowers PopART programs to XLA through JAX; the only room that imports JAX."""

from __future__ import annotations

import logging

import numpy as np

from paddle_ipu.errors import PaddleIpuError, popart_exception

# JAX draws a number when it is imported; whoever seeded NumPy before the first compilation counts
# on the next one.
_state = np.random.get_state()
import jax as _jax  # noqa: E402, F401

np.random.set_state(_state)

# JAX reports at INFO each accelerator that is not there, and each change of its cache; Paddle's
# root logger would print it.
for _name in ("jax._src.xla_bridge", "jax._src.compilation_cache"):
    logging.getLogger(_name).setLevel(logging.WARNING)


def _is_news(record: logging.LogRecord) -> bool:
    """False for what a call of the host raised on purpose: the run raises it too."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, (PaddleIpuError, popart_exception))


for _name in ("jax._src.callback", "jax._src.debugging"):
    logging.getLogger(_name).addFilter(_is_news)

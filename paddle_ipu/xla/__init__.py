"""Lowers PopART programs to XLA through JAX; the only room that imports JAX."""

from __future__ import annotations

import logging

# JAX reports at INFO each accelerator that is not there, and each change of its cache; Paddle's
# root logger would print it.
for _name in ("jax._src.xla_bridge", "jax._src.compilation_cache"):
    logging.getLogger(_name).setLevel(logging.WARNING)

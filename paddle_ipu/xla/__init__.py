"""Lowers PopART programs to XLA through JAX; the only room that imports JAX."""

from __future__ import annotations

import logging

# JAX looks for every accelerator it knows and reports, at INFO, each one that is not there.
logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)

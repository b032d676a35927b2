"""JAX's settings for a benchmark's step: a cache on disk, and products that are as ours."""

from __future__ import annotations

import jax


def set_up(cache_path: str | None) -> None:
    """Before a step is traced.

    Args:
        cache_path: a folder for JAX's cache of compiled programs.
    """
    if jax.default_backend() != "cpu":
        # As paddle_ipu: a GPU would round the factors of float32 products.
        jax.config.update("jax_default_matmul_precision", "highest")
    if cache_path is not None:
        jax.config.update("jax_compilation_cache_dir", cache_path)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

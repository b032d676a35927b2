"""A mode of training written by hand in JAX, on the model of `bert_jax.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from bert_config import Config, initial_weights
from bert_jax import Weights, adam, loss_of
from jax import lax
from training_mode import Mode, fed_step

_DTYPES = {"fp32": jnp.float32, "fp16": jnp.float16, "bf16": jnp.bfloat16}


def prepare(config: Config, mode: Mode) -> tuple[Callable[[], float], dict[str, Any]]:
    """Compiles the step and puts the weights on the device.

    Micro-batches are a ``lax.scan``, replicas a ``jax.vmap``. Half precision computes on copies of
    the float32 weights, and XLA rounds where it likes. Stages have no counterpart in one process
    and are left out.

    Returns:
        A function that makes one step and returns its loss; seconds by phase, and bytes of
        temporary buffers in the compiled step.
    """
    dtype = _DTYPES[mode.precision]
    feeds = {
        name: jnp.asarray(array).reshape(mode.accumulation, mode.replicas, -1, *array.shape[1:])
        for name, array in fed_step(config, mode).items()
    }

    def loss_in(weights: Weights, batch: dict[str, jax.Array]) -> jax.Array:
        weights = {name: array.astype(dtype) for name, array in weights.items()}
        batch = {**batch, "mask": batch["mask"].astype(dtype)}
        return loss_of(config, weights, batch, mode.recompute).astype(jnp.float32)

    def mean_loss(weights: Weights, batch: dict[str, jax.Array]) -> jax.Array:
        return jnp.mean(jax.vmap(loss_in, in_axes=(None, 0))(weights, batch))

    def step(
        weights: Weights,
        first: Weights,
        second: Weights,
        count: jax.Array,
        feeds: dict[str, jax.Array],
    ) -> tuple[Weights, Weights, Weights, jax.Array, jax.Array]:
        def micro_batch(total: Weights, batch: dict[str, jax.Array]) -> tuple[Weights, jax.Array]:
            loss, gradients = jax.value_and_grad(mean_loss)(weights, batch)
            return jax.tree.map(jnp.add, total, gradients), loss

        zeros = jax.tree.map(jnp.zeros_like, weights)
        total, losses = lax.scan(micro_batch, zeros, feeds)
        gradients = jax.tree.map(lambda g: g / mode.accumulation, total)
        return *adam(weights, gradients, first, second, count), jnp.mean(losses)

    weights = {name: jax.device_put(array) for name, array in initial_weights(config)}
    first, second = (jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    state = (weights, first, second, jnp.zeros((), jnp.float32))
    start = time.perf_counter()
    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3)).lower(*state, feeds).compile()
    seconds = time.perf_counter() - start

    def run() -> float:
        nonlocal state
        results = compiled(*state, feeds)
        state = results[:-1]
        return float(results[-1])

    return run, {"compile": seconds, "temporaries": compiled.memory_analysis().temp_size_in_bytes}

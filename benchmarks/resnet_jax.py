"""ResNet-50's training written by hand in JAX: channels last, one jitted step, weights donated."""

from __future__ import annotations

import time
from itertools import count

import jax
import jax.numpy as jnp
from jax import lax
from jax_settings import set_up
from resnet_config import (
    LEARNING_RATE,
    MOMENTUM,
    NORM_EPSILON,
    NORM_MOMENTUM,
    STEM,
    Config,
    Convolution,
    blocks,
    initial_weights,
    make_batch,
)
from step_turns import Prepared

Arrays = dict[str, jax.Array]


def _loss(weights: Arrays, statistics: Arrays, batch: Arrays) -> tuple[jax.Array, Arrays]:
    """The mean cross entropy; the running statistics behind this batch."""
    numbers, updated = count(), {}

    def convolved(x: jax.Array, convolution: Convolution) -> jax.Array:
        number, (_, _, kernel, stride) = next(numbers), convolution
        padding = [(kernel // 2, kernel // 2)] * 2
        x = lax.conv_general_dilated(
            x,
            weights[f"conv2d_{number}.w_0"],
            (stride, stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        mean = x.mean((0, 1, 2))
        variance = lax.square(x - mean).mean((0, 1, 2))
        name = f"batch_norm2d_{number}"
        for part, value in (("mean", mean), ("variance", variance)):
            old = statistics[f"{name}.{part}"]
            updated[f"{name}.{part}"] = NORM_MOMENTUM * old + (1 - NORM_MOMENTUM) * value
        scale, bias = weights[f"{name}.w_0"], weights[f"{name}.b_0"]
        return (x - mean) * (lax.rsqrt(variance + NORM_EPSILON) * scale) + bias

    x = jax.nn.relu(convolved(batch["image"].transpose(0, 2, 3, 1), STEM))
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
    for shortcut, path in blocks():
        own = x if shortcut is None else convolved(x, shortcut)
        x = jax.nn.relu(convolved(x, path[0]))
        x = jax.nn.relu(convolved(x, path[1]))
        x = jax.nn.relu(convolved(x, path[2]) + own)
    logits = x.mean((1, 2)) @ weights["linear_0.w_0"] + weights["linear_0.b_0"]
    logs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(logs, batch["label"][:, None], axis=-1).mean(), updated


def _step(
    weights: Arrays, velocities: Arrays, statistics: Arrays, batch: Arrays
) -> tuple[Arrays, Arrays, Arrays, jax.Array]:
    """One step of SGD with momentum."""
    (loss, statistics), gradients = jax.value_and_grad(_loss, has_aux=True)(
        weights, statistics, batch
    )
    velocities = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocities, gradients)
    weights = jax.tree.map(lambda w, v: w - LEARNING_RATE * v, weights, velocities)
    return weights, velocities, statistics, loss


def prepare(config: Config, cache_path: str | None) -> Prepared:
    """Compiles the step and puts the weights on the device.

    Args:
        config: the network's input.
        cache_path: a folder for JAX's cache of compiled programs.
    """
    set_up(cache_path)
    weights, statistics = {}, {}
    for name, array in initial_weights(config):
        weights[name] = jnp.asarray(array.transpose(2, 3, 1, 0) if array.ndim == 4 else array)
        if name.startswith("batch_norm") and name.endswith(".w_0"):
            statistics[name.replace("w_0", "mean")] = jnp.zeros(array.shape)
            statistics[name.replace("w_0", "variance")] = jnp.ones(array.shape)
    batch = {
        name: array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        for name, array in make_batch(config).items()
    }
    state = (weights, jax.tree.map(jnp.zeros_like, weights), statistics)
    start, cpu = time.perf_counter(), time.process_time()
    lowered = jax.jit(_step, donate_argnums=(0, 1, 2)).lower(*state, batch)
    traced = time.perf_counter()
    compiled = lowered.compile()
    end, cpu = time.perf_counter(), time.process_time() - cpu

    def step() -> float:
        nonlocal state
        *state, loss = compiled(*state, batch)
        return float(loss)

    phases = {"compile": end - start, "compile CPU": cpu, "trace": traced - start}
    phases["XLA"] = end - traced
    return Prepared(step, phases, compiled.memory_analysis().temp_size_in_bytes)

"""BERT pretraining written by hand in JAX: one jitted step, layers unrolled, weights donated."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
from bert_config import (
    BETA1,
    BETA2,
    EPSILON,
    LEARNING_RATE,
    NORM_EPSILON,
    Config,
    initial_weights,
    make_batch,
    shapes,
)
from jax import lax
from jax_settings import set_up
from step_turns import Prepared

Weights = dict[str, jax.Array]


def _linear(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _norm(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    deviations = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(lax.square(deviations), axis=-1, keepdims=True)
    normal = deviations * lax.rsqrt(variance + NORM_EPSILON)
    return normal * weights[f"{name}.scale"] + weights[f"{name}.bias"]


def _gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    logs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=-1))


def _encoder_layer(
    config: Config, weights: Weights, name: str, x: jax.Array, mask: jax.Array
) -> jax.Array:
    split = (config.batch, config.sequence, config.heads, config.hidden // config.heads)
    query, key, value = (
        _linear(weights, f"{name}.{part}", x).reshape(split) for part in ("query", "key", "value")
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * split[-1] ** -0.5 + mask
    context = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value).reshape(x.shape)
    x = _norm(weights, f"{name}.attention_norm", x + _linear(weights, f"{name}.output", context))
    wide = _gelu(_linear(weights, f"{name}.up", x))
    return _norm(weights, f"{name}.norm", x + _linear(weights, f"{name}.down", wide))


def loss_of(
    config: Config, weights: Weights, batch: dict[str, jax.Array], recompute: bool = False
) -> jax.Array:
    """MLM plus NSP loss of a batch, a scalar; with layers that backward computes again, or not."""
    layer_of = (
        jax.checkpoint(_encoder_layer, static_argnums=(0, 2)) if recompute else _encoder_layer
    )
    word = weights["embedding.word"]
    x = word[batch["tokens"]] + weights["embedding.type"][batch["types"]]
    x = _norm(weights, "embedding.norm", x + weights["embedding.position"][: config.sequence])
    for layer in range(config.layers):
        x = layer_of(config, weights, f"layer{layer}", x, batch["mask"])

    masked = x.reshape(-1, config.hidden)[batch["masked"]]
    masked = _norm(weights, "mlm.norm", _gelu(_linear(weights, "mlm.dense", masked)))
    logits = masked @ word.T + weights["mlm.bias"]
    pooled = jnp.tanh(_linear(weights, "pooler", x[:, 0]))
    return _cross_entropy(logits, batch["labels"]) + _cross_entropy(
        _linear(weights, "nsp", pooled), batch["is_next"]
    )


def _step(
    config: Config,
    weights: Weights,
    first: Weights,
    second: Weights,
    count: jax.Array,
    batch: dict[str, jax.Array],
) -> tuple[Weights, Weights, Weights, jax.Array, jax.Array]:
    """One step of Adam by Paddle's rule."""
    loss, gradients = jax.value_and_grad(lambda w: loss_of(config, w, batch))(weights)
    return *adam(weights, gradients, first, second, count), loss


def adam(
    weights: Weights, gradients: Weights, first: Weights, second: Weights, count: jax.Array
) -> tuple[Weights, Weights, Weights, jax.Array]:
    """Paddle's rule, where epsilon is scaled by sqrt(1 - beta2^t): weights, both moments, t."""
    count = count + 1
    root = jnp.sqrt(1 - BETA2**count)
    rate, epsilon = LEARNING_RATE * root / (1 - BETA1**count), EPSILON * root
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradients)
    weights = jax.tree.map(
        lambda w, m, v: w - rate * (m / (jnp.sqrt(v) + epsilon)), weights, first, second
    )
    return weights, first, second, count


def lowered_step(config: Config) -> jax.stages.Lowered:
    """The step traced and lowered for the shapes of `config`, not compiled."""
    weights = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes(config).items()
    }
    batch = {
        name: jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))
        for name, array in make_batch(config).items()
    }
    count = jax.ShapeDtypeStruct((), jnp.float32)

    def bert_step(*arguments: Weights | jax.Array) -> tuple[Weights | jax.Array, ...]:
        return _step(config, *arguments)

    return jax.jit(bert_step, donate_argnums=(0, 1, 2, 3)).lower(
        weights, weights, weights, count, batch
    )


def prepare(config: Config, cache_path: str | None) -> Prepared:
    """Compiles the step and puts the weights on the device.

    Args:
        config: the model.
        cache_path: a folder for JAX's cache of compiled programs.
    """
    set_up(cache_path)
    weights = {name: jax.device_put(array) for name, array in initial_weights(config)}
    first, second = (jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    start, cpu = time.perf_counter(), time.process_time()
    lowered = lowered_step(config)
    traced = time.perf_counter()
    compiled = lowered.compile()
    end, cpu = time.perf_counter(), time.process_time() - cpu
    batch = {
        name: array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        for name, array in make_batch(config).items()
    }
    state = (weights, first, second, jnp.zeros((), jnp.float32))

    def step() -> float:
        nonlocal state
        results = compiled(*state, batch)
        state = results[:-1]
        return float(results[-1])

    phases = {"trace": traced - start, "XLA": end - traced}
    times = {"compile": end - start, "compile CPU": cpu, **phases}
    return Prepared(step, times, compiled.memory_analysis().temp_size_in_bytes)

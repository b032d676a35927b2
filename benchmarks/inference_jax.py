"""The models of ``inference.py`` written by hand in JAX, channels last, on the saved weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bert_config import NORM_EPSILON
from inference_models import (
    HEADS,
    LLAMA_HEADS,
    LLAMA_LAYERS,
    PATCH,
    RMS_EPSILON,
    SLOTS,
    VIT_HEADS,
    Arrays,
    parameters_of,
)
from jax import lax

Weights = dict[str, jax.Array]

_BLOCKS = (3, 4, 6, 3)


def _linear(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _norm(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    deviations = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(lax.square(deviations), axis=-1, keepdims=True)
    normal = deviations * lax.rsqrt(variance + NORM_EPSILON)
    return normal * weights[f"{name}.scale"] + weights[f"{name}.bias"]


def _add(weights: Weights, feeds: Weights) -> jax.Array:
    return feeds["x"] + weights["bias"]


def _word2vec(weights: Weights, feeds: Weights) -> jax.Array:
    joined = jnp.concatenate([weights["table"][feeds[slot][:, 0]] for slot in SLOTS], axis=1)
    hidden = jax.nn.sigmoid(_linear(weights, "hidden", joined))
    return jax.nn.softmax(_linear(weights, "out", hidden))


def _bert(weights: Weights, feeds: Weights) -> jax.Array:
    x = weights["embedding.word"][feeds["tokens"]] + weights["embedding.type"][feeds["types"]]
    x = _norm(weights, "embedding.norm", x + weights["embedding.position"])
    layers = sum(name.endswith(".query.weight") for name in weights)
    for number in range(layers):
        x = _layer(weights, f"layer{number}", x)
    return _linear(weights, "classes", jnp.tanh(_linear(weights, "pooler", x[:, 0])))


def _layer(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    x = _norm(weights, f"{name}.attention_norm", x + _attention(weights, name, x, HEADS))
    return _norm(weights, f"{name}.norm", x + _feed_forward(weights, name, x))


def _attention(weights: Weights, name: str, x: jax.Array, heads: int) -> jax.Array:
    query, key, value = (
        _linear(weights, f"{name}.{part}", x).reshape(*x.shape[:2], heads, -1)
        for part in ("query", "key", "value")
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * query.shape[-1] ** -0.5
    context = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value).reshape(x.shape)
    return _linear(weights, f"{name}.output", context)


def _feed_forward(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    wide = jax.nn.gelu(_linear(weights, f"{name}.up", x), approximate=False)
    return _linear(weights, f"{name}.down", wide)


def _vit(weights: Weights, feeds: Weights) -> jax.Array:
    x = lax.conv_general_dilated(
        feeds["image"].transpose(0, 2, 3, 1), weights["patches.weight"], (PATCH, PATCH), "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    x = (x + weights["patches.bias"]).reshape(len(x), -1, x.shape[-1]) + weights["position"]
    for number in range(sum(name.endswith(".query.weight") for name in weights)):
        name = f"layer{number}"
        normal = _norm(weights, f"{name}.attention_norm", x)
        x = x + _attention(weights, name, normal, VIT_HEADS)
        x = x + _feed_forward(weights, name, _norm(weights, f"{name}.norm", x))
    return _linear(weights, "classes", _norm(weights, "norm", x).mean(1))


def _llama(weights: Weights, feeds: Weights) -> list[jax.Array]:
    def normal(name: str, x: jax.Array) -> jax.Array:
        square = jnp.mean(lax.square(x), axis=-1, keepdims=True)
        return x * lax.rsqrt(square + RMS_EPSILON) * weights[f"{name}.scale"]

    cosines, sines = (
        weights[f"rotary.{part}"][feeds["position"]][:, None] for part in ("cos", "sin")
    )

    def rotated(x: jax.Array) -> jax.Array:
        first, second = jnp.split(x, 2, axis=-1)
        return x * cosines + jnp.concatenate([-second, first], axis=-1) * sines

    x = weights["words"][feeds["token"]]
    grown = []
    for number in range(LLAMA_LAYERS):
        name = f"layer{number}"
        before = normal(f"{name}.attention_norm", x)
        query, key, value = (
            (before @ weights[f"{name}.{part}.weight"]).reshape(len(x), LLAMA_HEADS, 1, -1)
            for part in ("query", "key", "value")
        )
        keys = jnp.concatenate([feeds[f"key{number}"], rotated(key)], axis=2)
        values = jnp.concatenate([feeds[f"value{number}"], value], axis=2)
        scores = jnp.einsum("bhqd,bhkd->bhqk", rotated(query), keys) * keys.shape[-1] ** -0.5
        context = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), values)
        x = x + context.reshape(x.shape) @ weights[f"{name}.output.weight"]
        before = normal(f"{name}.norm", x)
        gate = jax.nn.silu(before @ weights[f"{name}.gate.weight"])
        wide = gate * (before @ weights[f"{name}.up.weight"])
        x = x + wide @ weights[f"{name}.down.weight"]
        grown += [keys, values]
    return [normal("norm", x) @ weights["logits.weight"], *grown]


class _ResNet:
    """ResNet-50; Paddle numbers its convolutions, and a block's shortcut comes first."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._next = 0

    def __call__(self, image: jax.Array) -> jax.Array:
        x = jax.nn.relu(self._convolved(image.transpose(0, 2, 3, 1), 2, 3))
        pads = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
        for group, blocks in enumerate(_BLOCKS):
            for block in range(blocks):
                stride = 2 if group and not block else 1
                shortcut = x if block else self._convolved(x, stride, 0)
                wide = jax.nn.relu(self._convolved(x, 1, 0))
                wide = jax.nn.relu(self._convolved(wide, stride, 1))
                x = jax.nn.relu(self._convolved(wide, 1, 0) + shortcut)
        weights = self._weights
        return x.mean((1, 2)) @ weights["linear_0.w_0"] + weights["linear_0.b_0"]

    def _convolved(self, x: jax.Array, stride: int, padding: int) -> jax.Array:
        """A convolution without bias and the batch norm behind it."""
        number, self._next = self._next, self._next + 1
        pads = ((padding, padding), (padding, padding))
        x = lax.conv_general_dilated(
            x,
            self._weights[f"conv2d_{number}.w_0"],
            (stride, stride),
            pads,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        scale, bias, mean, variance = (
            self._weights[f"batch_norm2d_{number}.{part}"] for part in ("w_0", "b_0", "w_1", "w_2")
        )
        factor = scale * lax.rsqrt(variance + 1e-5)
        return x * factor + (bias - mean * factor)


def _resnet50(weights: Weights, feeds: Weights) -> jax.Array:
    return _ResNet(weights)(feeds["image"])


_MODELS: dict[str, Callable[[Weights, Weights], Any]] = {
    "add": _add,
    "word2vec": _word2vec,
    "resnet50": _resnet50,
    "bert": _bert,
    "vit": _vit,
    "llama": _llama,
}


def prepare(name: str, prefix: Path, feeds: Arrays) -> Callable[[], Any]:
    """A compiled model with its weights on the device; a call gives the first result."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    weights = {key: _on_device(array) for key, array in parameters_of(prefix).items()}
    given = {
        key: array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        for key, array in feeds.items()
    }
    model = _MODELS[name.partition("-")[0]]
    compiled = jax.jit(model).lower(weights, given).compile()
    return lambda: [np.asarray(each) for each in jax.tree.leaves(compiled(weights, given))][0]


def _on_device(array: np.ndarray) -> jax.Array:
    """Kernels of convolutions channels last, everything else as it is."""
    return jnp.asarray(array.transpose(2, 3, 1, 0) if array.ndim == 4 else array)

"""The models of ``inference.py`` in eager torch, on the saved weights; attention is SDPA."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from bert_torch import Weights, attention, encoder_layer, linear, norm
from inference_models import (
    HEADS,
    LLAMA_HEADS,
    LLAMA_LAYERS,
    RMS_EPSILON,
    SLOTS,
    VIT_HEADS,
    parameters_of,
)
from torch.nn import functional

if TYPE_CHECKING:
    import numpy as np
    from inference_models import Arrays

_BLOCKS = (3, 4, 6, 3)


def _word2vec(weights: Weights, feeds: Weights) -> list[torch.Tensor]:
    words = [functional.embedding(feeds[slot], weights["table"]).flatten(1) for slot in SLOTS]
    hidden = torch.sigmoid(linear(weights, "hidden", torch.cat(words, 1)))
    return [torch.softmax(linear(weights, "out", hidden), -1)]


def _resnet50(weights: Weights, feeds: Weights) -> list[torch.Tensor]:
    """Paddle numbers its convolutions, and a block's shortcut comes first."""
    numbers = count()

    def convolved(x: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
        number = next(numbers)
        x = functional.conv2d(x, weights[f"conv2d_{number}.w_0"], None, stride, padding)
        scale, bias, mean, variance = (
            weights[f"batch_norm2d_{number}.{part}"] for part in ("w_0", "b_0", "w_1", "w_2")
        )
        return functional.batch_norm(x, mean, variance, scale, bias, eps=1e-5)

    x = feeds["image"].to(memory_format=torch.channels_last)
    x = functional.max_pool2d(torch.relu(convolved(x, 2, 3)), 3, 2, 1)
    for group, blocks in enumerate(_BLOCKS):
        for block in range(blocks):
            stride = 2 if group and not block else 1
            shortcut = x if block else convolved(x, stride, 0)
            wide = torch.relu(convolved(x, 1, 0))
            wide = torch.relu(convolved(wide, stride, 1))
            x = torch.relu(convolved(wide, 1, 0) + shortcut)
    return [torch.addmm(weights["linear_0.b_0"], x.mean((2, 3)), weights["linear_0.w_0"])]


def _bert(weights: Weights, feeds: Weights) -> list[torch.Tensor]:
    x = functional.embedding(feeds["tokens"], weights["embedding.word"])
    x = x + functional.embedding(feeds["types"], weights["embedding.type"])
    x = norm(weights, "embedding.norm", x + weights["embedding.position"])
    for number in range(sum(name.endswith(".query.weight") for name in weights)):
        x = encoder_layer(weights, f"layer{number}", x, HEADS)
    return [linear(weights, "classes", torch.tanh(linear(weights, "pooler", x[:, 0])))]


def _vit(weights: Weights, feeds: Weights) -> list[torch.Tensor]:
    kernel = weights["patches.weight"]
    x = functional.conv2d(feeds["image"], kernel, weights["patches.bias"], kernel.shape[2:])
    x = x.flatten(2).transpose(1, 2) + weights["position"]
    for number in range(sum(name.endswith(".query.weight") for name in weights)):
        name = f"layer{number}"
        normal = norm(weights, f"{name}.attention_norm", x)
        x = x + attention(weights, name, normal, VIT_HEADS)
        wide = functional.gelu(linear(weights, f"{name}.up", norm(weights, f"{name}.norm", x)))
        x = x + linear(weights, f"{name}.down", wide)
    return [linear(weights, "classes", norm(weights, "norm", x).mean(1))]


def _llama(weights: Weights, feeds: Weights) -> list[torch.Tensor]:
    def normal(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], weights[f"{name}.scale"], RMS_EPSILON)

    cosines, sines = (
        functional.embedding(feeds["position"], weights[f"rotary.{part}"])[:, None]
        for part in ("cos", "sin")
    )

    def rotated(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cosines + torch.cat([-second, first], -1) * sines

    x = functional.embedding(feeds["token"], weights["words"])
    grown = []
    for number in range(LLAMA_LAYERS):
        name = f"layer{number}"
        before = normal(f"{name}.attention_norm", x)
        query, key, value = (
            (before @ weights[f"{name}.{part}.weight"]).unflatten(-1, (LLAMA_HEADS, -1))
            for part in ("query", "key", "value")
        )
        keys = torch.cat([feeds[f"key{number}"], rotated(key.transpose(1, 2))], 2)
        values = torch.cat([feeds[f"value{number}"], value.transpose(1, 2)], 2)
        query = rotated(query.transpose(1, 2))
        context = functional.scaled_dot_product_attention(query, keys, values)
        x = x + context.transpose(1, 2).flatten(2) @ weights[f"{name}.output.weight"]
        before = normal(f"{name}.norm", x)
        gate = functional.silu(before @ weights[f"{name}.gate.weight"])
        wide = gate * (before @ weights[f"{name}.up.weight"])
        x = x + wide @ weights[f"{name}.down.weight"]
        grown += [keys, values]
    return [normal("norm", x) @ weights["logits.weight"], *grown]


MODELS = {
    "word2vec": _word2vec,
    "resnet50": _resnet50,
    "bert": _bert,
    "vit": _vit,
    "llama": _llama,
}


def prepare(name: str, prefix: Path, feeds: Arrays) -> Callable[[], np.ndarray]:
    """A model with its weights; a call gives its first result as an array."""
    torch.set_num_threads(os.cpu_count() or 1)
    weights = {key: _tensor(array) for key, array in parameters_of(prefix).items()}
    given = {key: torch.from_numpy(array) for key, array in feeds.items()}
    model = MODELS[name.partition("-")[0]]

    def run() -> np.ndarray:
        with torch.inference_mode():
            results = [result.numpy() for result in model(weights, given)]
        return results[0]

    return run


def _tensor(array: np.ndarray) -> torch.Tensor:
    """Kernels of convolutions channels last."""
    tensor = torch.from_numpy(array)
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

"""BERT pretraining written by hand in torch, eager: attention by SDPA, Adam over all weights."""

from __future__ import annotations

import os

import torch
from bert_config import (
    BETA1,
    BETA2,
    EPSILON,
    LEARNING_RATE,
    NORM_EPSILON,
    Config,
    initial_weights,
    make_batch,
)
from step_turns import Prepared
from torch.nn import functional

Weights = dict[str, torch.Tensor]


def linear(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    """A product with weights [in, out], and their bias."""
    return torch.addmm(
        weights[f"{name}.bias"], x.flatten(0, -2), weights[f"{name}.weight"]
    ).unflatten(0, x.shape[:-1])


def norm(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    """Layer norm of the last axis."""
    scale, bias = weights[f"{name}.scale"], weights[f"{name}.bias"]
    return functional.layer_norm(x, x.shape[-1:], scale, bias, NORM_EPSILON)


def encoder_layer(
    weights: Weights, name: str, x: torch.Tensor, heads: int, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """An encoder layer; x [batch, sequence, hidden], a mask that is added to the scores."""
    x = norm(weights, f"{name}.attention_norm", x + attention(weights, name, x, heads, mask))
    wide = functional.gelu(linear(weights, f"{name}.up", x))
    return norm(weights, f"{name}.norm", x + linear(weights, f"{name}.down", wide))


def attention(
    weights: Weights, name: str, x: torch.Tensor, heads: int, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Attention with the products around it."""
    query, key, value = (
        linear(weights, f"{name}.{part}", x).unflatten(-1, (heads, -1)).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    context = functional.scaled_dot_product_attention(query, key, value, mask)
    return linear(weights, f"{name}.output", context.transpose(1, 2).flatten(2))


def _loss(config: Config, weights: Weights, batch: Weights) -> torch.Tensor:
    """MLM plus NSP loss of a batch, a scalar."""
    word = weights["embedding.word"]
    x = functional.embedding(batch["tokens"], word)
    x = x + functional.embedding(batch["types"], weights["embedding.type"])
    x = norm(weights, "embedding.norm", x + weights["embedding.position"][: config.sequence])
    for layer in range(config.layers):
        x = encoder_layer(weights, f"layer{layer}", x, config.heads, batch["mask"])

    masked = x.flatten(0, 1)[batch["masked"]]
    masked = norm(weights, "mlm.norm", functional.gelu(linear(weights, "mlm.dense", masked)))
    logits = functional.linear(masked, word, weights["mlm.bias"])
    pooled = torch.tanh(linear(weights, "pooler", x[:, 0]))
    return functional.cross_entropy(logits, batch["labels"]) + functional.cross_entropy(
        linear(weights, "nsp", pooled), batch["is_next"]
    )


def prepare(config: Config) -> Prepared:
    """The weights and Adam; nothing is compiled."""
    torch.set_num_threads(os.cpu_count() or 1)
    weights = {
        name: torch.from_numpy(array).requires_grad_() for name, array in initial_weights(config)
    }
    batch = {name: torch.from_numpy(array) for name, array in make_batch(config).items()}
    adam = torch.optim.Adam(weights.values(), LEARNING_RATE, (BETA1, BETA2), EPSILON)

    def step() -> float:
        adam.zero_grad()
        loss = _loss(config, weights, batch)
        loss.backward()
        adam.step()
        return float(loss)

    return Prepared(step, {})

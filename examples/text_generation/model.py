"""A decoder as in LLaMA: RMS norm, rotary positions, grouped queries, SwiGLU, a cache of keys.

The same weights serve two programs. Training reads whole sequences; generation reads one token a
step, with the keys and values of the tokens before it in tensors of a fixed length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes. ``context`` is the longest sequence, in tokens, and the length of the cache."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    context: int
    rotary_base: float = 10000.0
    epsilon: float = 1e-5

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads


@dataclass(frozen=True)
class Cache:
    """Keys and values of a layer, ``[context, rows, kv_heads, head]`` each, kept between steps."""

    keys: Any
    values: Any


class RMSNorm(nn.Layer):
    """``x / sqrt(mean(x^2) + epsilon) * weight``, over the last axis."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.weight = self.create_parameter(
            [config.hidden], default_initializer=nn.initializer.Constant(1.0)
        )
        self.epsilon = config.epsilon

    def forward(self, x: Any) -> Any:
        """The normalised x."""
        mean = paddle.mean(x * x, axis=-1, keepdim=True)
        return x * paddle.rsqrt(mean + self.epsilon) * self.weight


def _linear(width_in: int, width_out: int, scale: float = 1.0) -> Any:
    normal = nn.initializer.Normal(0.0, scale * width_in**-0.5)
    return nn.Linear(width_in, width_out, weight_attr=normal, bias_attr=False)


def rotary_tables(config: DecoderConfig) -> tuple[Any, Any]:
    """Cosines and sines ``[context, 1, head]`` of the angle of each position and channel."""
    channel = np.arange(0, config.head, 2) / config.head
    angles = np.outer(np.arange(config.context), config.rotary_base**-channel)
    angles = np.concatenate([angles, angles], axis=-1)[:, None, :]
    # Constants of the program: the compiler folds what it can of them.
    return tuple(paddle.assign(f(angles).astype(np.float32)) for f in (np.cos, np.sin))


def rotate(x: Any, cosines: Any, sines: Any) -> Any:
    """x ``[..., heads, head]`` turned by its position: pairs (i, i + head / 2) are planes."""
    half = x.shape[-1] // 2
    turned = paddle.concat([-x[..., half:], x[..., :half]], axis=-1)
    return x * cosines + turned * sines


class Attention(nn.Layer):
    """Causal attention; ``heads / kv_heads`` queries share a key."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.kv_heads * config.head
        self.query = _linear(config.hidden, config.hidden)
        self.key = _linear(config.hidden, width)
        self.value = _linear(config.hidden, width)
        self.out = _linear(config.hidden, config.hidden, (2 * config.layers) ** -0.5)

    def _projected(self, x: Any, rotary: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        """Queries, keys and values ``[..., heads, head]`` of x ``[..., hidden]``."""
        config, leading = self.config, list(x.shape[:-1])
        shape = [*leading, config.kv_heads, config.head]
        query = paddle.reshape(self.query(x), [*leading, config.heads, config.head])
        key = paddle.reshape(self.key(x), shape)
        value = paddle.reshape(self.value(x), shape)
        return rotate(query, *rotary), rotate(key, *rotary), value

    def forward(self, x: Any, rotary: tuple[Any, Any], mask: Any) -> Any:
        """Every token of x ``[rows, tokens, hidden]`` looks at itself and those before it."""
        config = self.config
        rows, tokens = x.shape[:2]
        query, key, value = self._projected(x, rotary)
        group = config.heads // config.kv_heads
        # [rows, kv_heads, group x tokens, head]: the queries of a group see the same keys.
        query = paddle.reshape(query, [rows, tokens, config.kv_heads, group, config.head])
        query = paddle.transpose(query, [0, 2, 3, 1, 4])
        key = paddle.unsqueeze(paddle.transpose(key, [0, 2, 3, 1]), 2)
        value = paddle.unsqueeze(paddle.transpose(value, [0, 2, 1, 3]), 2)
        scores = paddle.matmul(query, key) * config.head**-0.5 + mask
        attended = paddle.matmul(functional.softmax(scores), value)
        attended = paddle.transpose(attended, [0, 3, 1, 2, 4])
        return self.out(paddle.reshape(attended, [rows, tokens, config.hidden]))

    def step(self, x: Any, rotary: tuple[Any, Any], mask: Any, position: Any, cache: Cache) -> Any:
        """One new token of each row, x ``[rows, hidden]``, looks at itself and the cached ones."""
        config = self.config
        rows = x.shape[0]
        query, key, value = self._projected(x, rotary)
        keys = paddle.scatter(cache.keys, position, paddle.unsqueeze(key, 0))
        values = paddle.scatter(cache.values, position, paddle.unsqueeze(value, 0))
        group = config.heads // config.kv_heads
        query = paddle.reshape(query, [rows, config.kv_heads, group, config.head])
        scores = paddle.matmul(query, paddle.transpose(keys, [1, 2, 3, 0]))
        weights = functional.softmax(scores * config.head**-0.5 + mask)
        attended = paddle.matmul(weights, paddle.transpose(values, [1, 2, 0, 3]))
        # What is assigned to a persistable variable is there in the next step: on the IPU it stays
        # on the device.
        paddle.assign(keys, output=cache.keys)
        paddle.assign(values, output=cache.values)
        return self.out(paddle.reshape(attended, [rows, config.hidden]))


class SwiGLU(nn.Layer):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate = _linear(config.hidden, config.feed_forward)
        self.up = _linear(config.hidden, config.feed_forward)
        self.down = _linear(config.feed_forward, config.hidden, (2 * config.layers) ** -0.5)

    def forward(self, x: Any) -> Any:
        """The same for every token."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Layer):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config)
        self.attention = Attention(config)
        self.feed_forward_norm = RMSNorm(config)
        self.feed_forward = SwiGLU(config)

    def forward(self, x: Any, rotary: tuple[Any, Any], mask: Any) -> Any:
        """Whole sequences."""
        x = x + self.attention(self.attention_norm(x), rotary, mask)
        return x + self.feed_forward(self.feed_forward_norm(x))

    def step(self, x: Any, rotary: tuple[Any, Any], mask: Any, position: Any, cache: Cache) -> Any:
        """One token."""
        normed = self.attention_norm(x)
        x = x + self.attention.step(normed, rotary, mask, position, cache)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Decoder(nn.Layer):
    """Logits of the next token; the embedding table is the output layer as well."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.table = self.create_parameter(
            [config.vocabulary, config.hidden], default_initializer=nn.initializer.Normal(0.0, 0.02)
        )
        self.blocks = nn.LayerList([Block(config) for _ in range(config.layers)])
        self.norm = RMSNorm(config)

    def _logits(self, x: Any) -> Any:
        return paddle.matmul(self.norm(x), self.table, transpose_y=True)

    def forward(self, tokens: Any) -> Any:
        """Logits ``[rows, context, vocabulary]`` of tokens ``[rows, context]``."""
        length = self.config.context
        mask = paddle.assign(np.triu(np.full((length, length), -1e9, np.float32), 1))
        rotary = rotary_tables(self.config)
        x = functional.embedding(tokens, self.table)
        for block in self.blocks:
            x = block(x, rotary, mask)
        return self._logits(x)

    def step(self, token: Any, position: Any, caches: list[Cache]) -> Any:
        """Logits ``[rows, vocabulary]`` after token ``[rows]``, which stands at position ``[1]``.

        The caches hold the tokens before it; what they hold at later positions is not looked at.
        """
        rotary = tuple(paddle.gather(t, position) for t in rotary_tables(self.config))
        places = paddle.assign(np.arange(self.config.context, dtype=np.int32))
        mask = paddle.cast(paddle.greater_than(places, position), "float32") * -1e9
        x = functional.embedding(token, self.table)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block.step(x, rotary, mask, position, cache)
        return self._logits(x)

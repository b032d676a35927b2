"""Models of sequences: encoder and decoder, recurrent classifiers, a decoder like LLaMA's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import nn

from tests.models.side_by_side import Feed, Model, Models, logits_of

CLASSES, WORDS, WIDTH = 4, 50, 32


def _tokens(batch: int, length: int, labels: int = 1, seed: int = 0) -> Feed:
    rng = np.random.RandomState(seed)
    return {
        "tokens": rng.randint(0, WORDS, (batch, length)).astype(np.int64),
        "y": rng.randint(0, CLASSES, (batch * labels, 1)).astype(np.int64),
    }


class _Transformer(nn.Layer):
    """``paddle.nn.Transformer`` from words to words, with a causal mask for the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.transformer = nn.Transformer(WIDTH, 4, 2, 2, 64, dropout=0.0)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source: Any, target: Any) -> Any:
        length = target.shape[1]
        mask = paddle.to_tensor(np.triu(np.full((length, length), -1e9, np.float32), 1))
        decoded = self.transformer(self.words(source), self.words(target), tgt_mask=mask)
        return self.head(decoded).reshape([-1, WORDS])


def _transformer() -> Model:
    rng = np.random.RandomState(0)
    feed = {
        "source": rng.randint(0, WORDS, (2, 7)).astype(np.int64),
        "target": rng.randint(0, WORDS, (2, 5)).astype(np.int64),
        "y": rng.randint(0, WORDS, (10, 1)).astype(np.int64),
    }
    return Model(_Transformer, feed, logits_of)


class _Recurrent(nn.Layer):
    """Words through a recurrent layer of two directions; the mean over time is classified."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = kind(WIDTH, 16, num_layers=2, direction="bidirect")
        self.head = nn.Linear(32, CLASSES)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.layers(self.words(tokens))[0].mean(axis=1))


def _recurrent(kind: str) -> Callable[[], Model]:
    return lambda: Model(lambda: _Recurrent(getattr(nn, kind)), _tokens(4, 9), logits_of)


class _RmsNorm(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.scale = self.create_parameter(
            [WIDTH], default_initializer=nn.initializer.Constant(1.0)
        )

    def forward(self, x: Any) -> Any:
        return x * paddle.rsqrt(paddle.mean(x * x, axis=-1, keepdim=True) + 1e-6) * self.scale


class _Attention(nn.Layer):
    """Causal attention with rotary positions."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias_attr=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias_attr=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        batch, length, width = x.shape
        packed = self.qkv(x).reshape([batch, length, 3, self.heads, width // self.heads])
        q, k, v = paddle.unbind(packed, axis=2)
        q, k = self._turned(q, cos, sin), self._turned(k, cos, sin)
        q, k, v = (part.transpose([0, 2, 1, 3]) for part in (q, k, v))
        # Paddle 2.6 has no CPU kernel for the causal form of scaled_dot_product_attention.
        mask = paddle.to_tensor(np.triu(np.full((length, length), -1e9, np.float32), 1))
        scores = paddle.matmul(q, k, transpose_y=True) * (width // self.heads) ** -0.5 + mask
        y = paddle.matmul(nn.functional.softmax(scores), v).transpose([0, 2, 1, 3])
        return self.out(y.reshape([batch, length, width]))

    @staticmethod
    def _turned(x: Any, cos: Any, sin: Any) -> Any:
        left, right = paddle.chunk(x, 2, axis=-1)
        return x * cos + paddle.concat([-right, left], axis=-1) * sin


class _Decoder(nn.Layer):
    """Two layers as in LLaMA: RMS normalisation, rotary attention, SwiGLU, no biases."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.LayerList([_DecoderLayer() for _ in range(2)])
        self.norm = _RmsNorm()
        self.head = nn.Linear(WIDTH, WORDS, bias_attr=False)

    def forward(self, tokens: Any) -> Any:
        length, half = tokens.shape[1], WIDTH // 8
        angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(half) / half))
        angles = np.concatenate([angles, angles], axis=-1)[None, :, None].astype(np.float32)
        cos, sin = paddle.to_tensor(np.cos(angles)), paddle.to_tensor(np.sin(angles))
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x)).reshape([-1, WORDS])


class _DecoderLayer(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = _RmsNorm(), _RmsNorm()
        self.attention = _Attention()
        self.gate = nn.Linear(WIDTH, 64, bias_attr=False)
        self.up = nn.Linear(WIDTH, 64, bias_attr=False)
        self.down = nn.Linear(64, WIDTH, bias_attr=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        x = x + self.attention(self.before_attention(x), cos, sin)
        h = self.before_mlp(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


def _llama() -> Model:
    return Model(_Decoder, _tokens(2, 8, labels=8), logits_of)


MODELS: Models = {
    "transformer": _transformer,
    "lstm": _recurrent("LSTM"),
    "gru": _recurrent("GRU"),
    "llama": _llama,
}

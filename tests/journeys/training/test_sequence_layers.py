"""Paddle's recurrent and attention layers train as on Paddle's CPU executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

from tests.journeys.training.side_by_side import build, pair

BATCH, STEPS, WIDTH = 3, 5, 8


def _recurrent(layer: type[Any], **options: Any) -> Callable[[Any], Any]:
    def make(x: Any) -> Any:
        every, last = layer(WIDTH, 6, **options)(x)
        hidden = last[0] if isinstance(last, tuple) else last
        return paddle.concat([every.mean(axis=1), hidden[-1]], axis=-1)

    return make


def _recurrent_by_length(x: Any) -> Any:
    lengths = paddle.assign(np.asarray([5, 1, 3], np.int32))
    layer = paddle.nn.LSTM(WIDTH, 6, direction="bidirect", time_major=False)
    every, (hidden, cell) = layer(x, sequence_length=lengths)
    return paddle.concat([every.mean(axis=1), hidden[-1], cell[0]], axis=-1)


def _cell(layer: type[Any]) -> Callable[[Any], Any]:
    def make(x: Any) -> Any:
        cell, states = layer(WIDTH, 6), None
        for step in range(3):
            y, states = cell(x[:, step], states)
        return y

    return make


def _attention(x: Any) -> Any:
    mask = paddle.assign(np.tril(np.ones((STEPS, STEPS))).astype(bool))
    return paddle.nn.MultiHeadAttention(WIDTH, 2)(x, x * 2, x + 1, mask).mean(axis=1)


def _encoder(x: Any) -> Any:
    layer = paddle.nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, activation="gelu")
    return paddle.nn.TransformerEncoder(layer, 2, paddle.nn.LayerNorm(WIDTH))(x).mean(axis=1)


def _decoder(x: Any) -> Any:
    layer = paddle.nn.TransformerDecoderLayer(WIDTH, 2, 16, dropout=0.0, normalize_before=True)
    mask = paddle.assign(np.triu(np.full((STEPS, STEPS), -1e9), 1).astype(np.float32))
    return paddle.nn.TransformerDecoder(layer, 2)(x, x * 0.5, tgt_mask=mask).mean(axis=1)


def _transformer(x: Any) -> Any:
    model = paddle.nn.Transformer(WIDTH, 2, 1, 1, 16, dropout=0.0)
    return model(x, paddle.tanh(x)).mean(axis=1)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "lstm": _recurrent(paddle.nn.LSTM, num_layers=2, direction="bidirect"),
    "gru": _recurrent(paddle.nn.GRU, num_layers=2, direction="bidirect"),
    "simple rnn": _recurrent(paddle.nn.SimpleRNN, num_layers=2, direction="bidirect"),
    "lstm one way": _recurrent(paddle.nn.LSTM),
    "lstm by length": _recurrent_by_length,
    "lstm cell": _cell(paddle.nn.LSTMCell),
    "gru cell": _cell(paddle.nn.GRUCell),
    "attention": _attention,
    "encoder": _encoder,
    "decoder": _decoder,
    "transformer": _transformer,
}


_WIDTHS = {
    "lstm": 18,
    "gru": 18,
    "simple rnn": 18,
    "lstm one way": 12,
    "lstm by length": 24,
    "lstm cell": 6,
    "gru cell": 6,
}
"""How wide what a layer gives is, where not as wide as x."""


@pytest.mark.parametrize("name", LAYERS)
def test_five_steps_equal_paddles(name: str) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [BATCH, STEPS, WIDTH], "float32")
        label = paddle.static.data("label", [BATCH], "int64")
        logits = paddle.nn.Linear(_WIDTHS.get(name, WIDTH), 4)(LAYERS[name](x))
        loss = paddle.nn.functional.cross_entropy(logits, label)
        paddle.optimizer.Adam(1e-2).minimize(loss)
        return ["x", "label"], {"loss": loss, "logits": logits}, None

    both = pair(build(make), micro_batch_size=BATCH)
    rng = np.random.default_rng(1)
    feed = {
        "x": rng.standard_normal((BATCH, STEPS, WIDTH)).astype(np.float32),
        "label": np.asarray([0, 3, 1]),
    }
    losses = []
    for _ in range(5):
        cpu, ipu = both.step(feed)
        np.testing.assert_allclose(ipu["loss"], cpu["loss"], rtol=1e-5)
        losses.append(cpu["loss"].item())
    assert losses[-1] < losses[0]

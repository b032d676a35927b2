"""Transformers as Paddle's layers make them, saved for a predictor, by public names only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import inference, nn
from paddle.nn import functional

import paddle_ipu  # noqa: F401 - activates the plugin

ROWS, HIDDEN, HEADS = 10, 32, 4
DEPTH = HIDDEN // HEADS


class Encoder(nn.Layer):  # type: ignore[misc]
    """Two layers, with a mask, and the first token's classes."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, 48, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.classes = nn.Linear(HIDDEN, 3)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.classes(self.encoder(x, mask)[:, 0])


class Decoder(nn.Layer):  # type: ignore[misc]
    """Attention to itself, with a mask, and to a memory, without."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(HIDDEN, HEADS, 48, dropout=0.1)

    def forward(self, x: Any, mask: Any) -> Any:
        return self.layer(x, paddle.tanh(x), mask, None)


class OneProduct(nn.Layer):  # type: ignore[misc]
    """Q, K and V of one product, as vision transformers have it; dropout that scales at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.together = nn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, x: Any, mask: Any) -> Any:
        split = self.together(x).reshape([-1, ROWS, 3, HEADS, DEPTH]).transpose([2, 0, 3, 1, 4])
        query, key, value = split[0], split[1], split[2]
        scores = paddle.matmul(query, key, transpose_y=True) / DEPTH**0.5 + mask
        powers = functional.softmax(scores, axis=-1)
        powers = functional.dropout(powers, 0.1, training=False, mode="downscale_in_infer")
        return paddle.matmul(powers, value).transpose([0, 2, 1, 3]).flatten(2)


class OneFunction(nn.Layer):  # type: ignore[misc]
    """Paddle's own function for attention, which 2.6 has no CPU kernel for."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: Any, mask: Any) -> Any:
        heads = self.before(x).reshape([-1, ROWS, HEADS, DEPTH])
        return functional.scaled_dot_product_attention(
            heads, paddle.tanh(heads), heads, attn_mask=mask, training=False
        )


CASES: list[tuple[Callable[[], Any], int]] = [(Encoder, 2), (Decoder, 2), (OneProduct, 1)]
if not paddle.__version__.startswith("2."):
    CASES.append((OneFunction, 1))


def saved(make: Callable[[], Any], prefix: Path) -> Any:
    """A config without the IPU, of a network that is in the files of `prefix` then."""
    paddle.seed(3)
    network = make()
    network.eval()
    specs = [
        paddle.static.InputSpec([-1, ROWS, HIDDEN], "float32", "x"),
        paddle.static.InputSpec([-1, 1, ROWS, ROWS], "float32", "mask"),
    ]
    paddle.jit.save(network, str(prefix), input_spec=specs)
    program = next(p for p in map(prefix.with_suffix, (".json", ".pdmodel")) if p.exists())
    config = inference.Config(str(program), str(prefix.with_suffix(".pdiparams")))
    config.disable_glog_info()
    return config


def feeds() -> dict[str, np.ndarray]:
    """Two examples, with three tenths of the places masked."""
    draw = np.random.default_rng(0)
    return {
        "x": draw.standard_normal((2, ROWS, HIDDEN), np.float32),
        "mask": np.where(draw.uniform(size=(2, 1, ROWS, ROWS)) < 0.3, -1e9, 0).astype(np.float32),
    }

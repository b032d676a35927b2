"""Layers that draw at random in training: what they drop, and that backward drops the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from paddle import nn

from tests.unit.dygraph.layer_case import Array, numbers
from tests.unit.dygraph.layers import assert_same, strategy

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

_ROWS, _IMAGE, _SPACE = numbers(40, 50), numbers(20, 30, 2, 3), numbers(20, 30, 2, 1, 3)
_DROPPED = -1.7580993408473766
"""What AlphaDropout puts in the place of a number, before it keeps mean and variance."""


class _Several(nn.Layer):  # type: ignore[misc]
    def __init__(self, layers: dict[str, Any]) -> None:
        super().__init__()
        self.layers = nn.LayerDict(layers)

    def forward(self, inputs: Any) -> Any:
        results = []
        for x, layer in zip(inputs, self.layers.values()):  # noqa: B905 - Paddle rewrites zip
            results.append(layer(x))
        return results


def _drawn(layers: dict[str, Any], arrays: list[Array]) -> dict[str, tuple[Array, Array, Array]]:
    """Name -> input, result of a call in training, gradient of the sum of the result."""
    several = paddle.jit.to_static(_Several(layers))
    registered = strategy()
    inputs = [paddle.to_tensor(array, stop_gradient=False) for array in arrays]
    results = several(inputs)
    paddle.add_n([result.sum() for result in results]).backward()
    registered.release_patch()
    return {
        name: (x.numpy(), y.numpy(), x.grad.numpy())
        for name, x, y in zip(layers, inputs, results, strict=True)
    }


def _kept(gradient: Array, axes: tuple[int, ...]) -> Array:
    """Where the gradient is not 0, which is all of `axes` or nothing; about the half of it."""
    kept = gradient != 0
    assert (kept.all(axes) | ~kept.any(axes)).all()
    assert 0.4 < kept.mean() < 0.6
    return np.asarray(kept)


def test_dropouts_and_leaks() -> None:
    found = _drawn(
        {
            "Dropout": nn.Dropout(),
            "Dropout along an axis": nn.Dropout(axis=0),
            "Dropout2D": nn.Dropout2D(),
            "Dropout3D": nn.Dropout3D(),
            "AlphaDropout": nn.AlphaDropout(),
            "RReLU": nn.RReLU(0.2, 0.4),
        },
        [_ROWS, numbers(300, 4), _IMAGE, _SPACE, _ROWS, _ROWS],
    )
    for name, axes in (
        ("Dropout", ()),
        ("Dropout along an axis", (1,)),
        ("Dropout2D", (2, 3)),
        ("Dropout3D", (2, 3, 4)),
    ):
        x, y, gradient = found[name]
        kept = _kept(gradient, axes)
        assert_same([y, gradient], [2.0 * x * kept, 2.0 * kept], 1e-6)
    x, y, gradient = found["AlphaDropout"]
    _check_alpha(x, y, gradient, _kept(gradient, ()))
    x, y, gradient = found["RReLU"]
    assert_same([y], [x * gradient], 1e-6)
    leaks = gradient[x < 0]
    assert (gradient[x >= 0] == 1.0).all()
    assert 0.2 <= leaks.min() < 0.21 < 0.39 < leaks.max() <= 0.4


def _check_alpha(x: Array, y: Array, gradient: Array, kept: Array) -> None:
    scale = (0.5 * (1.0 + 0.5 * _DROPPED**2)) ** -0.5
    shift = -scale * _DROPPED * 0.5
    assert_same([y], [scale * np.where(kept, x, _DROPPED) + shift], 1e-6)
    assert_same([gradient], [scale * kept], 1e-6)


@pytest.mark.skipif(not hasattr(nn, "FeatureAlphaDropout"), reason="Paddle 3.0 has it")
def test_alpha_dropout_of_whole_features() -> None:
    ((x, y, gradient),) = _drawn({"one": nn.FeatureAlphaDropout()}, [_IMAGE]).values()
    _check_alpha(x, y, gradient, _kept(gradient, (2, 3)))


class _Sequences(nn.Layer):  # type: ignore[misc]
    """Layers that drop within; in evaluation mode nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 4, 2, dropout=0.5, direction="bidirect")
        self.attention = nn.MultiHeadAttention(8, 2, dropout=0.5)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.5)

    def forward(self, x: Any) -> Any:
        return self.lstm(x)[0], self.attention(x), self.encoder(x)


@pytest.mark.long
def test_sequence_layers_drop_in_training_only() -> None:
    layer, x = _Sequences(), paddle.to_tensor(numbers(3, 4, 8))
    layer.eval()
    expected = [result.numpy() for result in layer(x)]
    converted = paddle.jit.to_static(layer)
    strategy()
    assert_same([result.numpy() for result in converted(x)], expected, 1e-5)
    layer.train()
    first, second = converted(x), converted(x)
    for one, other, still in zip(first, second, expected, strict=True):
        assert (one.numpy() != other.numpy()).any()
        assert (one.numpy() != still).any()
    paddle.add_n([result.square().sum() for result in first]).backward()
    for parameter in layer.parameters():
        assert np.isfinite(parameter.grad.numpy()).all()

"""The network: two convolutions, a dropout and a linear layer; 34,826 parameters."""

from __future__ import annotations

import math
from typing import Any

import paddle

from examples.mnist.data import CLASSES, SIDE


class Mnist(paddle.nn.Layer):
    """Logits ``[n, 10]`` of images ``[n, 1, 28, 28]``.

    ``rows`` has the table of the layers once the network was called: name with type, shape of the
    result, number of parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        layers = {
            "conv2d": paddle.nn.Conv2D(1, 32, 3),
            "relu": paddle.nn.ReLU(),
            "max_pooling2d": paddle.nn.MaxPool2D(2),
            "conv2d_1": paddle.nn.Conv2D(32, 64, 3),
            "relu_1": paddle.nn.ReLU(),
            "max_pooling2d_1": paddle.nn.MaxPool2D(2),
            "flatten": paddle.nn.Flatten(),
            "dropout": paddle.nn.Dropout(0.5),
            "dense": paddle.nn.Linear(64 * 5 * 5, CLASSES),
        }
        self.layers = paddle.nn.LayerDict(layers)
        self.rows: list[tuple[str, tuple[int, ...], int]] = []

    def forward(self, images: Any) -> Any:
        """The layers one after another."""
        self.rows = [("input (data)", tuple(images.shape), 0)]
        value = images
        for name, layer in self.layers.items():
            value = layer(value)
            count = sum(math.prod(parameter.shape) for parameter in layer.parameters())
            self.rows.append((f"{name} ({type(layer).__name__})", tuple(value.shape), count))
        return value


def feeds() -> list[Any]:
    """The program's inputs; -1 becomes the micro-batch when the program is compiled."""
    return [
        paddle.static.data("image", [-1, 1, SIDE, SIDE], "float32"),
        paddle.static.data("label", [-1, 1], "int64"),
    ]

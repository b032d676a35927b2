"""Networks whose parameters are named after layers; as a program it writes the names as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import paddle
from paddle import nn

F = nn.functional


def _fed(*shape: int, dtype: str = "float32") -> Any:
    name = "_".join(map(str, (dtype, *shape)))
    return paddle.static.data(name, list(shape), dtype)


def _one_after_the_other() -> None:
    x = _fed(2, 8)
    for _ in range(3):
        x = nn.LayerNorm(8)(nn.Linear(8, 8)(x))


def _called_twice() -> None:
    layers = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8))
    nn.Linear(8, 2)(layers(layers(_fed(2, 8))))


def _embeddings() -> None:
    for _ in range(2):
        nn.Embedding(10, 8)(_fed(2, 3, dtype="int64"))


def _of_images() -> None:
    x = _fed(1, 4, 8, 8)
    for _ in range(2):
        x = nn.BatchNorm2D(4)(nn.Conv2D(4, 4, 3, padding=1)(x))
        nn.Conv2DTranspose(4, 4, 3)(x)
        nn.GroupNorm(2, 4)(x)
        nn.InstanceNorm2D(4)(x)
        nn.PReLU(4)(x)


def _of_one_and_three_axes() -> None:
    for _ in range(2):
        nn.Conv1D(4, 4, 3)(_fed(1, 4, 8))
        nn.Conv1DTranspose(4, 4, 3)(_fed(1, 4, 8))
        nn.Conv3D(4, 4, 3)(_fed(1, 4, 8, 8, 8))
        nn.Conv3DTranspose(4, 4, 3)(_fed(1, 4, 8, 8, 8))
        nn.Conv2D(4, 4, 3)(_fed(1, 4, 8, 8))


def _transformer() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)
    nn.Linear(8, 2)(encoder(_fed(2, 3, 8)))


def _others() -> None:
    for _ in range(2):
        nn.Bilinear(8, 8, 2)(_fed(2, 8), _fed(2, 8))
        nn.SpectralNorm([4, 4])(_fed(4, 4))
        nn.Linear(8, 8)(nn.LSTM(8, 8)(_fed(2, 3, 8))[0])


def _functions() -> None:
    table, kernel = (paddle.create_parameter(s, "float32") for s in ([8, 8], [4, 4, 3, 3]))
    words = _fed(2, 3, dtype="int64")
    F.linear(_fed(2, 8), table)
    F.layer_norm(_fed(2, 8), [8])
    F.embedding(words, table)
    F.conv2d(_fed(1, 4, 8, 8), kernel)
    nn.Linear(8, 8)(nn.LayerNorm(8)(_fed(2, 8)))
    nn.Embedding(4, 4)(words)
    nn.Conv2D(4, 4, 3)(_fed(1, 4, 8, 8))


NETWORKS: dict[str, Callable[[], None]] = {
    "one after the other": _one_after_the_other,
    "called twice": _called_twice,
    "embeddings": _embeddings,
    "of images": _of_images,
    "of one and three axes": _of_one_and_three_axes,
    "transformer": _transformer,
    "others": _others,
    "functions": _functions,
}


def names() -> dict[str, list[str]]:
    """Network -> its parameters' names in alphabetical order."""
    paddle.enable_static()
    found = {}
    for network, make in NETWORKS.items():
        main = paddle.static.Program()
        with (
            paddle.static.program_guard(main, paddle.static.Program()),
            paddle.utils.unique_name.guard(),
        ):
            make()
        holder = main if hasattr(main, "all_parameters") else main.global_block()
        # Paddle 3 alone has a parameter for the state of a recurrent layer's dropout.
        every = sorted(parameter.name for parameter in holder.all_parameters())
        found[network] = [name for name in every if not name.startswith("dropout_state")]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(names()) + "\n")

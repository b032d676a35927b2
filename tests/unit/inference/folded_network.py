"""A network with batch norms that a predictor folds, saved, by public names only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle import inference, nn

import paddle_ipu  # noqa: F401 - activates the plugin


def saved(prefix: Path) -> Any:
    """A config without the IPU; running statistics are not those a network begins with."""
    paddle.seed(3)
    network = nn.Sequential(
        nn.Conv2D(3, 8, 3),
        nn.BatchNorm2D(8),
        nn.ReLU(),
        nn.MaxPool2D(3, 1, 1),
        nn.Conv2D(8, 8, 3, groups=4, bias_attr=False),
        nn.BatchNorm2D(8),
        nn.Conv2D(8, 16, 1, stride=2, bias_attr=False),
        nn.BatchNorm2D(16),
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
        nn.Linear(16, 4),
        nn.BatchNorm1D(4),
    )
    draw = np.random.default_rng(0)
    for layer in network:
        if isinstance(layer, (nn.BatchNorm1D, nn.BatchNorm2D)):
            for part in (layer._mean, layer._variance, layer.weight, layer.bias):
                part.set_value(draw.uniform(0.5, 2, part.shape).astype(np.float32))
    network.eval()
    spec = paddle.static.InputSpec([-1, 3, 8, 8], "float32")
    paddle.jit.save(network, str(prefix), input_spec=[spec])
    program = next(p for p in map(prefix.with_suffix, (".json", ".pdmodel")) if p.exists())
    config = inference.Config(str(program), str(prefix.with_suffix(".pdiparams")))
    config.disable_glog_info()
    return config

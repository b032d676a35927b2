"""ResNet-50's training written by hand in torch, eager: batch norm and SGD as torch has them."""

from __future__ import annotations

import os
from itertools import count

import torch
from resnet_config import (
    LEARNING_RATE,
    MOMENTUM,
    NORM_EPSILON,
    STEM,
    Config,
    Convolution,
    blocks,
    initial_weights,
    make_batch,
)
from step_turns import Prepared
from torch.nn import functional

Weights = dict[str, torch.Tensor]


class _Network:
    """The network over some weights; running statistics are kept for each batch norm."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._statistics = {
            name: (torch.zeros(scale.shape), torch.ones(scale.shape))
            for name, scale in weights.items()
            if name.startswith("batch_norm") and name.endswith(".w_0")
        }

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """Logits [batch, classes]."""
        numbers = count()

        def convolved(x: torch.Tensor, convolution: Convolution) -> torch.Tensor:
            number, (_, _, kernel, stride) = next(numbers), convolution
            x = functional.conv2d(
                x, self._weights[f"conv2d_{number}.w_0"], None, stride, kernel // 2
            )
            name = f"batch_norm2d_{number}"
            scale, bias = (self._weights[f"{name}.{part}"] for part in ("w_0", "b_0"))
            mean, variance = self._statistics[f"{name}.w_0"]
            return functional.batch_norm(
                x, mean, variance, scale, bias, training=True, eps=NORM_EPSILON
            )

        x = functional.relu(convolved(image, STEM), inplace=True)
        x = functional.max_pool2d(x, 3, 2, 1)
        for shortcut, path in blocks():
            own = x if shortcut is None else convolved(x, shortcut)
            x = functional.relu(convolved(x, path[0]), inplace=True)
            x = functional.relu(convolved(x, path[1]), inplace=True)
            x = functional.relu(convolved(x, path[2]) + own, inplace=True)
        weights = self._weights
        return torch.addmm(weights["linear_0.b_0"], x.mean((2, 3)), weights["linear_0.w_0"])


def prepare(config: Config, channels_last: bool) -> Prepared:
    """The weights and SGD; nothing is compiled.

    Args:
        config: the network's input.
        channels_last: images and kernels are in torch's channels-last layout.
    """
    torch.set_num_threads(os.cpu_count() or 1)

    def laid_out(array: torch.Tensor) -> torch.Tensor:
        is_image = channels_last and array.ndim == 4
        return array.to(memory_format=torch.channels_last) if is_image else array

    weights = {
        name: laid_out(torch.from_numpy(array)).requires_grad_()
        for name, array in initial_weights(config)
    }
    batch = {name: laid_out(torch.from_numpy(a)) for name, a in make_batch(config).items()}
    network = _Network(weights)
    descent = torch.optim.SGD(weights.values(), LEARNING_RATE, MOMENTUM)

    def step() -> float:
        descent.zero_grad()
        loss = functional.cross_entropy(network(batch["image"]), batch["label"])
        loss.backward()
        descent.step()
        return float(loss)

    return Prepared(step, {})

"""Networks of ``paddle.vision.models`` that say an image's class."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor


def image_class(builder: LayerBuilder, name: str, classes: int, size: int) -> Tensor:
    """The loss of an image's class; in inference the logits ``[rows, classes]``.

    Args:
        name: of the network in ``paddle.vision.models``.
        size: height and width of an image.
    """
    from paddle.vision import models

    network = getattr(models, name)(num_classes=classes)
    if not builder.training:
        network.eval()
    with warnings.catch_warnings():
        # Paddle says of each batch norm that it tracks the mean.
        warnings.simplefilter("ignore", UserWarning)
        logits = network(builder.pixels(size))
    if not builder.training:
        return logits
    labels = builder.reshape(builder.feed("label", [1], "int32"), [-1])
    return builder.cross_entropy(logits, labels)

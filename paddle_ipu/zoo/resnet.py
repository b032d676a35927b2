"""ResNet (arXiv:1512.03385), as ``paddle.vision.models`` has it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor


@dataclass(frozen=True, slots=True)
class ResNet:
    """Depth of a ResNet for images of 224 x 224."""

    depth: int
    classes: int = 1000

    items: ClassVar[str] = ""
    size: ClassVar[int] = 224
    most: ClassVar[int] = 224
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "Momentum"

    def __str__(self) -> str:
        return f"convolutional, {self.depth} layers"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of an image's class; in inference the logits ``[rows, classes]``.

        Args:
            size: height and width of an image.
        """
        from paddle.vision import models

        network = getattr(models, f"resnet{self.depth}")(num_classes=self.classes)
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

"""Networks of ``paddle.vision.models`` that say the class of an image of 224 x 224."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor

_CLASSES = 1000


class PaddleVision(ABC):
    """A family of them."""

    __slots__ = ()

    items: ClassVar[str] = ""
    size: ClassVar[int] = 224
    most: ClassVar[int] = 224
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "Momentum"

    @property
    @abstractmethod
    def function(self) -> str:
        """Its name in ``paddle.vision.models``."""

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of an image's class; in inference the logits ``[rows, classes]``.

        Args:
            size: height and width of an image.
        """
        from paddle.vision import models

        network = getattr(models, self.function)(num_classes=_CLASSES)
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

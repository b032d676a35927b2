"""ResNet (arXiv:1512.03385), ResNeXt (arXiv:1611.05431), as ``paddle.vision.models`` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.paddle_vision import image_class

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
        return image_class(builder, f"resnet{self.depth}", self.classes, size)


@dataclass(frozen=True, slots=True)
class ResNext:
    """Depth of a ResNeXt for images of 224 x 224, and the groups of its convolutions.

    Attributes:
        width: channels of a group in the first blocks.
    """

    depth: int
    groups: int
    width: int
    classes: int = 1000

    items: ClassVar[str] = ""
    size: ClassVar[int] = 224
    most: ClassVar[int] = 224
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "Momentum"

    def __str__(self) -> str:
        return f"convolutional, {self.depth} layers, {self.groups} groups of {self.width}"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of an image's class; in inference the logits ``[rows, classes]``.

        Args:
            size: height and width of an image.
        """
        name = f"resnext{self.depth}_{self.groups}x{self.width}d"
        return image_class(builder, name, self.classes, size)

"""MobileNetV3 (arXiv:1905.02244), as ``paddle.vision.models`` has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.paddle_vision import image_class

if TYPE_CHECKING:
    from paddle import Tensor


@dataclass(frozen=True, slots=True)
class MobileNetV3:
    """Which of the two MobileNetV3 for images of 224 x 224.

    Attributes:
        variant: ``small`` or ``large``.
        blocks: inverted residual blocks that it has.
    """

    variant: str
    blocks: int
    classes: int = 1000

    items: ClassVar[str] = ""
    size: ClassVar[int] = 224
    most: ClassVar[int] = 224
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "RMSProp"

    def __str__(self) -> str:
        return f"convolutional, {self.blocks} blocks, depthwise, batch norm"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of an image's class; in inference the logits ``[rows, classes]``.

        Args:
            size: height and width of an image.
        """
        return image_class(builder, f"mobilenet_v3_{self.variant}", self.classes, size)

"""ResNet (arXiv:1512.03385), ResNeXt (arXiv:1611.05431), as ``paddle.vision.models`` has them."""

from __future__ import annotations

from dataclasses import dataclass

from paddle_ipu.zoo.paddle_vision import PaddleVision


@dataclass(frozen=True, slots=True)
class ResNet(PaddleVision):
    """Depth of a ResNet."""

    depth: int

    def __str__(self) -> str:
        return f"convolutional, {self.depth} layers"

    @property
    def function(self) -> str:
        """``resnet50`` and so on."""
        return f"resnet{self.depth}"


@dataclass(frozen=True, slots=True)
class ResNext(PaddleVision):
    """Depth of a ResNeXt, and the groups of its convolutions.

    Attributes:
        width: channels of a group in the first blocks.
    """

    depth: int
    groups: int
    width: int

    def __str__(self) -> str:
        return f"convolutional, {self.depth} layers, {self.groups} groups of {self.width}"

    @property
    def function(self) -> str:
        """``resnext50_32x4d`` and so on."""
        return f"resnext{self.depth}_{self.groups}x{self.width}d"

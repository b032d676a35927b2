"""MobileNetV3 (arXiv:1905.02244), as ``paddle.vision.models`` has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from paddle_ipu.zoo.paddle_vision import PaddleVision


@dataclass(frozen=True, slots=True)
class MobileNetV3(PaddleVision):
    """Which of the two MobileNetV3.

    Attributes:
        variant: ``small`` or ``large``.
        blocks: inverted residual blocks that it has.
    """

    variant: str
    blocks: int

    optimizer: ClassVar[str] = "RMSProp"

    def __str__(self) -> str:
        return f"convolutional, {self.blocks} blocks, depthwise, batch norm"

    @property
    def function(self) -> str:
        """``mobilenet_v3_small`` or ``mobilenet_v3_large``."""
        return f"mobilenet_v3_{self.variant}"

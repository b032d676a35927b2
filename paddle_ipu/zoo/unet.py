"""U-Net (arXiv:1505.04597): an encoder that halves an image, and a decoder that doubles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor


@dataclass(frozen=True, slots=True)
class UNet:
    """Channels of a U-Net for grey images.

    Convolutions have no padding, so that the result is smaller than the image: each level of the
    decoder reads the middle of what the encoder's made.

    Attributes:
        channels: of the first level; each level has twice the ones before.
        levels: of the encoder, with the one that has no skip connection.
        classes: of a pixel.
        size: height and width of an image.
        dropout: share of what the encoder's last level makes that is left out.
    """

    channels: int = 64
    levels: int = 5
    classes: int = 2
    size: int = 572
    dropout: float = 0.5

    items: ClassVar[str] = ""
    rows: ClassVar[int] = 1
    optimizer: ClassVar[str] = "Momentum"

    @property
    def most(self) -> int:
        """Height and width of an image: there is one size."""
        return self.size

    def __str__(self) -> str:
        return f"convolutional, {self.levels} levels from {self.channels} channels"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The mean loss of all pixels; in inference their logits ``[rows, classes, side, side]``.

        Args:
            size: height and width of an image.
        """
        widths = [self.channels * 2**level for level in range(self.levels)]
        x = builder.pixels(size, channels=1)
        skipped = []
        for level, (width, side) in enumerate(zip(widths, self._cropped(size), strict=False)):
            x = _convolved_twice(builder, x, f"encoder.{level}", width)
            skipped.append(builder.middle(x, side))
            x = builder.max_pool(x, 2)
        x = _convolved_twice(builder, x, f"encoder.{self.levels - 1}", widths[-1])
        x = builder.dropout(x, self.dropout)
        for level, width in enumerate(reversed(widths[:-1])):
            name = f"decoder.{level}"
            x = builder.relu(builder.upsampled_convolution(x, f"{name}.up", width, 2))
            x = builder.concat([x, skipped.pop()], 1)
            x = _convolved_twice(builder, x, name, width)
        logits = builder.convolution(x, "classifier", self.classes, 1, 1)
        if not builder.training:
            return logits
        labels = builder.feed("labels", logits.shape[2:], "int32")
        return builder.cross_entropy(logits, labels, axis=1)

    def _cropped(self, size: int) -> list[int]:
        """Height and width of what the decoder reads of each level of the encoder."""
        for _ in range(self.levels - 1):
            size = (size - 4) // 2
        size -= 4
        sides = []
        for _ in range(self.levels - 1):
            sides.append(2 * size)
            size = 2 * size - 4
        return sides[::-1]


def _convolved_twice(builder: LayerBuilder, x: Tensor, name: str, outputs: int) -> Tensor:
    """Two convolutions of 3 x 3 without padding; x ``[rows, channels, height, width]``."""
    for part in ("first", "second"):
        x = builder.relu(builder.convolution(x, f"{name}.{part}", outputs, 3, 1))
    return x

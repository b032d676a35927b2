"""EfficientNet (arXiv:1905.11946): inverted residual blocks, scaled in width, depth and size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from paddle_ipu.zoo.layer_builder import LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-3
_DROPPED_ROWS = 0.2
"""Of the last block, how many rows lose it in training; of the blocks before evenly less."""
_SQUEEZED = 4
"""A block's channels over those of its squeeze-and-excitation."""


class _Stage(NamedTuple):
    """Blocks of B0 that are alike; all but the first have stride 1."""

    blocks: int
    kernel: int
    stride: int
    channels: int


_STEM, _HEAD = 32, 1280
_STAGES = (
    _Stage(1, 3, 1, 16), _Stage(2, 3, 2, 24), _Stage(2, 5, 2, 40), _Stage(3, 3, 2, 80),
    _Stage(3, 5, 1, 112), _Stage(4, 5, 2, 192), _Stage(1, 3, 1, 320),
)  # fmt: skip


class _Block(NamedTuple):
    """One block, by the number of its stage and its own there.

    Attributes:
        expand: channels inside over those it reads.
        dropped: share of rows that lose it.
    """

    name: str
    kernel: int
    stride: int
    channels: int
    expand: int
    dropped: float


@dataclass(frozen=True, slots=True)
class EfficientNet:
    """Factors of an EfficientNet over B0, and what its blocks are made of.

    The variants that compute well on an IPU have larger groups, for which they expand less, and
    normalise groups of a row's channels, which needs no large batch (arXiv:2106.03640).

    Attributes:
        width, depth: channels and blocks over B0's.
        size: height and width of an image.
        dropout: share of what the classifier reads.
        group: channels of a group in the convolution over positions: 1 is depthwise.
        expand: channels inside a block over those it reads.
        norm_groups: of group norm; 0 for batch norm.
    """

    width: float
    depth: float
    size: int
    dropout: float
    group: int = 1
    expand: int = 6
    norm_groups: int = 0
    classes: int = 1000

    items: ClassVar[str] = ""
    rows: ClassVar[int] = 16
    optimizer: ClassVar[str] = "RMSProp"

    @property
    def most(self) -> int:
        """Height and width of an image: there is one size."""
        return self.size

    def __str__(self) -> str:
        kind = "depthwise" if self.group == 1 else f"groups of {self.group}"
        norm = f"group norm of {self.norm_groups}" if self.norm_groups else "batch norm"
        blocks = sum(1 for _ in self._blocks())
        return f"convolutional, {blocks} blocks, {kind}, expanded by {self.expand}, {norm}"

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss of an image's class; in inference the logits ``[rows, classes]``.

        Args:
            size: height and width of an image.
        """
        stem = self._channels(_STEM)
        x = builder.convolution(builder.pixels(size), "stem", stem, 3, 2, padding=1, bias=False)
        x = builder.silu(self._norm(builder, x, "stem.norm"))
        for block in self._blocks():
            x = builder.checkpoint(self._block(builder, x, block))
        x = builder.convolution(x, "head", self._channels(_HEAD), 1, 1, bias=False)
        x = builder.silu(self._norm(builder, x, "head.norm"))
        x = builder.reshape(builder.mean_of_positions(x), [-1, x.shape[1]])
        x = builder.dropout(x, self.dropout)
        logits = builder.linear(x, "classifier", self.classes)
        if not builder.training:
            return logits
        labels = builder.reshape(builder.feed("label", [1], "int32"), [-1])
        return builder.cross_entropy(logits, labels)

    def _channels(self, of_b0: int) -> int:
        """Channels of a layer: a multiple of 8 that is not much less than its share."""
        wanted = of_b0 * self.width
        found = max(8, int(wanted + 4) // 8 * 8)
        return found + 8 if found < 0.9 * wanted else found

    def _blocks(self) -> Iterator[_Block]:
        counts = [math.ceil(stage.blocks * self.depth) for stage in _STAGES]
        for number, (stage, count) in enumerate(zip(_STAGES, counts, strict=True)):
            for at in range(count):
                yield _Block(
                    name=f"blocks.{number}.{at}",
                    kernel=stage.kernel,
                    stride=1 if at else stage.stride,
                    channels=self._channels(stage.channels),
                    expand=self.expand if number else 1,
                    dropped=_DROPPED_ROWS * (sum(counts[:number]) + at) / sum(counts),
                )

    def _norm(self, builder: LayerBuilder, x: Tensor, name: str) -> Tensor:
        if self.norm_groups:
            return builder.group_norm(x, name, self.norm_groups, _EPSILON)
        return builder.batch_norm(x, name, _EPSILON)

    def _block(self, builder: LayerBuilder, x: Tensor, block: _Block) -> Tensor:
        """A block of x ``[rows, channels, height, width]``: expand, convolve, squeeze, project."""
        name, read = block.name, x.shape[1]
        inner, skipped = read * block.expand, x
        if block.expand > 1:
            x = builder.convolution(x, f"{name}.expand", inner, 1, 1, bias=False)
            x = builder.silu(self._norm(builder, x, f"{name}.expand.norm"))
        x = builder.convolution(
            x, f"{name}.spatial", inner, block.kernel, block.stride, padding=block.kernel // 2,
            groups=max(1, inner // self.group), bias=False,
        )  # fmt: skip
        x = builder.silu(self._norm(builder, x, f"{name}.spatial.norm"))
        y = builder.mean_of_positions(x)
        y = builder.silu(builder.convolution(y, f"{name}.squeeze", read // _SQUEEZED, 1, 1))
        x = x * builder.sigmoid(builder.convolution(y, f"{name}.excite", inner, 1, 1))
        x = builder.convolution(x, f"{name}.project", block.channels, 1, 1, bias=False)
        x = self._norm(builder, x, f"{name}.project.norm")
        if block.stride == 1 and read == block.channels:
            x = builder.dropped_rows(x, block.dropped) + skipped
        return x

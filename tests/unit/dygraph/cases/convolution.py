"""Convolutions, and their transposes."""

from __future__ import annotations

from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_LINE, _IMAGE, _SPACE = numbers(2, 4, 7), numbers(2, 4, 5, 6), numbers(2, 2, 4, 3, 4)

CONVOLUTIONS = (
    LayerCase("Conv1D", lambda: nn.Conv1D(4, 3, 3, padding=1), (_LINE,)),
    LayerCase("Conv1D", lambda: nn.Conv1D(4, 3, 3, padding="same"), (_LINE,), "same"),
    LayerCase("Conv1DTranspose", lambda: nn.Conv1DTranspose(4, 3, 3, stride=2), (_LINE,)),
    LayerCase("Conv2D", lambda: nn.Conv2D(4, 6, 3, stride=2, padding=1, groups=2), (_IMAGE,)),
    LayerCase("Conv2D", lambda: nn.Conv2D(4, 8, 3, groups=4), (_IMAGE,), "depthwise"),
    LayerCase(
        "Conv2D",
        lambda: nn.Conv2D(4, 3, 3, padding=1, padding_mode="reflect", bias_attr=False),
        (_IMAGE,),
        "reflect",
    ),
    LayerCase(
        "Conv2D", lambda: nn.Conv2D(6, 3, 2, dilation=2, data_format="NHWC"), (_IMAGE,), "last"
    ),
    LayerCase(
        "Conv2DTranspose",
        lambda: nn.Conv2DTranspose(4, 3, 3, stride=2, padding=1, output_padding=1),
        (_IMAGE,),
    ),
    LayerCase("Conv3D", lambda: nn.Conv3D(2, 3, 2, padding=1), (_SPACE,)),
    LayerCase("Conv3DTranspose", lambda: nn.Conv3DTranspose(2, 3, 2, stride=2), (_SPACE,)),
)

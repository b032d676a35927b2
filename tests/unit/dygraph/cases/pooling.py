"""Poolings."""

from __future__ import annotations

from typing import Any

from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_LINE, _IMAGE, _SPACE = numbers(2, 3, 8), numbers(2, 3, 6, 8), numbers(2, 2, 4, 6, 4)


class _Unpooled(nn.Layer):  # type: ignore[misc]
    """Largest ones of windows, back at their places."""

    def __init__(self, pool: Any, unpool: Any) -> None:
        super().__init__()
        self.pool, self.unpool = pool, unpool

    def forward(self, x: Any) -> Any:
        return self.unpool(*self.pool(x))


POOLINGS = (
    LayerCase("AdaptiveAvgPool1D", lambda: nn.AdaptiveAvgPool1D(3), (_LINE,)),
    LayerCase("AdaptiveAvgPool2D", lambda: nn.AdaptiveAvgPool2D((4, 3)), (_IMAGE,)),
    LayerCase("AdaptiveAvgPool3D", lambda: nn.AdaptiveAvgPool3D((2, 4, 3)), (_SPACE,)),
    LayerCase("AdaptiveMaxPool1D", lambda: nn.AdaptiveMaxPool1D(3), (_LINE,)),
    LayerCase("AdaptiveMaxPool1D", lambda: nn.AdaptiveMaxPool1D(4, True), (_LINE,), "mask"),
    LayerCase("AdaptiveMaxPool2D", lambda: nn.AdaptiveMaxPool2D((4, 3)), (_IMAGE,)),
    LayerCase("AdaptiveMaxPool3D", lambda: nn.AdaptiveMaxPool3D((2, 4, 3)), (_SPACE,)),
    LayerCase("AvgPool1D", lambda: nn.AvgPool1D(3, 2, 1), (_LINE,)),
    LayerCase("AvgPool2D", lambda: nn.AvgPool2D(3, 2, 1, ceil_mode=True), (_IMAGE,)),
    LayerCase("AvgPool2D", lambda: nn.AvgPool2D(3, 2, 1, exclusive=False), (_IMAGE,), "padded"),
    LayerCase("AvgPool3D", lambda: nn.AvgPool3D(2, 2), (_SPACE,)),
    LayerCase(
        "FractionalMaxPool2D", lambda: nn.FractionalMaxPool2D((4, 5), random_u=0.4), (_IMAGE,)
    ),
    LayerCase(
        "FractionalMaxPool3D", lambda: nn.FractionalMaxPool3D((3, 4, 2), random_u=0.4), (_SPACE,)
    ),
    LayerCase("LPPool1D", lambda: nn.LPPool1D(3, 2, 2), (abs(_LINE),)),
    LayerCase("LPPool2D", lambda: nn.LPPool2D(2, 3, 2), (_IMAGE,)),
    LayerCase("MaxPool1D", lambda: nn.MaxPool1D(3, 2, 1), (_LINE,)),
    LayerCase("MaxPool2D", lambda: nn.MaxPool2D(3, 2, 1, ceil_mode=True), (_IMAGE,)),
    LayerCase("MaxPool2D", lambda: nn.MaxPool2D(2, 2, return_mask=True), (_IMAGE,), "mask"),
    LayerCase("MaxPool3D", lambda: nn.MaxPool3D(2, 2), (_SPACE,)),
    LayerCase(
        "MaxUnPool1D",
        lambda: _Unpooled(nn.MaxPool1D(2, 2, return_mask=True), nn.MaxUnPool1D(2, 2)),
        (_LINE,),
    ),
    LayerCase(
        "MaxUnPool2D",
        lambda: _Unpooled(nn.MaxPool2D(2, 2, return_mask=True), nn.MaxUnPool2D(2, 2)),
        (_IMAGE,),
    ),
    LayerCase(
        "MaxUnPool3D",
        lambda: _Unpooled(nn.MaxPool3D(2, 2, return_mask=True), nn.MaxUnPool3D(2, 2)),
        (_SPACE,),
    ),
)

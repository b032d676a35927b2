"""Normalisations; the statistics that they keep are compared, too."""

from __future__ import annotations

from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_ROWS, _LINE, _IMAGE, _SPACE = (
    numbers(4, 6),
    numbers(3, 4, 5),
    numbers(3, 4, 5, 2),
    numbers(2, 4, 3, 2, 3),
)

NORMALIZATIONS = (
    LayerCase("BatchNorm", lambda: nn.BatchNorm(4), (_IMAGE,)),
    LayerCase("BatchNorm", lambda: nn.BatchNorm(4, act="relu"), (_IMAGE,), "relu"),
    LayerCase("BatchNorm1D", lambda: nn.BatchNorm1D(4), (_LINE,)),
    LayerCase("BatchNorm1D", lambda: nn.BatchNorm1D(6), (_ROWS,), "rows"),
    LayerCase("BatchNorm2D", lambda: nn.BatchNorm2D(4), (_IMAGE,)),
    LayerCase("BatchNorm2D", lambda: nn.BatchNorm2D(2, data_format="NHWC"), (_IMAGE,), "last"),
    LayerCase("BatchNorm2D", lambda: nn.BatchNorm2D(4), (_IMAGE,), "evaluation", frozen=True),
    LayerCase("BatchNorm3D", lambda: nn.BatchNorm3D(4), (_SPACE,)),
    LayerCase("GroupNorm", lambda: nn.GroupNorm(2, 4), (_IMAGE,)),
    LayerCase("InstanceNorm1D", lambda: nn.InstanceNorm1D(4), (_LINE,)),
    LayerCase("InstanceNorm2D", lambda: nn.InstanceNorm2D(4), (_IMAGE,)),
    LayerCase("InstanceNorm3D", lambda: nn.InstanceNorm3D(4), (_SPACE,)),
    LayerCase("LayerNorm", lambda: nn.LayerNorm(6), (_ROWS,)),
    LayerCase("LayerNorm", lambda: nn.LayerNorm([4, 5]), (_LINE,), "axes"),
    LayerCase("LocalResponseNorm", lambda: nn.LocalResponseNorm(3, alpha=0.1), (_IMAGE,)),
    LayerCase("SpectralNorm", lambda: nn.SpectralNorm([4, 6], power_iters=2), (_ROWS,)),
    LayerCase(
        "SyncBatchNorm",
        lambda: nn.SyncBatchNorm(4),
        (_IMAGE,),
        oracle=lambda: nn.BatchNorm2D(4),
    ),
)

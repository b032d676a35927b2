"""Gives feeds the static shapes of one call.

    ids: [-1, -1]  ->  ids: [8, 128]

PopART's builder infers the shapes of computed values from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.pass_base import Compilation


class BindFeeds:
    """Replaces the shapes of feeds.

    Args:
        shapes: feed name -> shape; the caller has checked that they fit.
    """

    name = "bind_feeds"

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        self._shapes = shapes

    def run(self, compilation: Compilation) -> bool:
        changed = False
        for value in compilation.graph.inputs:
            shape = self._shapes.get(str(value.name))
            if shape is None or value.meta[dialect.ROLE] != dialect.FEED:
                continue
            if dialect.dims_of(value) != list(shape):
                value.shape = ir.Shape(shape)
                changed = True
        return changed

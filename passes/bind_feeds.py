"""Gives feeds the shapes of one call: dynamic dimensions become those of its inputs.

    ids: [-1, -1]  ->  ids: [8, 128]

Shapes of the values computed from feeds follow when PopART's builder infers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.pass_base import Compilation


class BindFeeds:
    """Replaces the shapes of feeds, by name; the caller has checked that they fit."""

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

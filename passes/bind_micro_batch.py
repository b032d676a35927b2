"""Gives every feed a static shape: the dynamic first dimension becomes the micro-batch.

    x: [-1, 128]  ->  x: [micro_batch_size, 128]

Shapes of the values computed from feeds follow when PopART's builder infers them. Where no feed is
dynamic the program has a batch of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.pipeline import Compilation


class BindMicroBatch:
    """Replaces the first dimension of feeds where it is dynamic."""

    name = "bind_micro_batch"

    def run(self, compilation: Compilation) -> bool:
        micro_batch = int(compilation.options["micro_batch_size"])
        sizes: list[int] = []
        for value in compilation.graph.inputs:
            if value.meta[dialect.ROLE] != dialect.FEED:
                continue
            dims = dialect.dims_of(value)
            if -1 in dims[1:]:
                raise InvalidProgramError(
                    f"feed {value.name!r} has shape {dims}: only the first dimension may be "
                    "dynamic, since an IPU program has static shapes. Give paddle.static.data "
                    "the other sizes."
                )
            if dims and dims[0] == -1:
                value.shape = ir.Shape([micro_batch, *dims[1:]])
            sizes += dims[:1]
        compilation.rows_are_fixed = -1 not in sizes
        compilation.rows = _own_rows(sizes, micro_batch)
        return not compilation.rows_are_fixed


def _own_rows(sizes: Sequence[int], micro_batch: int) -> int:
    """Rows of feeds of these first dimensions: the option's, or what most of them have."""
    if not sizes or -1 in sizes or (micro_batch > 1 and micro_batch in sizes):
        return micro_batch
    # A table or a learning rate of one row says nothing of the others.
    several = [size for size in sizes if size > 1] or sizes
    return Counter(several).most_common(1)[0][0]

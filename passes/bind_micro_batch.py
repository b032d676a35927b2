"""Gives every feed a static shape: the dynamic first dimension becomes the micro-batch.

    x: [-1, 128]  ->  x: [micro_batch_size, 128]

Shapes of the values computed from feeds follow when PopART's builder infers them.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.pipeline import Compilation


class BindMicroBatch:
    """Replaces the first dimension of feeds where it is dynamic."""

    name = "bind_micro_batch"

    def run(self, compilation: Compilation) -> bool:
        micro_batch = int(compilation.options["micro_batch_size"])
        changed = False
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
                changed = True
        return changed

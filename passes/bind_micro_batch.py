"""Gives every feed a static shape: a dynamic first dimension becomes the micro-batch size.

    x: [-1, 128]  ->  x: [micro_batch_size, 128]

PopART's builder infers the shapes of computed values from them. If no feed is dynamic, the
micro-batch is that of the program's static shapes.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.own_rows import own_rows


class BindMicroBatch:
    """Replaces the first dimension of feeds where it is dynamic.

    Raises:
        InvalidProgramError: another dimension of a feed is dynamic.
    """

    name = "bind_micro_batch"
    requires = ("forward only",)
    ensures = ("static feeds",)

    def run(self, compilation: Compilation) -> bool:
        micro_batch = int(compilation.options["micro_batch_size"])
        shapes: list[list[int]] = []
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
            if dims:
                shapes.append(dims)
        compilation.rows_are_fixed = all(dims[0] != -1 for dims in shapes)
        compilation.rows = own_rows(shapes, micro_batch)
        return not compilation.rows_are_fixed

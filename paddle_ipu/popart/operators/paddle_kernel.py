"""Row of ai.paddle_ipu: an operator on Paddle's CPU kernels."""

from __future__ import annotations

import re

from paddle_ipu.dialect.dialect import POPART_DTYPES
from paddle_ipu.popart.op_schema import ANY, READS_EVERYTHING, UNPRICED, Attribute, paddle_ipu_row
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo

_KIND = re.compile(r"(?P<dtype>\w+)\[(?P<dims>[\d,]*)\]")


def result_kind(text: str) -> tuple[str, tuple[int, ...]]:
    """(dtype, shape) of one of the attribute ``results``, for instance ``float32[2,3]``."""
    match = _KIND.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a dtype with a shape, such as 'float32[2,3]'")
    return match["dtype"], tuple(int(dim) for dim in match["dims"].split(",") if dim)


def _as_told(ctx: InferenceContext) -> list[TensorInfo]:
    kinds = [result_kind(text) for text in ctx.attributes["results"]]
    return [TensorInfo(POPART_DTYPES[dtype], list(dims)) for dtype, dims in kinds]


paddle_ipu_row(
    "CpuKernel", (0, None), _as_told, ANY, UNPRICED, READS_EVERYTHING,
    [
        ("operator", Attribute("string", required=True)),
        ("results", Attribute("strings", required=True)),
    ], outputs=(1, None),
)  # fmt: skip

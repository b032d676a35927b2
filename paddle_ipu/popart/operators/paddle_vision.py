"""Rows of ai.paddle_ipu for images: windows of uneven sizes, sampling at points."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, Attribute, int_, ints, paddle_ipu_row
from paddle_ipu.popart.shape_inference import vision

_WINDOWS = [ints("counts", required=True), ints("starts", required=True), ints("ends", True)]

paddle_ipu_row("MaxOfWindows", 1, vision.max_of_windows, FLOATS, _WINDOWS, outputs=2)
paddle_ipu_row("SumOfWindows", 1, vision.sum_of_windows, FLOATS, _WINDOWS)
paddle_ipu_row(
    "GridSample",
    2,
    vision.grid_sample,
    FLOATS,
    [
        int_("align_corners", required=True),
        ("mode", Attribute("string", required=True)),
        ("padding_mode", Attribute("string", required=True)),
    ],
)
paddle_ipu_row("Unpool", 2, vision.unpool, (FLOATS, INTS), [ints("sizes", required=True)])

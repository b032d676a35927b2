"""Rows of ai.paddle_ipu for images: windows of uneven sizes, sampling at points."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    READS_EVERYTHING,
    UNPRICED,
    Attribute,
    float_,
    int_,
    ints,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import vision

_WINDOWS = [ints("counts", required=True), ints("starts", required=True), ints("ends", True)]

paddle_ipu_row(
    "MaxOfWindows", 1, vision.max_of_windows, FLOATS, UNPRICED, READS_EVERYTHING,
    _WINDOWS, outputs=2,
)  # fmt: skip
paddle_ipu_row(
    "SumOfWindows", 1, vision.sum_of_windows, FLOATS, UNPRICED, READS_EVERYTHING, _WINDOWS
)
paddle_ipu_row(
    "GridSample", 2, vision.grid_sample, FLOATS, UNPRICED, READS_EVERYTHING,
    [
        int_("align_corners", required=True), ("mode", Attribute("string", required=True)),
        ("padding_mode", Attribute("string", required=True)),
    ],
)  # fmt: skip
paddle_ipu_row(
    "Unpool", 2, vision.unpool, (FLOATS, INTS), UNPRICED, READS_EVERYTHING,
    [ints("sizes", required=True)],
)  # fmt: skip

_BINS = [
    int_("pooled_height", required=True),
    int_("pooled_width", required=True),
    float_("spatial_scale"),
]
_BOXES = (FLOATS, FLOATS, INTS)

paddle_ipu_row(
    "RoiAlign", 3, vision.regions, _BOXES, UNPRICED, READS_EVERYTHING,
    [*_BINS, int_("sampling_ratio", required=True), int_("aligned", required=True)],
)  # fmt: skip
paddle_ipu_row("RoiPool", 3, vision.regions, _BOXES, UNPRICED, READS_EVERYTHING, _BINS, outputs=2)
paddle_ipu_row(
    "PsRoiPool", 3, vision.regions_of_channels, _BOXES, UNPRICED, READS_EVERYTHING, _BINS
)
paddle_ipu_row(
    "DeformableConv", (3, 4), vision.deformable_conv, FLOATS, UNPRICED, READS_EVERYTHING,
    [
        *(ints(name, required=True) for name in ("strides", "paddings", "dilations")),
        int_("groups", required=True), int_("deformable_groups", required=True),
    ],
)  # fmt: skip
paddle_ipu_row(
    "YoloLoss", (3, 4), vision.yolo_loss, (FLOATS, FLOATS, INTS, FLOATS), UNPRICED,
    READS_EVERYTHING,
    [
        *(ints(name, required=True) for name in ("anchors", "anchor_mask")),
        int_("class_num", required=True), int_("downsample_ratio", required=True),
        int_("use_label_smooth", required=True),
        float_("ignore_thresh"), float_("scale_x_y"),
    ], outputs=3,
)  # fmt: skip

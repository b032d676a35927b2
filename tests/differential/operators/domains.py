"""What random draws seldom hit: attributes of few values, and operands of a certain kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.differential.operators.use import Array, Use

Random = np.random.Generator
Draw = Callable[[Random, Array, Use], Array]

_OF_BOXES = ("roi_align", "roi_pool", "psroi_pool", "distribute_fpn_proposals")
_BOXES = ("boxes", "ROIs", "fpn_rois", "FpnRois")
_YOLO_LOSS = ("yolo_loss", "yolov3_loss")
_OF_SCALES = (
    *("fake_quantize_range_abs_max", "fake_quantize_moving_average_abs_max"),
    *("fake_quantize_dequantize_moving_average_abs_max", "fake_channel_wise_dequantize_max_abs"),
    *("fake_dequantize_max_abs", "quantize_linear", "dequantize_linear"),
)

_OF_AVERAGES = (
    *("fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max"),
    "moving_average_abs_max_scale",
)

_OF_ROUNDING = (
    *("fake_quantize_abs_max", "fake_quantize_dequantize_abs_max", "fake_quantize_range_abs_max"),
    *("fake_channel_wise_quantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max"),
    *("fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max"),
    *("quantize_linear", "dequantize_linear"),
)

ATTRIBUTES: Mapping[tuple[str, str], Sequence[Any]] = {
    **{(op, "downsample_ratio"): (1, 2, 8, 32) for op in (*_YOLO_LOSS, "yolo_box")},
    **{(op, "moving_rate"): (0.9, 0.0, 0.5, 1.0, 1e-5) for op in _OF_AVERAGES},
    **{(op, "round_type"): (0, 1) for op in _OF_ROUNDING},
}
"""(operator, attribute) -> values that it may have."""

KEPT: frozenset[tuple[str, str]] = frozenset(
    {
        *(("viterbi_decode", name) for name in ("lengths", "Lengths")),
        *(("rnn", name) for name in ("sequence_length", "SequenceLength")),
    }
)
"""(operator, operand) whose numbers belong to the shapes of others; they stay as in the example."""


def _ascending(random: Random, array: Array, use: Use) -> Array:
    return np.sort(np.nan_to_num(array, posinf=9, neginf=-9), axis=-1) if array.ndim else array


def _positive(random: Random, array: Array, use: Use) -> Array:
    return random.uniform(0.01, 4.0, array.shape).astype(array.dtype)


def _share(random: Random, array: Array, use: Use) -> Array:
    return random.uniform(0.0, 1.0, array.shape).astype(array.dtype)


def _yes_or_no(random: Random, array: Array, use: Use) -> Array:
    return random.integers(0, 2, array.shape).astype(array.dtype)


def _counts(random: Random, array: Array, use: Use) -> Array:
    return random.integers(0, 1000, array.shape).astype(array.dtype)


def _class(random: Random, array: Array, use: Use) -> Array:
    classes = max(int(use.attributes.get("class_num", 1)), 1)
    return random.integers(0, classes, array.shape).astype(array.dtype)


def _pivots(random: Random, array: Array, use: Use) -> Array:
    size = max(array.shape[-1], 1) if array.ndim else 1
    return random.integers(1, size, array.shape, endpoint=True).astype(array.dtype)


def _length(random: Random, array: Array, use: Use) -> Array:
    """Of sequences as the first operand has them: [sequences, steps]."""
    first = next(iter(use.tensors()))[2].array
    steps = first.shape[1] if first.ndim > 1 else 1
    return random.integers(0, steps, array.shape, endpoint=True).astype(array.dtype)


def _boxes(random: Random, array: Array, use: Use) -> Array:
    """Left, top, right and bottom, some of them beyond the image; none without an area."""
    if not array.ndim or array.shape[-1] != 4:
        return array
    corner = random.uniform(-3.0, 8.0, (*array.shape[:-1], 2))
    size = random.uniform(0.5, 8.0, corner.shape)
    return np.concatenate([corner, corner + size], axis=-1).astype(array.dtype)


def _boxes_of_images(random: Random, array: Array, use: Use) -> Array:
    """How many of all boxes each image has."""
    boxes = next((t for name, _, t in use.tensors() if name in _BOXES), None)
    if boxes is None or not boxes.array.ndim or not array.size:
        return array
    ends = np.sort(random.integers(0, boxes.array.shape[0], array.size - 1, endpoint=True))
    counts = np.diff(ends, prepend=0, append=boxes.array.shape[0])
    return counts.reshape(array.shape).astype(array.dtype)


_ROWS: Sequence[tuple[Sequence[str], Sequence[str], Draw]] = (
    (("searchsorted", "bucketize"), ("sorted_sequence", "SortedSequence"), _ascending),
    (_OF_SCALES, ("in_scale", "InScale", "scale", "Scale", "scales", "Scales"), _positive),
    (("auc",), ("x", "Predict"), _share),
    (("auc",), ("label", "Label"), _yes_or_no),
    (("auc",), ("stat_pos", "StatPos", "stat_neg", "StatNeg"), _counts),
    (_YOLO_LOSS, ("gt_box", "GTBox", "gt_score", "GTScore"), _share),
    (_YOLO_LOSS, ("gt_label", "GTLabel"), _class),
    (("lu_unpack", "lu_solve"), ("y", "Pivots", "pivots"), _pivots),
    (("ctc_align",), ("input_length", "InputLength"), _length),
    (_OF_BOXES, _BOXES, _boxes),
    (_OF_BOXES, ("boxes_num", "RoisNum", "rois_num"), _boxes_of_images),
)

OPERANDS: Mapping[tuple[str, str], Draw] = {
    (op, name): draw for ops, names, draw in _ROWS for op in ops for name in names
}
"""(operator, operand) -> numbers for it, nine times out of ten."""

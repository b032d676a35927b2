"""Rules of operators on images: windows of uneven sizes, sampling, regions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.program import dims_of
from paddle_ipu.popart.standard_rules.emitter import Emitter, Rule

_Array = np.ndarray[Any, Any]


def _axes(emit: Emitter) -> Iterator[tuple[_Array, _Array]]:
    """(positions, which of them belong to the window), [windows, longest], of each axis."""
    at, starts, ends = 0, emit.attribute("starts"), emit.attribute("ends")
    for count, size in zip(emit.attribute("counts"), dims_of(emit.x)[2:], strict=True):
        first, past = np.asarray(starts[at : at + count]), np.asarray(ends[at : at + count])
        at += count
        longest = max(int((past - first).max(initial=1)), 1)
        positions = first[:, None] + np.arange(longest)
        yield np.clip(positions, 0, size - 1), positions < past[:, None]


def _sum_of_windows(emit: Emitter) -> Sequence[ir.Value]:
    """Each axis's windows laid out apart, what is outside of them zero, and summed."""
    x, rank = emit.x, len(dims_of(emit.x))
    for at, (positions, inside) in enumerate(_axes(emit), start=2):
        x = emit("Gather", [x, emit.constant(positions, np.int64)], axis=at)
        if not inside.all():
            mask = emit.constant(inside.reshape(*inside.shape, *[1] * (rank - at - 1)), np.bool_)
            x = emit.where(mask, x, emit.constant(0.0))
        x = emit.sum(x, at + 1)
    return [emit("Identity", [x])]


def _max_of_windows(emit: Emitter) -> Sequence[ir.Value]:
    """(the maximum of each window, its place in the image); of equal elements the first."""
    dims = dims_of(emit.x)
    axes = list(_axes(emit))
    rank, counts = len(axes), [positions.shape[0] for positions, _ in axes]
    shape = counts + [positions.shape[1] for positions, _ in axes]
    flat, inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for at, (positions, belongs) in enumerate(axes):
        stretched = [1] * (2 * rank)
        stretched[at], stretched[rank + at] = positions.shape
        flat += (positions * math.prod(dims[2 + at + 1 :])).reshape(stretched)
        inside &= belongs.reshape(stretched)
    windows = math.prod(counts)
    flat, inside = flat.reshape(windows, -1), inside.reshape(windows, -1)
    image = emit.reshape(emit.x, [*dims[:2], -1])
    apart = emit("Gather", [image, emit.constant(flat, np.int64)], axis=2)
    apart = emit.where(emit.constant(inside, np.bool_), apart, emit.constant(-np.inf))
    out = [*dims[:2], *counts]
    place = emit("ArgMax", [apart], axis=3, keepdims=1)
    gathered = emit("GatherElements", [apart, place], axis=3)
    # As Paddle, which begins with the lowest number, at no place.
    lowest = emit.constant(np.finfo(np.float32).min)
    is_any = emit("Greater", [gathered, lowest])
    largest = emit.reshape(emit.where(is_any, gathered, lowest), out)
    if not emit.is_used(1):
        return [largest]
    begins = emit.constant(np.arange(windows)[:, None] * flat.shape[1], np.int64)
    where = emit("Gather", [emit.constant(flat.ravel(), np.int64), emit("Add", [place, begins])])
    where = emit.where(is_any, where, emit.constant(-1, np.int64))
    return [largest, emit.as_result(emit.reshape(where, out), 1)]


def _unpool(emit: Emitter) -> Sequence[ir.Value]:
    """x [N, C, ...] written at places of the flattened image into zeros [N, C, *sizes]."""
    dims, sizes = dims_of(emit.x), [int(size) for size in emit.attribute("sizes")]
    empty = emit("Expand", [emit.constant(0.0), emit.int64s(*dims[:2], math.prod(sizes))])
    flat = emit.reshape(emit.x, [*dims[:2], -1])
    places = emit.reshape(emit.cast(emit.input(1), np.int64), [*dims[:2], -1])
    written = emit("ScatterElements", [empty, places, flat], axis=2)
    return [emit.reshape(written, [*dims[:2], *sizes])]


def _grid_sample(emit: Emitter) -> Sequence[ir.Value]:
    grid, sizes = emit.input(1), dims_of(emit.x)[2:]
    corners = int(emit.attribute("align_corners"))
    nearest = emit.attribute("mode") == "nearest"
    if nearest:
        # ONNX says nothing of points between two pixels: they move to the even one, as in Paddle.
        scale = [(size - 1 if corners else size) / 2 for size in reversed(sizes)]
        half = emit.constant(0.0 if corners else 0.5)
        factor = emit.constant(scale)
        centred = emit("Mul", [emit("Add", [grid, emit.constant(1.0)]), factor])
        pixels = emit("Sub", [centred, half])
        whole = emit("Add", [emit("Round", [pixels]), half])
        least = emit.constant([max(each, 0.5) for each in scale])
        grid = emit("Sub", [emit("Div", [whole, least]), emit.constant(1.0)])
    return [
        emit.later(
            "GridSample",
            [emit.x, grid],
            align_corners=corners,
            mode="nearest" if nearest else "linear",
            padding_mode=emit.attribute("padding_mode"),
        )
    ]


def _image_of_each_box(emit: Emitter) -> ir.Value:
    """int64 [boxes]: of which image a box is, from how many boxes each image has."""
    counts = emit.cast(emit.input(2), np.float32)
    ends = emit("CumSum", [counts, emit.constant(0, np.int64)])
    boxes = emit.constant(np.arange(dims_of(emit.input(1))[0])[:, None], np.float32)
    past = emit.flipped(emit("Less", [boxes, emit("Unsqueeze", [ends], axes=[0])]))
    return emit.sum(emit.cast(past, np.int64), 1)


def _bins(emit: Emitter) -> list[int]:
    return [int(emit.attribute("pooled_height")), int(emit.attribute("pooled_width"))]


def _roi_align(emit: Emitter) -> Sequence[ir.Value]:
    height, width = _bins(emit)
    aligned = bool(emit.attribute("aligned"))
    return [
        emit.later(
            "RoiAlign",
            [emit.x, emit.input(1), _image_of_each_box(emit)],
            coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
            output_height=height,
            output_width=width,
            sampling_ratio=max(int(emit.attribute("sampling_ratio")), 0),
            spatial_scale=float(emit.attribute("spatial_scale", 1.0)),
        )
    ]


def _roi_pool(emit: Emitter) -> Sequence[ir.Value]:
    if emit.is_used(1):
        raise popart_exception("MaxRoiPool does not give the positions of the maxima")
    images = emit("Unsqueeze", [emit.cast(_image_of_each_box(emit), np.float32)], axes=[1])
    boxes = emit("Concat", [images, emit.input(1)], axis=1)
    scale = float(emit.attribute("spatial_scale", 1.0))
    return [emit("MaxRoiPool", [emit.x, boxes], pooled_shape=_bins(emit), spatial_scale=scale)]


def _deformable_conv(emit: Emitter) -> Sequence[ir.Value]:
    dims = dims_of(emit.input(2))
    paddings = list(emit.attribute("paddings"))
    pads = paddings * 2 if len(paddings) == 2 else [paddings[at] for at in (0, 2, 1, 3)]
    return [
        emit.later(
            "DeformConv",
            [emit.x, emit.input(2), emit.input(1), None, *filter(None, [emit.optional(3)])],
            dilations=list(emit.attribute("dilations")),
            group=int(emit.attribute("groups")),
            kernel_shape=list(dims[2:]),
            offset_group=int(emit.attribute("deformable_groups")),
            pads=pads,
            strides=list(emit.attribute("strides")),
        )
    ]


RULES: Mapping[tuple[str, str], Rule] = {
    ("ai.paddle_ipu", "DeformableConv"): _deformable_conv,
    ("ai.paddle_ipu", "GridSample"): _grid_sample,
    ("ai.paddle_ipu", "MaxOfWindows"): _max_of_windows,
    ("ai.paddle_ipu", "RoiAlign"): _roi_align,
    ("ai.paddle_ipu", "RoiPool"): _roi_pool,
    ("ai.paddle_ipu", "SumOfWindows"): _sum_of_windows,
    ("ai.paddle_ipu", "Unpool"): _unpool,
}

"""Translators of object detection: anchors, box codes, YOLO, and pooling of regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.context import Array, TranslationContext
from paddle_ipu.ops.registry import translator


def _floats(context: TranslationContext, name: str) -> list[float]:
    return [float(number) for number in context.attr(name) or ()]


@translator("prior_box", emits=())
def prior_box(context: TranslationContext) -> list[str | None]:
    """SSD's default boxes (arXiv:1512.02325) at each position of a feature map, and variances.

    Boxes are [H, W, P, 4] as (left, top, right, bottom), relative to the image's size.
    """
    rows, columns = context.shape(context.input("input"))[2:]
    height, width = context.shape(context.input("image"))[2:]
    ratios = [1.0]
    for ratio in _floats(context, "aspect_ratios"):
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, 1.0 / ratio] if context.attr("flip", 0) else [ratio]
    maxima, halves = _floats(context, "max_sizes"), []
    for at, size in enumerate(_floats(context, "min_sizes")):
        by_ratio = [(size * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2) for ratio in ratios]
        square = [(math.sqrt(size * maxima[at]) / 2,) * 2] if maxima else []
        if context.attr("min_max_aspect_ratios_order", 0):
            halves += [by_ratio[0], *square, *by_ratio[1:]]
        else:
            halves += [*by_ratio, *square]
    if 0 in context.shape(context.input("input")) + context.shape(context.input("image")):
        # Paddle looks at the number of elements first, be the boxes independent of them or not.
        return _with_variances(context, np.zeros((rows, columns, len(halves), 4)), [0.0] * 4)
    step_w, step_h = float(context.attr("step_w", 0)), float(context.attr("step_h", 0))
    if step_w == 0 or step_h == 0:
        step_w, step_h = width / columns, height / rows
    offset = float(context.attr("offset", 0.5))
    x = (np.arange(columns) + offset)[None, :, None] * step_w
    y = (np.arange(rows) + offset)[:, None, None] * step_h
    half_w, half_h = np.asarray(halves).T
    sides = [(x - half_w) / width, (y - half_h) / height, (x + half_w) / width]
    sides.append((y + half_h) / height)
    boxes = np.stack(np.broadcast_arrays(*sides), axis=-1)
    if context.attr("clip", 0):
        boxes = boxes.clip(0.0, 1.0)
    return _with_variances(context, boxes, _floats(context, "variances"))


def _with_variances(
    context: TranslationContext, boxes: Array, variances: Sequence[float]
) -> list[str | None]:
    of_each = np.broadcast_to(np.asarray(variances), boxes.shape)
    return [context.const(boxes, "float32"), context.const(of_each, "float32")]


@translator("anchor_generator", emits=())
def anchor_generator(context: TranslationContext) -> list[str | None]:
    """Faster R-CNN's anchors (arXiv:1506.01497) at each position of a feature map, and variances.

    Boxes are [H, W, A, 4] as (left, top, right, bottom), in pixels.
    """
    rows, columns = context.shape(context.input("input"))[2:]
    step_w, step_h = _floats(context, "stride")
    offset, sizes = float(context.attr("offset", 0.5)), []
    for ratio in _floats(context, "aspect_ratios"):
        base_w = math.floor(math.sqrt(step_w * step_h / ratio) + 0.5)
        base_h = math.floor(base_w * ratio + 0.5)
        for size in _floats(context, "anchor_sizes"):
            sizes.append((size / step_w * base_w - 1, size / step_h * base_h - 1))
    x = (np.arange(columns) * step_w + offset * (step_w - 1))[None, :, None]
    y = (np.arange(rows) * step_h + offset * (step_h - 1))[:, None, None]
    half_w, half_h = np.asarray(sizes).T / 2
    sides = np.broadcast_arrays(x - half_w, y - half_h, x + half_w, y + half_h)
    return _with_variances(context, np.stack(sides, axis=-1), _floats(context, "variances"))


def _column(context: TranslationContext, x: str, at: int, axis: int = -1) -> str:
    """Index `at` of an axis, which is kept with size 1."""
    return context.slice(x, axis % context.rank(x), at, at + 1)


@translator(
    "box_coder",
    emits=("Slice", "Sub", "Add", "Mul", "Div", "Log", "Abs", "Exp", "Concat", "Reshape"),
)
def box_coder(context: TranslationContext) -> str:
    """Boxes to offsets from prior boxes (encode), or offsets to boxes (decode).

    With centres (x, y) and sizes (w, h), offsets are ``((x - px) / pw, (y - py) / ph, log(w / pw),
    log(h / ph))``, divided by the variances (arXiv:1506.01497). Encoding gives [N, M, 4] for N
    targets and M priors.
    """
    onnx, prior = context.onnx, context.input("prior_box")
    target, normalized = context.input("target_box"), bool(context.attr("box_normalized", 1))
    encode = str(context.attr("code_type")) == "encode_center_size"
    count, axis = context.shape(prior)[0], int(context.attr("axis", 0))
    shape = [1, count, 4] if encode or axis == 0 else [count, 1, 4]
    prior = context.reshape(prior, shape)
    half, pixel = context.const_like(0.5, prior), context.const_like(1.0, prior)
    x, y, w, h = _centred(context, prior, normalized)
    variances = _box_variances(context, shape, prior)
    if encode:
        target = context.reshape(target, [context.shape(target)[0], 1, 4])
        left, top, right, bottom = (_column(context, target, at) for at in range(4))
        _, _, wide, high = _centred(context, target, normalized)
        across = onnx.sub([onnx.mul([onnx.add([left, right]), half]), x])
        down = onnx.sub([onnx.mul([onnx.add([top, bottom]), half]), y])
        code = [
            onnx.div([across, w]),
            onnx.div([down, h]),
            onnx.log([onnx.abs([onnx.div([wide, w])])]),
            onnx.log([onnx.abs([onnx.div([high, h])])]),
        ]
        joined = onnx.concat(code, -1)
        return joined if variances is None else onnx.div([joined, variances])
    offsets = target if variances is None else onnx.mul([target, variances])
    dx, dy, dw, dh = (_column(context, offsets, at) for at in range(4))
    x = onnx.add([onnx.mul([dx, w]), x])
    y = onnx.add([onnx.mul([dy, h]), y])
    w = onnx.mul([onnx.mul([onnx.exp([dw]), w]), half])
    h = onnx.mul([onnx.mul([onnx.exp([dh]), h]), half])
    ends = [onnx.add([x, w]), onnx.add([y, h])]
    if not normalized:
        ends = [onnx.sub([end, pixel]) for end in ends]
    return onnx.concat([onnx.sub([x, w]), onnx.sub([y, h]), *ends], -1)


def _centred(context: TranslationContext, boxes: str, normalized: bool) -> list[str]:
    """Centre x, centre y, width and height; boxes in pixels include their last pixel."""
    left, top, right, bottom = (_column(context, boxes, at) for at in range(4))
    sizes = [context.onnx.sub([right, left]), context.onnx.sub([bottom, top])]
    if not normalized:
        one = context.const_like(1.0, boxes)
        sizes = [context.onnx.add([size, one]) for size in sizes]
    half = context.const_like(0.5, boxes)
    centres = [
        context.onnx.add([low, context.onnx.mul([size, half])])
        for low, size in zip((left, top), sizes, strict=True)
    ]
    return [*centres, *sizes]


def _box_variances(context: TranslationContext, shape: Sequence[int], prior: str) -> str | None:
    if context.has("prior_box_var"):
        return context.reshape(context.input("prior_box_var"), shape)
    variances = _floats(context, "variance")
    return context.const(np.asarray(variances), context.dtype(prior)) if variances else None


@translator(
    "yolo_box",
    emits=("Reshape", "Slice", "Sigmoid", "Exp", "Mul", "Add", "Sub", "Div", "Pow", "Cast",
           "Concat", "Transpose", "Less", "Where"),
)  # fmt: skip
def yolo_box(context: TranslationContext) -> list[str | None]:
    """Boxes and scores from YOLOv3's output [N, anchors * (5 + classes), H, W] (arXiv:1804.02767).

    Boxes [N, anchors * H * W, 4] and scores [N, anchors * H * W, classes] are zero if the
    confidence is below ``conf_thresh``.
    """
    onnx, x = context.onnx, context.input("x")
    pairs = np.asarray(context.attr("anchors"), np.float64).reshape(-1, 2)
    classes, anchors = int(context.attr("class_num")), len(pairs)
    count, channels, rows, columns = context.shape(x)
    aware = bool(context.attr("iou_aware", 0))
    ratio, scale = int(context.attr("downsample_ratio")), float(context.attr("scale_x_y", 1.0))
    overlap = ""
    if aware:
        overlap = context.slice(x, 1, 0, anchors)
        overlap = context.reshape(overlap, [count, anchors, 1, rows, columns])
        x = context.slice(x, 1, anchors, channels)
    cells = context.reshape(x, [count, anchors, 5 + classes, rows, columns])
    confidence = onnx.sigmoid([_column(context, cells, 4, 2)])
    if aware:
        weight = float(context.attr("iou_aware_factor", 0.5))
        own = onnx.pow([confidence, context.const_like(1.0 - weight, x)])
        theirs = onnx.pow([onnx.sigmoid([overlap]), context.const_like(weight, x)])
        confidence = onnx.mul([own, theirs])
    low = onnx.less([confidence, context.const_like(float(context.attr("conf_thresh")), x)])
    zero, half = context.const_like(0.0, x), context.const_like(0.5, x)
    image = context.cast(context.input("img_size"), context.dtype(x))
    image = context.reshape(image, [count, 2, 1, 1, 1])
    starts, ends, one = [], [], context.const_like(1.0, x)
    for at, (cells_of_axis, image_at) in enumerate(((columns, 1), (rows, 0))):
        size = _column(context, image, image_at, 1)
        steps = np.arange(cells_of_axis) - 0.5 * (scale - 1.0)
        steps = steps.reshape((1, 1, 1, 1, -1) if at == 0 else (1, 1, 1, -1, 1))
        inside = onnx.sigmoid([_column(context, cells, at, 2)])
        inside = onnx.mul([inside, context.const_like(scale, x)])
        centre = onnx.add([inside, context.const(steps, context.dtype(x))])
        centre = onnx.mul([centre, size])
        centre = onnx.div([centre, context.const_like(cells_of_axis, x)])
        # In the order of Paddle's kernel, by which it overflows.
        anchor = context.const(pairs[:, at].reshape(1, -1, 1, 1, 1), context.dtype(x))
        length = onnx.exp([_column(context, cells, at + 2, 2)])
        length = onnx.mul([onnx.mul([length, anchor]), size])
        length = onnx.div([length, context.const_like(ratio * cells_of_axis, x)])
        length = onnx.mul([length, half])
        start, end = onnx.sub([centre, length]), onnx.add([centre, length])
        if context.attr("clip_bbox", 1):
            # Not Max and Min, which pass on NaN: where a length overflows, Paddle's are the bounds.
            final = onnx.sub([size, one])
            start = onnx.where([onnx.less([zero, start]), start, zero])
            end = onnx.where([onnx.less([end, final]), end, final])
        starts.append(start)
        ends.append(end)
    boxes = onnx.where([low, zero, onnx.concat([*starts, *ends], 2)])
    scores = onnx.sigmoid([context.slice(cells, 2, 5, 5 + classes)])
    scores = onnx.mul([scores, confidence])
    scores = onnx.where([low, zero, scores])
    results = []
    for tensor, last in ((boxes, 4), (scores, classes)):
        transposed = onnx.transpose([tensor], [0, 1, 3, 4, 2])
        results.append(context.reshape(transposed, [count, anchors * rows * columns, last]))
    return list(results)


_ROI_INPUTS = "the boxes of each image must be counted by boxes_num, not by LoD"


def _rois(context: TranslationContext) -> list[str]:
    if not context.has("boxes_num"):
        raise context.refuse(
            "without boxes_num the images of the boxes are in their LoD, which a compiled "
            "program does not have; give boxes_num."
        )
    if (dtype := context.dtype(context.input("boxes_num"))) not in ("int32", "int64"):
        raise context.refuse(
            f"boxes_num is {dtype}, expected int32, as which Paddle's kernel reads its bytes. Cast "
            "it to int32."
        )
    return [context.input(name) for name in ("x", "boxes", "boxes_num")]


def _pooled(context: TranslationContext) -> dict[str, int | float]:
    return {
        "pooled_height": int(context.attr("pooled_height")),
        "pooled_width": int(context.attr("pooled_width")),
        "spatial_scale": float(context.attr("spatial_scale", 1.0)),
    }


@translator("roi_align", emits=("paddle_ipu.RoiAlign",), limits=_ROI_INPUTS)
def roi_align(context: TranslationContext) -> str:
    """The mean of bilinear samples in each bin of each box (arXiv:1703.06870)."""
    attributes = _pooled(context)
    attributes["sampling_ratio"] = int(context.attr("sampling_ratio", -1))
    attributes["aligned"] = int(context.attr("aligned", 0))
    return context.extension("RoiAlign", _rois(context), attributes)[0]


@translator("roi_pool", emits=("paddle_ipu.RoiPool",), limits=_ROI_INPUTS)
def roi_pool(context: TranslationContext) -> list[str | None]:
    """The maximum of each bin of each box (arXiv:1504.08083), and its flat index in the image."""
    return list(context.extension("RoiPool", _rois(context), _pooled(context), 2))


@translator("psroi_pool", emits=("paddle_ipu.PsRoiPool",), limits=_ROI_INPUTS)
def psroi_pool(context: TranslationContext) -> str:
    """The mean of each bin of each box, each bin from channels of its own (arXiv:1605.06409)."""
    return context.extension("PsRoiPool", _rois(context), _pooled(context))[0]


@translator("deformable_conv", emits=("paddle_ipu.DeformableConv",))
def deformable_conv(context: TranslationContext) -> str:
    """Convolution that samples at learnt offsets (arXiv:1703.06211).

    A ``mask`` multiplies each sample (arXiv:1811.11168).
    """
    names = ("x", "offset", "filter")
    inputs = [context.input(name) for name in names]
    if context.has("mask"):
        inputs.append(context.input("mask"))
    attributes: dict[str, object] = {
        name: context.ints(name) for name in ("strides", "paddings", "dilations")
    }
    attributes["groups"] = int(context.attr("groups", 1))
    attributes["deformable_groups"] = int(context.attr("deformable_groups", 1))
    return context.extension("DeformableConv", inputs, attributes)[0]


@translator("yolo_loss", emits=("paddle_ipu.YoloLoss",))
def yolo_loss(context: TranslationContext) -> list[str | None]:
    """YOLOv3's loss [N], the mask of objects, and which anchor each ground truth box matched."""
    inputs = [context.input(name) for name in ("x", "gt_box", "gt_label")]
    if context.has("gt_score"):
        inputs.append(context.input("gt_score"))
    images, (_, boxes, _) = context.shape(inputs[0])[0], context.shape(inputs[1])
    for name, read in zip(("gt_box", "gt_label", "gt_score"), inputs[1:], strict=False):
        shape = list(context.shape(read))
        if shape[:2] != [images, boxes]:
            raise context.refuse(
                f"{name} is {shape}: Paddle's kernel reads {boxes} boxes of each of {images} "
                f"images. Give it {[images, boxes, *shape[2:]]}."
            )
    attributes: dict[str, object] = {
        name: context.ints(name) for name in ("anchors", "anchor_mask")
    }
    count, chosen = len(context.ints("anchors")) // 2, context.ints("anchor_mask")
    if not all(0 <= anchor < count for anchor in chosen):
        raise context.refuse(
            f"anchor_mask {chosen} of {count} anchors: Paddle's kernel reads beyond them. Give "
            f"numbers from 0 to {count - 1}."
        )
    for name in ("class_num", "downsample_ratio", "use_label_smooth"):
        attributes[name] = int(context.attr(name))
    for name in ("ignore_thresh", "scale_x_y"):
        attributes[name] = float(context.attr(name))
    return list(context.extension("YoloLoss", inputs, attributes, 3))

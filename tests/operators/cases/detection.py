"""Cases of boxes, pooling of regions, and deformable convolution."""

from __future__ import annotations

import numpy as np
import paddle.vision.ops as V  # noqa: N812 - beside F of the other tables

from tests.operators.cases import vision_by_operator
from tests.operators.operator_case import CaseTable, Since, floats, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_BOXES = floats(
    [0.5, 1.2, 6.3, 5.9], [-2.0, -1.0, 3.4, 9.0], [2.5, 2.5, 2.9, 2.7], [4.0, 3.0, 15.0, 14.0]
)
_COUNTS = np.asarray([1, 3], np.int32)
_IMAGE = normal(2, 3, 8, 9)
_STEPS = np.floor(normal(2, 3, 8, 9) * 2)

_add(
    "roi_align",
    lambda x, boxes, large, n: [
        V.roi_align(x, large, n, 3),
        V.roi_align(x, large, n, (2, 3), spatial_scale=0.6, sampling_ratio=2),
        V.roi_align(x, boxes, n, (2, 3), sampling_ratio=2, aligned=False),
        V.roi_align(x, boxes, n, (4, 2), spatial_scale=0.6, aligned=False),
    ],
    gradient=("x",),
    x=_IMAGE,
    boxes=_BOXES,
    large=_BOXES + np.asarray([0.0, 0.0, 2.0, 2.0], np.float32),
    n=_COUNTS,
)
_add(
    "roi_align",
    lambda x, boxes, n: [V.roi_align(x, boxes, n, 3), V.roi_align(x, boxes, n, 2, 0.6)],
    label="aligned, less than a pixel",
    limitation="of an aligned box below one pixel Paddle's gradient is that of a whole pixel; here "
    "it is that of the box",
    x=_IMAGE,
    boxes=_BOXES,
    n=_COUNTS,
)
_add(
    "roi_pool",
    lambda x, y, boxes, n: [
        V.roi_pool(x, boxes, n, 2),
        V.roi_pool(y, boxes, n, (3, 2), spatial_scale=0.6),
    ],
    gradient=("x", "y"),
    x=_IMAGE,
    y=_STEPS,
    boxes=_BOXES,
    n=_COUNTS,
)
_add(
    "psroi_pool",
    lambda x, boxes, n: [
        vision_by_operator.psroi_pool(x, boxes, n, 2, 3, 1.0),
        vision_by_operator.psroi_pool(x, boxes, n, 2, 2, 0.6),
    ],
    gradient=("x",),
    x=normal(2, 12, 8, 9),
    boxes=_BOXES,
    n=_COUNTS,
)
for _op in ("roi_align", "roi_pool", "psroi_pool"):
    TABLE.refuse(
        _op,
        lambda x, boxes, op=_op: vision_by_operator.without_boxes_num(op, x, boxes),
        "without boxes_num",
        x=_IMAGE,
        boxes=_BOXES,
    )
TABLE.refuse(
    "roi_align",
    lambda x, boxes, n: V.roi_align(x, boxes, n, 2),
    "boxes_num is uint8, expected int32",
    x=_IMAGE,
    boxes=_BOXES,
    n=_COUNTS.astype(np.uint8),
)
_add(
    "prior_box",
    lambda x, image: [
        *V.prior_box(x, image, [4.0, 8.0]),
        *V.prior_box(
            x,
            image,
            [4.0, 8.0],
            max_sizes=[6.0, 12.0],
            aspect_ratios=[1.0, 2.0, 3.0],
            variance=[0.1, 0.1, 0.2, 0.3],
            flip=True,
            clip=True,
            steps=[5.0, 4.0],
            offset=0.25,
        ),
        *V.prior_box(
            x,
            image,
            [4.0],
            max_sizes=[6.0],
            aspect_ratios=[2.0],
            min_max_aspect_ratios_order=True,
        ),
    ],
    x=normal(1, 2, 3, 4),
    image=normal(1, 3, 12, 20),
)
_add(
    "anchor_generator",
    lambda x: vision_by_operator.anchor_generator(
        x, [32.0, 64.0], [0.5, 1.0, 2.0], [0.1, 0.1, 0.2, 0.2], [16.0, 12.0], 0.25
    ),
    x=normal(1, 2, 3, 4),
)
_PRIORS = floats([0.1, 0.2, 0.5, 0.9], [0.0, 0.1, 0.3, 0.4], [0.2, 0.2, 0.9, 0.8])
_add(
    "box_coder",
    lambda prior, variances, target: [
        V.box_coder(prior, variances, target),
        V.box_coder(prior, [0.1, 0.2, 0.3, 0.4], target, box_normalized=False),
        vision_by_operator.box_coder(prior, target, "encode_center_size"),
    ],
    label="encode",
    prior=_PRIORS,
    variances=uniform(3, 4),
    target=floats([0.3, 0.1, 0.8, 0.6], [0.0, 0.0, 0.2, 0.9]),
)
_add(
    "box_coder",
    lambda prior, variances, target: [
        V.box_coder(prior, variances, target, "decode_center_size"),
        V.box_coder(
            prior, [0.1, 0.2, 0.3, 0.4], target, "decode_center_size", box_normalized=False
        ),
        V.box_coder(
            prior,
            variances,
            target.transpose([1, 0, 2]),
            "decode_center_size",
            box_normalized=False,
            axis=1,
        ),
        vision_by_operator.box_coder(prior, target, "decode_center_size"),
    ],
    label="decode",
    prior=_PRIORS,
    variances=uniform(3, 4),
    target=normal(2, 3, 4),
)
_SIZES = np.asarray([[40, 50], [70, 30]], np.int32)
_add(
    "yolo_box",
    lambda x, size: [
        *V.yolo_box(x, size, [5, 7, 9, 4], 3, 0.4, 8),
        *V.yolo_box(x, size, [5, 7, 9, 4], 3, 0.01, 16, clip_bbox=False, scale_x_y=1.2),
    ],
    x=normal(2, 16, 3, 4),
    size=_SIZES,
)
_add(
    "yolo_box",
    lambda x, size: [
        *V.yolo_box(x, size, [5, 7, 9, 4], 3, 0.4, 8, iou_aware=True),
        *V.yolo_box(x, size, [5, 7, 9, 4], 3, 0.2, 8, iou_aware=True, iou_aware_factor=0.3),
    ],
    label="aware of the overlap",
    x=normal(2, 18, 3, 4),
    size=_SIZES,
)
_add(
    "deformable_conv",
    lambda x, offset, w: V.deform_conv2d(x, offset, w, padding=0),
    label="infinities at the edge",
    x=np.where(np.eye(3, dtype=bool), np.inf, 1.0).astype(np.float32)[None, None],
    offset=np.full((1, 2, 3, 3), 40.0, np.float32),
    w=normal(2, 1, 1, 1),
)
_add(
    "deformable_conv",
    lambda x, offset, w, mask: V.deform_conv2d(x, offset, w, padding=1, mask=mask),
    label="no images",
    since=Since("3.1", "an empty batch is refused or ends the process"),
    x=normal(0, 4, 5, 6),
    offset=normal(0, 18, 5, 6),
    w=normal(3, 4, 3, 3),
    mask=normal(0, 9, 5, 6),
)
_add(
    "deformable_conv",
    lambda x, offset, w, b, mask: [
        V.deform_conv2d(x, offset, w, b, padding=1, mask=mask),
        V.deform_conv2d(x, offset, w, padding=1),
    ],
    gradient=("x", "offset", "w", "b", "mask"),
    x=normal(2, 4, 5, 6),
    offset=normal(2, 18, 5, 6, seed=1),
    w=normal(3, 4, 3, 3),
    b=normal(3),
    mask=uniform(2, 9, 5, 6),
)
_add(
    "deformable_conv",
    lambda x, offset, w, mask: V.deform_conv2d(
        x,
        offset,
        w,
        stride=[2, 1],
        padding=[1, 2],
        dilation=[2, 1],
        deformable_groups=2,
        groups=2,
        mask=mask,
    ),
    gradient=("x", "offset", "w", "mask"),
    label="strides and groups",
    x=normal(2, 4, 5, 6),
    offset=normal(2, 24, 2, 9, seed=1),
    w=normal(4, 2, 3, 2),
    mask=uniform(2, 12, 2, 9),
)
_TRUE = floats(
    [[0.3, 0.4, 0.2, 0.3], [0.35, 0.45, 0.25, 0.3], [0.0, 0.0, 0.0, 0.0], [0.8, 0.2, 0.1, 0.05]],
    [[0.6, 0.9, 0.6, 0.7], [0.1, 0.1, 0.1, 0.0], [0.5, 0.5, 0.05, 0.06], [0.55, 0.3, 0.9, 0.8]],
)
_KINDS = np.asarray([[0, 2, 0, 1], [1, 0, 2, 2]], np.int32)
_ANCHORS = [3, 5, 8, 6, 20, 22]
_add(
    "yolo_loss",
    lambda x, box, kinds, score: [
        V.yolo_loss(x, box, kinds, _ANCHORS, [0, 1], 3, 0.5, 8, score),
        V.yolo_loss(x, box, kinds, _ANCHORS, [1, 2], 3, 0.2, 8, use_label_smooth=False),
        V.yolo_loss(x, box, kinds, _ANCHORS, [2, 0], 3, 0.1, 8, scale_x_y=1.2),
    ],
    gradient=("x",),
    x=normal(2, 16, 4, 4),
    box=_TRUE,
    kinds=_KINDS,
    score=uniform(2, 4, low=0.2, high=1.0),
)
_FLAT = normal(2, 16, 4, 4)
_FLAT[:, [2, 10]], _FLAT[:, [3, 11]] = 200, -200
_add(
    "yolo_loss",
    lambda x, box, kinds: V.yolo_loss(x, box, kinds, _ANCHORS, [0, 1], 3, -1.0, 8),
    gradient=("x",),
    label="boxes of infinite width and no height",
    x=_FLAT,
    box=_TRUE,
    kinds=_KINDS,
)

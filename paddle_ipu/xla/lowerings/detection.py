"""Lowering of YOLOv3's loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, optional_input
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


def _cross_entropy(x: jax.Array, label: jax.Array | float) -> jax.Array:
    """Cross entropy of the sigmoid of x; the derivative is ``sigmoid(x) - label`` everywhere."""
    return jnp.logaddexp(x, 0.0) - x * label


def _distance(x: jax.Array, y: jax.Array) -> jax.Array:
    """``|x - y|``, whose derivative is -1 where they are equal."""
    return jnp.where(x > y, x - y, y - x)


def _overlap(one: Array, other: jax.Array) -> jax.Array:
    """Intersection over union of boxes [..., centre x, centre y, width, height]."""
    low = jnp.maximum(one[..., :2] - one[..., 2:] / 2, other[..., :2] - other[..., 2:] / 2)
    high = jnp.minimum(one[..., :2] + one[..., 2:] / 2, other[..., :2] + other[..., 2:] / 2)
    sides = high - low
    shared = jnp.where(jnp.any(sides < 0, axis=-1), 0.0, sides[..., 0] * sides[..., 1])
    return shared / (one[..., 2] * one[..., 3] + other[..., 2] * other[..., 3] - shared)


@lowering("ai.paddle_ipu", "YoloLoss")
def yolo_loss(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The loss of each image (Redmon and Farhadi, arXiv:1804.02767), and the matches.

    x [N, A * (5 + classes), H, W], true boxes [N, B, 4] as centre, width and height in parts of the
    image, their classes and scores [N, B]. Returns (loss [N], objectness [N, A, H, W]: the score,
    0 or -1 for ignored; the anchor of each true box [N, B], -1 for none).
    """
    x, boxes, labels = (jnp.asarray(value) for value in inputs[:3])
    scores = optional_input(inputs, 3)
    boxes = lax.stop_gradient(boxes)
    weights = jnp.ones(labels.shape, x.dtype)
    if scores is not None:
        weights = lax.stop_gradient(jnp.asarray(scores))
    sizes = np.asarray(attributes["anchors"], np.float32).reshape(-1, 2)
    used, classes = list(attributes["anchor_mask"]), int(attributes["class_num"])
    count, _, high, wide = x.shape
    pixels = int(attributes["downsample_ratio"]) * high
    cells = x.reshape(count, len(used), 5 + classes, high, wide)

    valid = (boxes[..., 2] >= 1e-6) & (boxes[..., 3] >= 1e-6)
    predicted = lax.stop_gradient(_predicted(cells, sizes[used] / pixels, attributes))
    overlaps = _overlap(predicted[:, :, None], boxes[:, None, :, None, None])
    # An overlap that is NaN, as of a box of infinite width and no height, is no overlap.
    counts = valid[:, None, :, None, None] & (overlaps > 0)
    best = jnp.max(jnp.where(counts, overlaps, 0.0), axis=2)
    objectness = jnp.where(best > attributes["ignore_thresh"], -1.0, 0.0).astype(x.dtype)

    shapes = jnp.concatenate([jnp.zeros_like(boxes[..., :2]), boxes[..., 2:]], axis=-1)
    anchors = np.concatenate([np.zeros_like(sizes), sizes / np.float32(pixels)], axis=-1)
    nearest = jnp.argmax(_overlap(anchors, shapes[:, :, None]), axis=-1)
    # Of an anchor that is used twice the first use counts.
    use_of = np.full(len(sizes), -1, np.int32)
    for use in reversed(range(len(used))):
        use_of[used[use]] = use
    matched = jnp.where(valid, jnp.asarray(use_of)[nearest], -1)

    column = (boxes[..., 0] * wide).astype(jnp.int32)
    row = (boxes[..., 1] * high).astype(jnp.int32)
    for what, part, cells_of_axis in (("row", row, high), ("column", column, wide)):
        of_matched = jnp.where(matched >= 0, part, 0)
        context.within(f"{what} of the centre of a box", of_matched, 0, cells_of_axis - 1)
    cell = (matched * high + row) * wide + column
    # Of several boxes in one cell the last counts, for objectness and for the gradient.
    later = np.triu(np.ones((boxes.shape[1],) * 2, bool), 1)
    repeated = (cell[:, :, None] == cell[:, None]) & (matched >= 0)[:, None] & later
    last = (matched >= 0) & ~jnp.any(repeated, axis=-1)
    image = jnp.arange(count)[:, None]
    # The others are written behind the end, which drops them.
    target = jnp.where(last, cell, objectness[0].size)
    flat = objectness.reshape(count, -1).at[image, target].set(weights, mode="drop")
    objectness = flat.reshape(objectness.shape)

    entries = cells[image, jnp.maximum(matched, 0), :, row, column]
    losses = _location(entries, boxes, jnp.asarray(sizes)[nearest], (row, column), high, pixels)
    losses = (losses + _class_loss(entries, labels, attributes)) * weights
    losses = jnp.where(matched >= 0, losses, 0.0)
    losses = jnp.where(last, losses, lax.stop_gradient(losses))
    confidence = cells[:, :, 4]
    negative = jnp.where(objectness > -0.5, _cross_entropy(confidence, 0.0), 0.0)
    positive = _cross_entropy(confidence, 1.0) * objectness
    present = jnp.where(objectness > 1e-5, positive, negative)
    total = jnp.sum(losses, axis=1) + jnp.sum(present, axis=(1, 2, 3))
    return total, objectness, matched.astype(jnp.int32)


def _predicted(cells: jax.Array, anchors: Array, attributes: Attributes) -> jax.Array:
    """The boxes that the cells predict, [N, A, H, W, 4]."""
    scale = float(attributes["scale_x_y"])
    bias = -0.5 * (scale - 1.0)
    high, wide = cells.shape[-2:]
    x = (jax.nn.sigmoid(cells[:, :, 0]) * scale + bias + jnp.arange(wide)) / high
    y = (jax.nn.sigmoid(cells[:, :, 1]) * scale + bias + jnp.arange(high)[:, None]) / high
    across, down = (anchors[:, axis, None, None] for axis in (0, 1))
    return jnp.stack(
        [x, y, jnp.exp(cells[:, :, 2]) * across, jnp.exp(cells[:, :, 3]) * down], axis=-1
    )


def _location(
    entries: jax.Array, boxes: jax.Array, anchors: jax.Array, cells: Pair, grid: int, pixels: int
) -> jax.Array:
    """The loss of the boxes' centres, widths and heights [N, B]; small boxes count more."""
    row, column = cells
    tiny = jnp.maximum(boxes[..., 2:], 1e-6)
    wide, high = (jnp.log(tiny[..., at] * pixels / anchors[..., at]) for at in (0, 1))
    total = _cross_entropy(entries[..., 0], boxes[..., 0] * grid - column)
    total += _cross_entropy(entries[..., 1], boxes[..., 1] * grid - row)
    total += _distance(entries[..., 2], wide) + _distance(entries[..., 3], high)
    return total * (2.0 - boxes[..., 2] * boxes[..., 3])


def _class_loss(entries: jax.Array, labels: jax.Array, attributes: Attributes) -> jax.Array:
    """The cross entropy of the classes [N, B]; with label smoothing as in Paddle."""
    classes = int(attributes["class_num"])
    smooth = min(1.0 / classes, 1.0 / 40) if attributes["use_label_smooth"] else 0.0
    is_class = labels[..., None] == jnp.arange(classes)
    target = jnp.where(is_class, 1.0 - smooth, smooth)
    return jnp.sum(_cross_entropy(entries[..., 5:], target), axis=-1)

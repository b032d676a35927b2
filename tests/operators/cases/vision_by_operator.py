"""Uses of operators on images that Paddle's public API does not reach, or not in every version."""

from __future__ import annotations

from typing import Any

import paddle

from tests.operators.cases.one_operator import append


def pool2d(
    x: Any, size: int, kind: str, adaptive: bool = False, global_pooling: bool = False
) -> Any:
    """Pooling to `size` outputs an axis, or over the whole image; `kind` is "max" or "avg"."""
    return _pool(x, [size] * 2, kind, adaptive, global_pooling)


def pool3d(
    x: Any, size: int, kind: str, adaptive: bool = False, global_pooling: bool = False
) -> Any:
    """`pool2d` of a volume."""
    return _pool(x, [size] * 3, kind, adaptive, global_pooling)


def _pool(x: Any, sizes: list[int], kind: str, adaptive: bool, global_pooling: bool) -> Any:
    rank = len(sizes)
    layout = "NCHW" if rank == 2 else "NCDHW"
    ones, zeros = [1] * rank, [0] * rank
    if paddle.framework.in_pir_mode():
        write = paddle._C_ops.pool2d if rank == 2 else paddle._C_ops.pool3d
        return write(
            x, sizes, ones, zeros, False, True, layout, kind, global_pooling, adaptive, "EXPLICIT"
        )
    (pooled,) = append(
        f"pool{rank}d",
        {"X": x},
        {"Out": x.dtype},
        pooling_type=kind,
        ksize=sizes,
        strides=ones,
        paddings=zeros,
        global_pooling=global_pooling,
        adaptive=adaptive,
    )
    return pooled


def fractional_max_pool2d(x: Any, output_size: list[int], random_u: float = 0.0) -> Any:
    """Fractional max pooling that draws its windows itself, where `random_u` is 0."""
    return paddle._C_ops.fractional_max_pool2d(x, output_size, [0, 0], random_u, True)[0]


def group_norm(
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> Any:
    """``paddle.nn.functional.group_norm``, which Paddle 2.6 does not have."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.group_norm(x, weight, bias, epsilon, groups, layout)
    normal, _, _ = append(
        "group_norm",
        {"X": x, "Scale": weight, "Bias": bias},
        {"Y": x.dtype, "Mean": x.dtype, "Variance": x.dtype},
        groups=groups,
        epsilon=epsilon,
        data_layout=layout,
    )
    return normal


def affine_channel(x: Any, scale: Any, bias: Any, layout: str) -> Any:
    """``x * scale + bias`` by channel."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.affine_channel(x, scale, bias, layout)
    inputs = {"X": x, "Scale": scale, "Bias": bias}
    return append("affine_channel", inputs, {"Out": x.dtype}, data_layout=layout)[0]


def spectral_norm(
    weight: Any, u: Any, v: Any, dim: int, power_iters: int, eps: float = 1e-12
) -> Any:
    """The weight divided by its largest singular value."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.spectral_norm(weight, u, v, dim, power_iters, eps)
    return append(
        "spectral_norm",
        {"Weight": weight, "U": u, "V": v},
        {"Out": weight.dtype},
        dim=dim,
        power_iters=power_iters,
        eps=eps,
    )[0]


def nearest_interp(x: Any, size: list[int], align_corners: bool) -> Any:
    """Interpolation by the nearest element, whose corners ``interpolate`` does not align."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.nearest_interp(
            x, None, None, None, "NCHW", 0, *size, [], "nearest", align_corners, 1
        )
    return append(
        "nearest_interp_v2",
        {"X": x},
        {"Out": x.dtype},
        out_h=size[0],
        out_w=size[1],
        interp_method="nearest",
        align_corners=align_corners,
    )[0]


def anchor_generator(
    x: Any,
    sizes: list[float],
    ratios: list[float],
    variances: list[float],
    stride: list[float],
    offset: float,
) -> list[Any]:
    """Anchors and their variances for each position of a feature map."""
    if paddle.framework.in_pir_mode():
        return list(paddle._C_ops.anchor_generator(x, sizes, ratios, variances, stride, offset))
    return append(
        "anchor_generator",
        {"Input": x},
        {"Anchors": x.dtype, "Variances": x.dtype},
        anchor_sizes=sizes,
        aspect_ratios=ratios,
        variances=variances,
        stride=stride,
        offset=offset,
    )


def psroi_pool(
    x: Any, boxes: Any, boxes_num: Any, height: int, width: int, spatial_scale: float
) -> Any:
    """``paddle.vision.ops.psroi_pool``, which forgets boxes_num in a program of Paddle 2.6."""
    channels = x.shape[1] // (height * width)
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.psroi_pool(x, boxes, boxes_num, height, width, channels, spatial_scale)
    return append(
        "psroi_pool",
        {"X": x, "ROIs": boxes, "RoisNum": boxes_num},
        {"Out": x.dtype},
        pooled_height=height,
        pooled_width=width,
        output_channels=channels,
        spatial_scale=spatial_scale,
    )[0]


def without_boxes_num(kind: str, x: Any, boxes: Any) -> Any:
    """Pooling of boxes whose images only a LoD would tell."""
    if paddle.framework.in_pir_mode():
        write = getattr(paddle._C_ops, kind)
        given = {"roi_align": (1, 1, 1.0, -1, False), "psroi_pool": (1, 1, 3, 1.0)}
        made = write(x, boxes, None, *given.get(kind, (1, 1, 1.0)))
        return made[0] if isinstance(made, (list, tuple)) else made
    slots = ["Out", "Argmax"] if kind == "roi_pool" else ["Out"]
    more = {"output_channels": 3} if kind == "psroi_pool" else {}
    return append(kind, {"X": x, "ROIs": boxes}, dict.fromkeys(slots, x.dtype), **more)[0]


def box_coder(prior: Any, target: Any, code_type: str) -> Any:
    """``paddle.vision.ops.box_coder`` without variances, which the function insists on."""
    if paddle.framework.in_pir_mode():
        return paddle._C_ops.box_coder(prior, None, target, code_type, True, 0, [])
    return append(
        "box_coder",
        {"PriorBox": prior, "TargetBox": target},
        {"OutputBox": prior.dtype},
        code_type=code_type,
    )[0]

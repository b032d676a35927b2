"""Inference of convolution, pooling and normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def _list(x: Sequence[int]) -> str:
    return f"[{', '.join(map(str, x))}]"


def check_window(
    rank: int,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    in_dilations: Sequence[int] = (),
) -> None:
    """Raises PopART's exceptions where lists do not fit so many spatial dimensions; empty ones do.

    Args:
        rank: how many spatial dimensions there are.
        pads: all begins, then all ends.
    """
    if rank < 1:
        raise popart_exception("Input tensor has no spatial dimensions")
    if strides and len(strides) != rank:
        raise popart_exception(
            f"Length of strides vector {len(strides)} != number of spatial dimensions {rank}"
        )
    if 0 in strides:
        raise popart_exception(f"Strides invalid. 0 stride at index {list(strides).index(0)}")
    if pads and len(pads) != 2 * rank:
        raise popart_exception(
            f"Padding vector (length {len(pads)}) does not have 2 values for each spatial "
            f"dimension {rank}"
        )
    for name, given in (("dilations", dilations), ("inDilations", in_dilations)):
        if given and len(given) != rank:
            raise popart_exception(
                f"Length of {name} vector {len(given)} != number of spatial dimensions {rank}"
            )


def _window_dims(
    ctx: InferenceContext, spatial: Sequence[int], kernel: Sequence[int]
) -> tuple[int, ...]:
    """Output sizes of a window sliding over `spatial`, from the node's attributes.

    floor or, with `ceil_mode`, ceil of (size + pads - (dilation·(kernel - 1) + 1)) / stride, + 1.
    `auto_pad` of an imported model may be SAME: then it is ceil of size / stride.
    """
    rank = len(spatial)
    attributes = ctx.attributes
    strides = list(attributes.get("strides") or [1] * rank)
    pads = list(attributes.get("pads") or [0] * (2 * rank))
    dilations = list(attributes.get("dilations") or [1] * rank)
    check_window(rank, strides, pads, dilations)
    mode = attributes.get("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise ctx.error(f"Invalid auto_pad provied: {mode}")
    if mode.startswith("SAME"):
        return tuple(-(-size // stride) for size, stride in zip(spatial, strides, strict=True))
    out = []
    for axis, size in enumerate(spatial):
        span = size + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1
        if attributes.get("ceil_mode"):
            out.append(-(-span // strides[axis]) + 1)
        else:
            out.append(span // strides[axis] + 1)
    if any(dim < 0 for dim in out):
        raise popart_exception(
            "Window parameter values combine to give invalid spatial output shape: "
            f"{shape_string(out)}. In {ctx.op} the window {shape_string(kernel)} is larger than "
            f"the padded input {shape_string(spatial)}."
        )
    return tuple(out)


def conv(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, *spatial], w [M, C / group, *kernel], bias [M]) -> [N, M, *out]."""
    dtype = ctx.same_dtype(0, 1, 2)
    x = ctx.expect_rank(0, 3).dims
    w = ctx.expect_rank(1, len(x), len(x)).dims
    group = ctx.attributes["group"]
    if group < 1:
        raise popart_exception(f"group attribute in {ctx.op} must be greater than zero")
    fault = (
        f"group {group} does not fit: data {shape_string(x)} has {x[1]} channels, weights "
        f"{shape_string(w)} take {w[1]} channels in each group and give {w[0]}"
    )
    if x[1] != w[1] * group:
        raise popart_exception(
            f"Invalid value for group ({group}) in {ctx.op}. number of input channels ({x[1]}) / "
            f"group ({group}) should be equal to the weight inputs second dimension ({w[1]}): "
            f"{fault}"
        )
    if w[0] % group:
        raise ctx.error(fault)
    kernel = list(ctx.attributes.get("kernel_shape") or w[2:])
    if tuple(kernel) != w[2:]:
        raise popart_exception(
            f"kernel_shape, {shape_string(kernel)}, does not match inferred shape from weight "
            f"input '{ctx.input_id(1)}', {shape_string(w[2:])}"
        )
    if ctx.has(2) and ctx.info(2).dims != (w[0],):
        raise ctx.error(f"the bias must have shape [{w[0]}], got {ctx.info(2)}")
    return [TensorInfo.of(dtype, (x[0], w[0], *_window_dims(ctx, x[2:], kernel)))]


def check_auto_pad(mode: str, output_shape: Sequence[int], rank: int) -> None:
    """Raises a popart_exception where a ConvTranspose's `auto_pad` has nothing to make pads of.

    Args:
        mode: the attribute, which a node may have been given only after it was made.
        output_shape: the attribute; empty for none.
        rank: number of spatial dimensions.
    """
    sized = len(output_shape) == rank
    if mode == "VALID" and sized:
        raise popart_exception(
            "`VALID` type for auto_pad cannot be used if the `output_shape` is also set"
        )
    if mode not in ("NOTSET", "VALID") and not sized:
        raise popart_exception(
            f"auto_pad {mode} of a ConvTranspose needs output_shape with {rank} sizes"
        )


def conv_transpose(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, *spatial], w [C, M / group, *kernel], bias [M]) -> [N, M, *out].

    out is ``stride * (size - 1) + output_padding + kernel - pads``, or ``output_shape``: sizes of
    the spatial dimensions, which make the pads, or of all of them, which the pads must give.
    """
    dtype = ctx.same_dtype(0, 1, 2)
    x = ctx.expect_rank(0, 3).dims
    w = ctx.expect_rank(1, len(x), len(x)).dims
    rank, attributes = len(x) - 2, ctx.attributes
    group = attributes["group"]
    if x[1] != w[0] or group < 1 or x[1] % group:
        raise popart_exception(
            f"Unexpected number of channels in the input tensor: {x[1]}. Given non-transposed "
            f"weight tensor of shape {shape_string(w)}, transposed convolution expects input "
            f"tensor of size {shape_string(x)} to have {w[0]} channels."
        )
    if set(attributes.get("dilations") or [1]) != {1}:
        raise popart_exception("Non default value for dilations is not supported.")
    channels = w[1] * group
    if ctx.has(2) and ctx.info(2).dims != (channels,):
        raise ctx.error(f"the bias must have shape [{channels}], got {ctx.info(2)}")
    given = list(attributes.get("output_shape") or [])
    if len(given) not in (0, rank, rank + 2):
        raise ctx.error(
            f"output_shape {given} must have {rank} sizes, one a spatial dimension, or all "
            f"{rank + 2}"
        )
    check_auto_pad(attributes.get("auto_pad", "NOTSET"), given, rank)
    strides = list(attributes.get("strides") or [1] * rank)
    pads = list(attributes.get("pads") or [0] * (2 * rank))
    extra = list(attributes.get("output_padding") or [0] * rank)
    out = [
        strides[axis] * (x[axis + 2] - 1)
        + extra[axis]
        + w[axis + 2]
        - pads[axis]
        - pads[axis + rank]
        for axis in range(rank)
    ]
    if len(given) > rank and given != [x[0], channels, *out]:
        raise ctx.error(f"output_shape {given} must be {[x[0], channels, *out]}, as the pads give")
    if len(given) == rank:
        out = given
    if any(size < 1 for size in out):
        raise ctx.error(f"has invalid output shape, {_list(out)}")
    return [TensorInfo.of(dtype, (x[0], channels, *out))]


def _refuse_unsupported(ctx: InferenceContext) -> None:
    """What ONNX has and PopART's pools have not."""
    attributes = ctx.attributes
    if attributes.get("count_include_pad"):
        raise ctx.error("`count_include_pad` is not supported")
    if attributes.get("storage_order"):
        raise ctx.error("storage_order != 0, not supported")
    if any(dilation != 1 for dilation in attributes.get("dilations") or ()):
        raise ctx.told(
            f"{ctx.identifier.split('.')[-1].split(':')[0]} has dilations "
            f"{shape_string(attributes['dilations'])}. Dilations of value other than 1 are "
            "currently not supported.",
            "has dilations != 1, not supported",
        )


def pool(ctx: InferenceContext) -> list[TensorInfo]:
    """x [N, C, *spatial] -> [N, C, *out]."""
    x = ctx.expect_rank(0, 3)
    kernel = list(ctx.attributes["kernel_shape"])
    _refuse_unsupported(ctx)
    if len(kernel) != len(x.dims) - 2:
        raise ctx.told(
            "invalid kernel_shape, not same rank as the tensor operated on.",
            f"kernel_shape {kernel} must have one size for each of the {len(x.dims) - 2} spatial "
            f"dimensions of {shape_string(x.dims)}",
        )
    return [TensorInfo.of(x.dtype, (*x.dims[:2], *_window_dims(ctx, x.dims[2:], kernel)))]


def global_pool(ctx: InferenceContext) -> list[TensorInfo]:
    """x [N, C, *spatial] -> [N, C, 1, ...]."""
    x = ctx.expect_rank(0, 3)
    return [TensorInfo.of(x.dtype, x.dims[:2] + (1,) * (len(x.dims) - 2))]


def batch_normalization(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, *spatial], scale, bias, mean, var [C]) -> y, and four [C] when training.

    With `spatial` 0, which opsets up to 8 have, each element of a sample is normalised by itself
    and the parameters have the shape [C, *spatial].
    """
    x = ctx.info(0)
    by_channel = bool(ctx.attributes.get("spatial", 1))
    if len(x.dims) < (3 if by_channel else 2):
        raise popart_exception(
            f"batch norm requires X to have a rank >= 3.  x has rank {len(x.dims)}"
        )
    for index, name in enumerate(("scale", "B", "mean", "var"), start=1):
        got = ctx.info(index).dims
        wanted = x.dims[1:2] if by_channel else x.dims[1:]
        if got != wanted:
            matched = "dimension 1" if by_channel else "all but dimension 0"
            raise popart_exception(
                f"expected shape of batch norm input tensor {name} ({shape_string(got)}) to be "
                f"{shape_string(wanted)} to match {matched} of X ({shape_string(x.dims)})"
            )
    if ctx.num_outputs not in (1, 5):
        raise ctx.error(f"has 1 output (inference) or 5 (training), {ctx.num_outputs} asked for")
    mean, var = ctx.info(3), ctx.info(4)
    return [x, mean, var, mean, var][: ctx.num_outputs]


def instance_normalization(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, *spatial], scale, bias [C]) -> y."""
    x = ctx.expect_rank(0, 3)
    for index, name in ((1, "scale"), (2, "bias")):
        if ctx.info(index).dims != (x.dims[1],):
            raise ctx.error(f"the {name} must have shape [{x.dims[1]}], got {ctx.info(index)}")
    return [x]


def group_normalization(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, ...], scale, bias [C]) -> y, mean and inverse deviation [N * num_groups]."""
    x = ctx.expect_rank(0, 2)
    groups = ctx.attributes["num_groups"]
    if groups < 1 or x.dims[1] % groups:
        raise ctx.error(
            f"num_groups {groups} does not divide the {x.dims[1]} channels of "
            f"{shape_string(x.dims)}"
        )
    for index, name in ((1, "scale"), (2, "bias")):
        if ctx.info(index).dims != (x.dims[1],):
            raise ctx.error(f"the {name} must have shape [{x.dims[1]}], got {ctx.info(index)}")
    statistics = TensorInfo.of(x.dtype, (x.dims[0] * groups,))
    return [x, statistics, statistics]


def local_response_normalization(ctx: InferenceContext) -> list[TensorInfo]:
    """x [N, C, ...] -> y; `size` channels are looked at."""
    if ctx.attributes["size"] < 1:
        raise popart_exception(f"LRN requires size to be >= 1. size is {ctx.attributes['size']}")
    return [ctx.expect_rank(0, 2)]


def roi_align(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [N, C, H, W], boxes [R, 4], image of each box [R]) -> [R, C, height, width]."""
    for index, rank, name in ((0, 4, "data"), (1, 2, "rois"), (2, 1, "batch_index")):
        if len(ctx.info(index).dims) != rank:
            raise popart_exception(f"The size of input {name} must be {rank}")
    x, boxes = ctx.info(0), ctx.info(1)
    if boxes.dims[1] != 4 or ctx.info(2).dims != boxes.dims[:1]:
        raise ctx.error(
            f"the boxes must have shape [R, 4] and their images [R], got {boxes} and {ctx.info(2)}"
        )
    if ctx.attributes["mode"] != "avg":
        raise ctx.error(f"mode is '{ctx.attributes['mode']}', PopART has avg only")
    bins = (ctx.attributes["output_height"], ctx.attributes["output_width"])
    return [TensorInfo.of(x.dtype, (boxes.dims[0], x.dims[1], *bins))]

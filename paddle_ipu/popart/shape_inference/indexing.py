"""Inference of operators that scatter and pick elements."""

from __future__ import annotations

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import Dims, InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def expanded_indices(indices: Dims, rank: int, axis: int, grouped: bool) -> Dims:
    """The shape of ScatterReduce's indices with 1 for each dimension of the data they lack.

    A vector stands along the axis; indices of more dimensions get the missing ones at the end.
    """
    lead = int(grouped)
    if len(indices) - lead == 1:
        indices = (*indices[:lead], *(1,) * (axis - lead), *indices[lead:])
    return (*indices, *(1,) * (rank - len(indices)))


def scatter_reduce(ctx: InferenceContext) -> list[TensorInfo]:
    """(data, indices, initial values): data reduced into an axis of ``axis_size`` elements."""
    data, indices = ctx.expect_rank(0, 1), ctx.expect_rank(1, 1)
    rank, attributes = len(data.dims), ctx.attributes
    size, axis = attributes["axis_size"], attributes.get("axis", -1)
    groups, broadcast = attributes.get("group_size", 1), attributes.get("enable_index_broadcast", 1)
    if not -rank <= axis < rank:
        raise ctx.error(
            f"ScatterReduceOp::setup axis = {axis} is outside the acceptable range "
            f"[{-rank}, {rank - 1}]"
        )
    axis %= rank
    for name, number in (("axis_size", size), ("group_size", groups)):
        if number < 1:
            raise ctx.error(f"ScatterReduceOp {name} = {number} is not valid: must be > 0.")
    if broadcast not in (0, 1):
        raise ctx.error(
            f"ScatterReduceOp enable_index_broadcast = {broadcast} is not valid: must be either 0 "
            "or 1."
        )
    if len(indices.dims) > rank:
        raise ctx.error(
            f"Invalid rank for indices input. Indices rank {len(indices.dims)} must be <= data "
            f"input rank {rank}."
        )
    full = expanded_indices(indices.dims, rank, axis, groups > 1)
    if len(full) != rank or any(a > b for a, b in zip(full, data.dims, strict=True)):
        raise ctx.error(
            f"Failed to expand 'indices' shape {shape_string(indices.dims)} to match 'src' shape "
            f"{shape_string(data.dims)} using reduction axis = {axis}."
        )
    if ctx.has(2):
        ctx.same_dtype(0, 2)
        return [ctx.info(2)]
    if full != data.dims and broadcast:
        wide = [at for at, dim in enumerate(full) if dim != 1 and at != axis]
        if wide != ([0] if groups > 1 else []):
            raise ctx.error("Partial broadcasting of indices is not currently supported.")
    dims = list(data.dims if broadcast else full)
    dims[axis] = size
    return [TensorInfo.of(data.dtype, tuple(dims))]


def _fits_but_along(axis: int, dims: Dims, whole: Dims) -> bool:
    """Whether a shape has the rank of another one and is no larger, but along one axis."""
    return len(dims) == len(whole) and all(
        at == axis or dim <= most for at, (dim, most) in enumerate(zip(dims, whole, strict=True))
    )


def take_along_axis(ctx: InferenceContext) -> list[TensorInfo]:
    """(data, indices): an element for each index; other dimensions are at most the data's."""
    data, indices = ctx.expect_rank(0, 1), ctx.info(1)
    axis = ctx.axis(ctx.attributes["axis"], len(data.dims))
    if not _fits_but_along(axis, indices.dims, data.dims):
        raise ctx.error(
            f"indices '{ctx.input_id(1)}' {shape_string(indices.dims)} must have the rank of data "
            f"{shape_string(data.dims)} and no larger dimension but axis {axis}"
        )
    return [TensorInfo.of(data.dtype, indices.dims)]


def put_along_axis(ctx: InferenceContext) -> list[TensorInfo]:
    """(data, indices, values): the data's type; indices and values have one shape."""
    data, indices, values = ctx.expect_rank(0, 1), ctx.info(1), ctx.info(2)
    ctx.same_dtype(0, 2)
    axis = ctx.axis(ctx.attributes["axis"], len(data.dims))
    if not _fits_but_along(axis, indices.dims, data.dims) or indices.dims != values.dims:
        raise ctx.error(
            f"indices {shape_string(indices.dims)} and values {shape_string(values.dims)} must "
            f"have one shape, of the rank of data {shape_string(data.dims)} and no larger but "
            f"along axis {axis}"
        )
    return [data]


def scatter(ctx: InferenceContext) -> list[TensorInfo]:
    """(data, indices, updates): the data's type; indices and updates have one shape."""
    data, indices, updates = ctx.expect_rank(0, 1), ctx.info(1), ctx.info(2)
    ctx.same_dtype(0, 2)
    axis = ctx.axis(ctx.attributes["axis"], len(data.dims))
    if len(indices.dims) != len(data.dims) or indices.dims != updates.dims:
        raise ctx.error(
            f"indices {shape_string(indices.dims)} and updates {shape_string(updates.dims)} must "
            f"have one shape, of the rank of data {shape_string(data.dims)}"
        )
    if not _fits_but_along(axis, indices.dims, data.dims):
        raise ctx.error(
            f"indices {shape_string(indices.dims)} are larger than data {shape_string(data.dims)} "
            f"along another axis than {axis}"
        )
    return [data]


def grouped_gather(ctx: InferenceContext) -> list[TensorInfo]:
    """(data, indices): like Gather; with several groups both have the groups in front."""
    data, indices = ctx.expect_rank(0, 1), ctx.info(1)
    axis, groups = ctx.attributes["axis"], ctx.attributes.get("group_size", 1)
    rank = len(data.dims)
    if not -rank <= axis < rank:
        raise ctx.error(
            f"GatherOp::setup axis = {axis} is outside the acceptable range [{-rank}, {rank - 1}]"
        )
    axis %= rank
    if axis == 0 and groups > 1:
        raise ctx.error(f"GatherOp::setup axis = {axis} indicates the dimension of the group")
    picked = indices.dims[1:] if groups > 1 else indices.dims
    return [TensorInfo.of(data.dtype, data.dims[:axis] + picked + data.dims[axis + 1 :])]


def _cut(ctx: InferenceContext) -> Dims:
    """The shape of the part that ``axes`` and ``sizes`` cut out of the first input."""
    data, offset = ctx.info(0), ctx.info(1)
    axes = ctx.axes(ctx.attributes["axes"], len(data.dims))
    sizes = list(ctx.attributes["sizes"])
    if len(sizes) != len(axes) or offset.nelms() != len(axes):
        raise ctx.error(
            f"axes {axes}, sizes {sizes} and offset '{ctx.input_id(1)}' "
            f"{shape_string(offset.dims)} differ in length"
        )
    dims = list(data.dims)
    for axis, size in zip(axes, sizes, strict=True):
        if not 0 < size <= dims[axis]:
            raise ctx.error(f"size {size} does not fit axis {axis} of {shape_string(data.dims)}")
        dims[axis] = size
    return tuple(dims)


def dynamic_slice(ctx: InferenceContext) -> list[TensorInfo]:
    """(tensor, offset): the part of ``sizes`` along ``axes`` from an offset computed at run time.

    A third input is the tensor that PopART may write the part to. The part has its shape, which
    may leave out axes of size 1.
    """
    part = _cut(ctx)
    if not ctx.has(2):
        return [TensorInfo.of(ctx.info(0).dtype, part)]
    ctx.same_dtype(0, 2)
    into = ctx.info(2)
    if [dim for dim in into.dims if dim != 1] != [dim for dim in part if dim != 1]:
        raise ctx.error(
            f"slice '{ctx.input_id(2)}' has shape {shape_string(into.dims)}, expected "
            f"{shape_string(part)}, of which axes of size 1 may be left out"
        )
    return [into]


def dynamic_update(ctx: InferenceContext) -> list[TensorInfo]:
    """(tensor, offset, slice): the tensor's type; the slice has the shape of the part."""
    ctx.same_dtype(0, 2)
    wanted, part = _cut(ctx), ctx.info(2)
    if part.dims != wanted:
        raise ctx.error(
            f"slice '{ctx.input_id(2)}' has shape {shape_string(part.dims)}, expected "
            f"{shape_string(wanted)}"
        )
    return [ctx.info(0)]


def dynamic_zero(ctx: InferenceContext) -> list[TensorInfo]:
    """(tensor, offset): the tensor's type."""
    _cut(ctx)
    return [ctx.info(0)]


def subsample(ctx: InferenceContext) -> list[TensorInfo]:
    """Every n-th element along each axis."""
    x = ctx.info(0)
    strides = list(ctx.attributes["strides"])
    if 0 in strides:
        raise popart_exception(f"Strides invalid. 0 stride at index {strides.index(0)}")
    if min(strides, default=1) < 0:
        raise ctx.error(f"strides {strides} must be positive")
    if len(strides) != len(x.dims):
        raise ctx.error(f"strides {strides} must hold one for each axis of {shape_string(x.dims)}")
    dims = tuple(-(-dim // stride) for dim, stride in zip(x.dims, strides, strict=True))
    return [TensorInfo.of(x.dtype, dims)]


def sequence_slice(ctx: InferenceContext) -> list[TensorInfo]:
    """(source, destination, counts, offsets in each of the two): the destination's type."""
    ctx.same_dtype(0, 1)
    source, destination = ctx.expect_rank(0, 1), ctx.expect_rank(1, 1)
    if source.dims[1:] != destination.dims[1:]:
        raise ctx.error(
            f"source {shape_string(source.dims)} and destination "
            f"{shape_string(destination.dims)} differ in more than the first dimension"
        )
    if not ctx.info(2).dims == ctx.info(3).dims == ctx.info(4).dims:
        raise ctx.error("the counts and the two kinds of offsets differ in shape")
    return [destination]

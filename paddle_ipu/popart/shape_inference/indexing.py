"""Inference of operators that scatter and pick elements."""

from __future__ import annotations

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


def put_along_axis(ctx: InferenceContext) -> list[TensorInfo]:
    """(data, indices, values): the data's type; indices and values have one shape."""
    data, indices, values = ctx.expect_rank(0, 1), ctx.info(1), ctx.info(2)
    ctx.same_dtype(0, 2)
    axis = ctx.axis(ctx.attributes["axis"], len(data.dims))
    fits = len(indices.dims) == len(data.dims) and all(
        at == axis or dim <= whole
        for at, (dim, whole) in enumerate(zip(indices.dims, data.dims, strict=True))
    )
    if not fits or indices.dims != values.dims:
        raise ctx.error(
            f"indices {shape_string(indices.dims)} and values {shape_string(values.dims)} must "
            f"have one shape, of the rank of data {shape_string(data.dims)} and no larger but "
            f"along axis {axis}"
        )
    return [data]

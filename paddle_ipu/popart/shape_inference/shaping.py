"""Inference of operators that move, cut, repeat, index or describe data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.collectives import COMM_GROUP, replica_grouping, shard_length
from paddle_ipu.popart.enums import DataType, InitType
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string


def reshape(ctx: InferenceContext) -> list[TensorInfo]:
    """Reshape: 0 keeps the input's dimension, one -1 takes what is left."""
    return _reshaped(ctx, ctx.shaping_ints(1, "shape"))


def reshape_by_attribute(ctx: InferenceContext) -> list[TensorInfo]:
    """ai.graphcore's Reshape: like ONNX's, with the shape as an attribute."""
    return _reshaped(ctx, list(ctx.attributes["shape"]))


def _reshaped(ctx: InferenceContext, wanted: list[int]) -> list[TensorInfo]:
    x = ctx.info(0)
    unknown = wanted.count(-1)
    if any(dim < -1 for dim in wanted):
        raise popart_exception(
            f"Dimension, {min(wanted)}, of new shape for Reshape cannot be smaller than -1. "
            f"{ctx.op} asks for {shape_string(wanted)}."
        )
    if unknown > 1:
        raise popart_exception(
            "shape input to ReshapeOp can only use -1 to specify one unknown dimension. "
            f"{ctx.op} asks for {shape_string(wanted)}."
        )
    if any(dim == 0 and axis >= len(x.dims) for axis, dim in enumerate(wanted)):
        raise ctx.error(
            f"shape {wanted} has a 0, which keeps the input's dimension, past the rank of "
            f"{shape_string(x.dims)}"
        )
    dims = [x.dims[axis] if dim == 0 else dim for axis, dim in enumerate(wanted)]
    total = x.nelms()
    if unknown:
        known = prod(dim for dim in dims if dim != -1)
        if known and total % known == 0:
            dims[dims.index(-1)] = total // known
    if -1 in dims or prod(dims) != total:
        raise ctx.error(
            f"cannot reshape {shape_string(x.dims)} of {total} elements to {shape_string(wanted)}"
        )
    return [TensorInfo.of(x.dtype, tuple(dims))]


def transpose(ctx: InferenceContext) -> list[TensorInfo]:
    """Transpose by `perm`, by default reversing the dimensions."""
    x = ctx.info(0)
    perm = ctx.attributes.get("perm") or list(reversed(range(len(x.dims))))
    if len(perm) != len(x.dims):
        raise ctx.told(
            f"Rank of permutation tensor {shape_string(perm)}, rank {len(perm)} must be equal to "
            f"rank of input tensor, shape {shape_string(x.dims)}, rank {len(x.dims)}.",
            "needs an entry for each dimension",
        )
    if sorted(perm) != list(range(len(x.dims))):
        raise ctx.error(
            f"perm {list(perm)} is no permutation of the {len(x.dims)} dimensions of "
            f"{shape_string(x.dims)}"
        )
    return [TensorInfo.of(x.dtype, tuple(x.dims[axis] for axis in perm))]


def squeeze(ctx: InferenceContext) -> list[TensorInfo]:
    """Drops `axes`, which must have size 1; without `axes`, every dimension of size 1."""
    x = ctx.info(0)
    axes = ctx.attributes.get("axes")
    if not axes:
        return [TensorInfo.of(x.dtype, tuple(dim for dim in x.dims if dim != 1))]
    dropped = ctx.axes(axes, len(x.dims))
    for axis in dropped:
        if x.dims[axis] != 1:
            raise ctx.error(
                f"cannot squeeze axis {axis} of {shape_string(x.dims)}: its size is not 1"
            )
    kept = tuple(dim for axis, dim in enumerate(x.dims) if axis not in dropped)
    return [TensorInfo.of(x.dtype, kept)]


def unsqueeze(ctx: InferenceContext) -> list[TensorInfo]:
    """Inserts dimensions of size 1 at `axes` of the output."""
    x = ctx.info(0)
    axes = ctx.attributes["axes"]
    rank = len(x.dims) + len(axes)
    inserted = set(ctx.axes(axes, rank))
    rest = iter(x.dims)
    return [
        TensorInfo.of(x.dtype, tuple(1 if axis in inserted else next(rest) for axis in range(rank)))
    ]


def concat(ctx: InferenceContext) -> list[TensorInfo]:
    """Joins along `axis`; all other dimensions agree."""
    count = len(ctx.inputs)
    dtype = ctx.info(0).dtype
    for index in range(count):
        if ctx.info(index).dtype != dtype:
            raise popart_exception(
                "All input tensor types to a concat operation must be equal. This is for op "
                f"{ctx.op}, which has {ctx.of_two_types(0, index)}."
            )
    first = ctx.info(0).dims
    rank, axis = len(first), ctx.attributes["axis"]
    if not -rank <= axis < rank:
        raise ctx.told(
            f"Attribute 'axis' of ConcatOp, {axis}, is outside of acceptable range [{-rank}, "
            f"{rank - 1}]",
            f"has inputs of rank {rank}",
        )
    axis %= rank
    total = 0
    for index in range(count):
        dims = ctx.info(index).dims
        if len(dims) != rank:
            raise ctx.told(
                f"Input {index} of {count} to concat does not have matching output rank. Input "
                f"{index} has rank {len(dims)} ({shape_string(dims)}) while the output has rank "
                f"{rank} ({shape_string(first)}).Concat axis {axis}.",
                "needs inputs of one rank",
            )
        if any(a != b for at, (a, b) in enumerate(zip(dims, first, strict=True)) if at != axis):
            raise ctx.told(
                f"Input {index} to concat does not have matching shape.",
                f"input {index} '{ctx.input_id(index)}' {shape_string(dims)} does not match input "
                f"0 {shape_string(first)} in all but axis {axis}",
            )
        total += dims[axis]
    return [TensorInfo.of(dtype, (*first[:axis], total, *first[axis + 1 :]))]


def split(ctx: InferenceContext) -> list[TensorInfo]:
    """Cuts along `axis` into sizes `split`, equal ones by default."""
    x = ctx.expect_rank(0, 1)
    axis = ctx.axis(ctx.attributes["axis"], len(x.dims))
    size = x.dims[axis]
    sizes = list(ctx.attributes.get("split") or ())
    if not sizes:
        if size % ctx.num_outputs:
            raise ctx.told(
                f"Tensor {ctx.input_id(0)} ({shape_string(x.dims)}) may not be split into equally "
                f"sized parts along axis {axis}.",
                f"cannot split axis {axis} of {shape_string(x.dims)} into {ctx.num_outputs} equal "
                "parts. Give 'split'",
            )
        sizes = [size // ctx.num_outputs] * ctx.num_outputs
    if len(sizes) != ctx.num_outputs:
        raise ctx.told(
            "Number of outputs does not match number of requested splits.",
            f"split {sizes} has {len(sizes)} parts for {ctx.num_outputs} outputs",
        )
    if sum(sizes) != size or min(sizes) < 0:
        raise ctx.told(
            f"splits {sum(sizes)} invalid for dimension of size {size}.",
            f"split {sizes} does not cut axis {axis} of {shape_string(x.dims)} into "
            f"{ctx.num_outputs} outputs",
        )
    return [TensorInfo.of(x.dtype, (*x.dims[:axis], part, *x.dims[axis + 1 :])) for part in sizes]


def slice_range(size: int, start: int, end: int, step: int) -> range:
    """The indices that ONNX's Slice takes of a dimension of `size` elements.

    Negative bounds count from the end, then both are clamped: walking backwards, start to
    ``0..size - 1`` and end to ``-1..size - 1``. There NumPy differs when start lies before the
    front.
    """
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step < 0:
        return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)
    return range(min(max(start, 0), size), min(max(end, 0), size), step)


def slice_(ctx: InferenceContext) -> list[TensorInfo]:
    """Slice-11: (data, starts, ends, axes, steps), all but the data constant."""
    starts, ends = ctx.shaping_ints(1, "starts"), ctx.shaping_ints(2, "ends")
    axes = ctx.shaping_ints(3, "axes") if ctx.has(3) else list(range(len(starts)))
    steps = ctx.shaping_ints(4, "steps") if ctx.has(4) else [1] * len(starts)
    return _sliced(ctx, starts, ends, axes, steps)


def slice_by_attributes(ctx: InferenceContext) -> list[TensorInfo]:
    """ai.graphcore's Slice: starts, ends and axes as attributes, in steps of 1."""
    starts, ends = list(ctx.attributes["starts"]), list(ctx.attributes["ends"])
    axes = list(ctx.attributes.get("axes") or range(len(starts)))
    return _sliced(ctx, starts, ends, axes, [1] * len(starts))


def _sliced(
    ctx: InferenceContext, starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> list[TensorInfo]:
    x = ctx.expect_rank(0, 1)
    axes = ctx.axes(axes, len(x.dims))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ctx.error(
            f"starts {starts}, ends {ends}, axes {axes} and steps {steps} differ in length"
        )
    dims = list(x.dims)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ctx.error(f"the step of axis {axis} is 0")
        dims[axis] = len(slice_range(dims[axis], start, end, step))
    return [TensorInfo.of(x.dtype, tuple(dims))]


def gather(ctx: InferenceContext) -> list[TensorInfo]:
    """data indexed along one axis: that axis is replaced by the shape of the indices."""
    data, indices = ctx.expect_rank(0, 1), ctx.info(1)
    axis = ctx.axis(ctx.attributes["axis"], len(data.dims))
    return [TensorInfo.of(data.dtype, data.dims[:axis] + indices.dims + data.dims[axis + 1 :])]


def gather_nd(ctx: InferenceContext) -> list[TensorInfo]:
    """data[indices[..., :]]: the last dimension of the indices addresses leading dimensions."""
    data, indices = ctx.expect_rank(0, 1), ctx.expect_rank(1, 1)
    depth = indices.dims[-1]
    if depth > len(data.dims):
        raise ctx.error(
            f"indices '{ctx.input_id(1)}' {shape_string(indices.dims)} address {depth} dimensions "
            f"of data {shape_string(data.dims)}"
        )
    return [TensorInfo.of(data.dtype, indices.dims[:-1] + data.dims[depth:])]


def expand(ctx: InferenceContext) -> list[TensorInfo]:
    """Two-way broadcast with a constant shape."""
    x = ctx.info(0)
    wanted = tuple(ctx.shaping_ints(1, "shape"))
    pairs = zip(reversed(x.dims), reversed(wanted), strict=False)
    if any(have != want and 1 not in (have, want) for have, want in pairs):
        raise popart_exception(
            "Expand shape constraint: corresponding dimensions must have the same value or one of "
            f"them must be 1. {ctx.op} expands {shape_string(x.dims)} to {shape_string(wanted)}."
        )
    return [TensorInfo.of(x.dtype, ctx.broadcast(x.dims, wanted))]


def tile(ctx: InferenceContext) -> list[TensorInfo]:
    """Repeats each dimension a constant number of times."""
    x = ctx.info(0)
    name = ctx.input_id(1)
    if ctx.value_of(1) is None:
        raise ctx.told(
            f"The 'Repeats' Tensor `{name}' must be of type Constant.",
            f"computes '{name}' at run time; make it a Constant or an initializer",
        )
    repeats = ctx.constant_ints(1, "Repeats")
    if len(repeats) != len(x.dims):
        raise ctx.told(
            f"'Repeats' tensor `{name}' should have one element for each dimension of the data "
            "tensor.",
            f"has repeats {repeats} of {shape_string(x.dims)}",
        )
    if any(count < 0 for count in repeats):
        raise ctx.error(f"repeats {repeats} must not be negative")
    dims = tuple(dim * count for dim, count in zip(x.dims, repeats, strict=True))
    return [TensorInfo.of(x.dtype, dims)]


def flatten(ctx: InferenceContext) -> list[TensorInfo]:
    """A matrix: the dimensions before `axis` times those from it on."""
    x = ctx.info(0)
    axis = ctx.axis(ctx.attributes["axis"], len(x.dims), inclusive=True)
    return [TensorInfo.of(x.dtype, (prod(x.dims[:axis]), prod(x.dims[axis:])))]


def pad(ctx: InferenceContext) -> list[TensorInfo]:
    """Pad-11: (data, pads, value); pads holds all begins, then all ends, and may be negative."""
    ctx.same_dtype(0, 2)
    return _padded(ctx, ctx.constant_ints(1, "pads"))


def pad_by_attributes(ctx: InferenceContext) -> list[TensorInfo]:
    """Pad-2: like Pad-11, with pads and value as attributes."""
    return _padded(ctx, list(ctx.attributes["pads"]))


def _padded(ctx: InferenceContext, pads: list[int]) -> list[TensorInfo]:
    x = ctx.info(0)
    rank = len(x.dims)
    if ctx.attributes["mode"] not in ("constant", "reflect", "edge"):
        raise ctx.error(f"mode is '{ctx.attributes['mode']}', expected constant, reflect or edge")
    if len(pads) != 2 * rank:
        raise ctx.error(
            f"pads {pads} must hold a begin and an end for each of the {rank} dimensions of "
            f"{shape_string(x.dims)}"
        )
    dims = tuple(dim + pads[axis] + pads[axis + rank] for axis, dim in enumerate(x.dims))
    if any(dim < 0 for dim in dims):
        raise ctx.error(f"pads {pads} cut more than there is of {shape_string(x.dims)}")
    return [TensorInfo.of(x.dtype, dims)]


def one_hot(ctx: InferenceContext) -> list[TensorInfo]:
    """(indices, depth, values): a dimension of size depth is inserted at `axis`."""
    indices, values = ctx.expect_rank(0, 1), ctx.info(2)
    if ctx.value_of(1) is None:
        raise ctx.told(
            f"The depth Tensor `{ctx.input_id(1)}' does not have data.",
            f"computes '{ctx.input_id(1)}' at run time; make it a Constant or an initializer",
        )
    depth = ctx.constant_ints(1, "depth")
    if len(depth) != 1:
        raise ctx.told("The depth tensor should be rank 0 in OneHot.", f"got {ctx.info(1)}")
    if depth[0] < 1:
        raise ctx.error(f"depth must be one positive value, got {depth}")
    if values.nelms() != 2:
        raise ctx.error(f"values must be [off_value, on_value], got {values}")
    axis = ctx.axis(ctx.attributes["axis"], len(indices.dims) + 1)
    dims = (*indices.dims[:axis], depth[0], *indices.dims[axis:])
    return [TensorInfo.of(values.dtype, dims)]


def shape(ctx: InferenceContext) -> list[TensorInfo]:
    """The shape of the input as a vector."""
    return [TensorInfo.of(ir.DataType.INT64, (len(ctx.info(0).dims),))]


def constant(ctx: InferenceContext) -> list[TensorInfo]:
    """The type of the attribute `value`."""
    value = ctx.attributes["value"]
    return [TensorInfo.of(value.dtype, tuple(value.shape))]


def constant_of_shape(ctx: InferenceContext) -> list[TensorInfo]:
    """A tensor of a constant shape, filled with the one element of `value`."""
    value = ctx.attributes.get("value")
    if value is not None and prod(value.shape) != 1:
        raise ctx.error(f"value must hold one element, got shape {shape_string(value.shape)}")
    dims = tuple(ctx.constant_ints(0, "shape"))
    return [TensorInfo.of(ir.DataType.FLOAT if value is None else value.dtype, dims)]


def copy_var_update(ctx: InferenceContext) -> list[TensorInfo]:
    """(variable, updater of the same type) -> the variable."""
    variable, updater = ctx.info(0), ctx.info(1)
    if (variable.dims, variable.dtype) != (updater.dims, updater.dtype):
        raise ctx.error(
            f"updates variable '{ctx.input_id(0)}', which is {variable}, with "
            f"'{ctx.input_id(1)}', which is {updater}; both must have the same shape and type"
        )
    return [variable]


def init(ctx: InferenceContext) -> list[TensorInfo]:
    """A tensor of the attributes `shape` and `data_type`, a number of PopART's DataType."""
    name = DataType(ctx.attributes["data_type"]).name
    InitType(ctx.attributes["init_type"])
    return [TensorInfo(name, ctx.attributes["shape"])]


def shard(ctx: InferenceContext) -> list[TensorInfo]:
    """The part of the flat tensor that each replica of a group has."""
    x = ctx.info(0)
    group: Sequence[int] = ctx.attributes.get(COMM_GROUP) or ()
    try:
        size = replica_grouping(group, ctx.replicas).getGroupSize()
    except popart_exception as error:
        raise ctx.error(
            f"has groups of {group[1]} replicas, which do not divide the {ctx.replicas} replicas "
            f"of the session. {error}"
        ) from error
    return [TensorInfo.of(x.dtype, (shard_length(x.nelms(), size),))]


def reverse(ctx: InferenceContext) -> list[TensorInfo]:
    """The input with `dimensions` flipped."""
    x = ctx.info(0)
    rank, dimensions = len(x.dims), list(ctx.attributes.get("dimensions") or [])
    for at, dimension in enumerate(dimensions):
        if dimension < 0:
            raise popart_exception(
                f"ReverseOp '{ctx.op}' invalid dimension '{dimension}'. Only positive dimensions "
                f"are supported, here 0 to {rank - 1}"
            )
        if dimension >= rank:
            raise popart_exception(
                f"ReverseOp '{ctx.op}' invalid dimension '{dimension}' for input tensor of rank "
                f"{rank}"
            )
        if dimension in dimensions[:at]:
            raise popart_exception(
                f"Dimension {dimension} appears multiple times in the list of dimensions of "
                f"ReverseOp '{ctx.op}'"
            )
    return [x]

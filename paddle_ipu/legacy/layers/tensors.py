"""``paddle.fluid.layers`` and ``paddle.fluid.input``: making, reshaping and picking of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paddle
import paddle.nn.functional as F  # noqa: N812

from paddle_ipu.legacy.layers.activations import activated
from paddle_ipu.legacy.layers.arithmetic import as_matrix


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Any:
    """A feed; a batch dimension is put in front unless `shape` has an unknown one already.

    Raises:
        ValueError: a level of detail is asked for, which IPU programs do not have.
    """
    _refuse_levels(lod_level)
    dims = [-1 if dim is None else int(dim) for dim in shape]
    if append_batch_size and -1 not in dims:
        dims = [-1, *dims]
    feed = paddle.static.data(name, dims, dtype)
    feed.stop_gradient = stop_gradient
    return feed


def fluid_data(
    name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0
) -> Any:
    """``paddle.fluid.data``: a feed of exactly that shape, -1 or None where it is unknown.

    Raises:
        ValueError: a level of detail is asked for, which IPU programs do not have.
    """
    _refuse_levels(lod_level)
    return paddle.static.data(name, shape, dtype)


def _refuse_levels(lod_level: int) -> None:
    if lod_level:
        raise ValueError(
            f"data(lod_level={lod_level}): expected 0. Pad sequences to one length and feed their "
            "lengths beside them."
        )


def assign(input: Any, output: Any = None) -> Any:
    """A copy of a variable, an array or a number."""
    return paddle.assign(input, output)


def cast(x: Any, dtype: Any) -> Any:
    """The variable in another dtype."""
    return paddle.cast(x, dtype)


def fill_constant(
    shape: Any,
    dtype: Any,
    value: Any,
    force_cpu: bool = False,
    out: Any = None,
    name: str | None = None,
) -> Any:
    """A tensor filled with one number, which may be given as text."""
    if isinstance(value, str):
        value = float(value)
    filled = paddle.full(shape, value, dtype)
    return filled if out is None else paddle.assign(filled, out)


def zeros(shape: Any, dtype: Any, force_cpu: bool = False, name: str | None = None) -> Any:
    """Zeros."""
    return paddle.zeros(shape, dtype)


def ones(shape: Any, dtype: Any, force_cpu: bool = False) -> Any:
    """Ones."""
    return paddle.ones(shape, dtype)


def zeros_like(x: Any, out: Any = None) -> Any:
    """Zeros of the variable's shape and dtype."""
    return paddle.zeros_like(x) if out is None else paddle.assign(paddle.zeros_like(x), out)


def ones_like(x: Any, out: Any = None) -> Any:
    """Ones of the variable's shape and dtype."""
    return paddle.ones_like(x) if out is None else paddle.assign(paddle.ones_like(x), out)


def range(start: Any, end: Any, step: Any, dtype: Any, name: str | None = None) -> Any:
    """``start``, ``start + step``, … in front of ``end``."""
    return paddle.arange(start, end, step, dtype)


def uniform_random(
    shape: Any,
    dtype: Any = "float32",
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Any:
    """Numbers drawn evenly between two bounds."""
    return paddle.uniform(shape, dtype, min, max, seed)


def increment(x: Any, value: float = 1.0, in_place: bool = True) -> Any:
    """``x + value``, written to ``x`` unless told otherwise."""
    return paddle.increment(x, value) if in_place else paddle.add(x, paddle.full_like(x, value))


# -- shapes ---------------------------------------------------------------------------------------


def reshape(
    x: Any,
    shape: Any,
    actual_shape: Any = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Any:
    """The elements in another shape; 0 copies a dimension, -1 is worked out."""
    return activated(paddle.reshape(x, shape if actual_shape is None else actual_shape), act)


def flatten(x: Any, axis: int = 1, name: str | None = None) -> Any:
    """A matrix whose rows are the dimensions in front of `axis`; today's keeps other ranks."""
    rank = len(x.shape)
    if not 0 <= axis <= rank:
        raise ValueError(f"flatten(axis={axis}): expected 0 to {rank}, the rank of x.")
    if axis == 0:
        return paddle.reshape(x, [1, -1])
    return as_matrix(x, axis)


def squeeze(input: Any, axes: Sequence[int], name: str | None = None) -> Any:
    """Without the dimensions of size 1 at `axes`; at all places where it is empty."""
    return paddle.squeeze(input, axis=list(axes) or None)


def unsqueeze(input: Any, axes: Any, name: str | None = None) -> Any:
    """With dimensions of size 1 at `axes`."""
    return paddle.unsqueeze(input, axis=axes)


def transpose(x: Any, perm: Sequence[int], name: str | None = None) -> Any:
    """The dimensions in another order."""
    return paddle.transpose(x, list(perm))


def concat(input: Sequence[Any], axis: Any = 0, name: str | None = None) -> Any:
    """The tensors behind one another along an axis."""
    return paddle.concat(input, axis)


def stack(x: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """The tensors along a new axis."""
    return paddle.stack(x, axis)


def unstack(x: Any, axis: int = 0, num: int | None = None) -> Any:
    """The members along an axis."""
    return paddle.unstack(x, axis, num)


def split(
    input: Any, num_or_sections: int | Sequence[int], dim: int = -1, name: str | None = None
) -> Any:
    """Parts along an axis, the last one by default; today's default is the first."""
    return paddle.split(input, num_or_sections, dim)


def slice(input: Any, axes: Sequence[int], starts: Any, ends: Any) -> Any:
    """The part between starts and ends."""
    return paddle.slice(input, axes, starts, ends)


def strided_slice(input: Any, axes: Sequence[int], starts: Any, ends: Any, strides: Any) -> Any:
    """Every so many elements between starts and ends."""
    return paddle.strided_slice(input, axes, starts, ends, strides)


def expand(x: Any, expand_times: Sequence[int], name: str | None = None) -> Any:
    """The tensor repeated so many times along each dimension; today's takes the new shape."""
    return paddle.tile(x, expand_times)


def pad(x: Any, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Any:
    """The tensor with a border; `paddings` has two numbers for every dimension.

    Raises:
        ValueError: `paddings` has another length.
    """
    rank = len(x.shape)
    if len(paddings) != 2 * rank:
        raise ValueError(
            f"pad(paddings={list(paddings)}): expected {2 * rank} numbers, two for every dimension "
            f"of shape {list(x.shape)}."
        )
    for axis, (before, after) in enumerate(zip(paddings[::2], paddings[1::2], strict=True)):
        parts = [
            paddle.full([*x.shape[:axis], count, *x.shape[axis + 1 :]], pad_value, x.dtype)
            if count
            else None
            for count in (before, after)
        ]
        parts.insert(1, x)
        parts = [part for part in parts if part is not None]
        x = parts[0] if len(parts) == 1 else paddle.concat(parts, axis)
    return x


# -- picking --------------------------------------------------------------------------------------


def gather(input: Any, index: Any, overwrite: bool = True) -> Any:
    """Rows by number."""
    return paddle.gather(input, index)


def gather_nd(input: Any, index: Any, name: str | None = None) -> Any:
    """Parts by their coordinates."""
    return paddle.gather_nd(input, index)


def where(condition: Any) -> Any:
    """Coordinates of the true elements; today's `where` with one argument gives a tuple."""
    return paddle.nonzero(condition)


def topk(input: Any, k: Any, name: str | None = None) -> Any:
    """(the k largest along the last axis, their positions)."""
    return paddle.topk(input, k, axis=-1)


def argsort(
    input: Any, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Any, Any]:
    """(sorted, positions); today's gives positions only."""
    order = paddle.argsort(input, axis=axis, descending=descending)
    return paddle.take_along_axis(input, order, axis), order


def argmax(x: Any, axis: int = 0) -> Any:
    """Position of the largest along an axis; today's default flattens."""
    return paddle.argmax(x, axis)


def argmin(x: Any, axis: int = 0) -> Any:
    """Position of the smallest along an axis; today's default flattens."""
    return paddle.argmin(x, axis)


def input_one_hot(input: Any, depth: int, allow_out_of_range: bool = False) -> Any:
    """``paddle.fluid.input.one_hot``: a new last dimension of size `depth`, float32.

    Args:
        allow_out_of_range: numbers outside of 0 to depth give zeros, not an error.
    """
    if not allow_out_of_range:
        return F.one_hot(input, depth)
    numbers = paddle.arange(0, depth, 1, input.dtype)
    return paddle.cast(paddle.equal(paddle.unsqueeze(input, -1), numbers), "float32")


def one_hot(input: Any, depth: int, allow_out_of_range: bool = False) -> Any:
    """``paddle.fluid.layers.one_hot``: the last dimension, of size 1, becomes `depth`.

    Raises:
        ValueError: the last dimension is not of size 1.
    """
    return input_one_hot(without_last_one(input, "one_hot"), depth, allow_out_of_range)


def without_last_one(ids: Any, layer: str) -> Any:
    """Numbers without their last dimension, which must have size 1.

    Raises:
        ValueError: it has another size.
    """
    shape = list(ids.shape)
    if not shape or shape[-1] != 1:
        raise ValueError(
            f"paddle.fluid.layers.{layer}: expected a last dimension of size 1, got shape {shape}. "
            f"paddle.fluid.input.{layer} takes numbers without it."
        )
    return paddle.squeeze(ids, axis=-1)

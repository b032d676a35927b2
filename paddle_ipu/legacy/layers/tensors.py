"""``paddle.fluid.layers`` and ``paddle.fluid.input``: making, reshaping and indexing of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import paddle
import paddle.nn.functional as F  # noqa: N812

from paddle_ipu.legacy.layers.activations import activated
from paddle_ipu.legacy.layers.arithmetic import as_matrix, assigned

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle._typing import DTypeLike

    from paddle_ipu.legacy.layers.activations import Layer


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: DTypeLike = "float32",
    lod_level: int = 0,
    type: object = None,
    stop_gradient: bool = True,
) -> Tensor:
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
    name: str, shape: Sequence[int | None], dtype: DTypeLike = "float32", lod_level: int = 0
) -> Tensor:
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


def flatten(x: Tensor, axis: int = 1, name: str | None = None) -> Tensor:
    """A matrix whose rows are the dimensions in front of `axis`; today's keeps other ranks."""
    rank = len(x.shape)
    if not 0 <= axis <= rank:
        raise ValueError(f"flatten(axis={axis}): expected 0 to {rank}, the rank of x.")
    if axis == 0:
        return paddle.reshape(x, [1, -1])
    return as_matrix(x, axis)


def pad(
    x: Tensor, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None
) -> Tensor:
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


def argsort(
    input: Tensor, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(sorted, positions); today's gives positions only."""
    order = paddle.argsort(input, axis=axis, descending=descending)
    return paddle.take_along_axis(input, order, axis), order


def input_one_hot(input: Tensor, depth: int, allow_out_of_range: bool = False) -> Tensor:
    """``paddle.fluid.input.one_hot``: a new last dimension of size `depth`, float32.

    Args:
        allow_out_of_range: numbers outside of 0 to depth give zeros, not an error.
    """
    if not allow_out_of_range:
        return F.one_hot(input, depth)
    numbers = paddle.arange(0, depth, 1, input.dtype)
    return paddle.cast(paddle.equal(paddle.unsqueeze(input, -1), numbers), "float32")


def one_hot(input: Tensor, depth: int, allow_out_of_range: bool = False) -> Tensor:
    """``paddle.fluid.layers.one_hot``: the last dimension, of size 1, becomes `depth`.

    Raises:
        ValueError: the last dimension is not of size 1.
    """
    return input_one_hot(without_last_one(input, "one_hot"), depth, allow_out_of_range)


def without_last_one(ids: Tensor, layer: str) -> Tensor:
    """Indices without their last dimension, which must have size 1.

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


FORWARDED: dict[str, Layer] = {
    "assign": lambda input, output=None: paddle.assign(input, output),
    "cast": lambda x, dtype: paddle.cast(x, dtype),
    "fill_constant": lambda shape, dtype, value, force_cpu=False, out=None, name=None: assigned(
        paddle.full(shape, float(value) if isinstance(value, str) else value, dtype), out
    ),
    "increment": lambda x, value=1.0, in_place=True: (
        paddle.increment(x, value) if in_place else paddle.add(x, paddle.full_like(x, value))
    ),
    "ones": lambda shape, dtype, force_cpu=False: paddle.ones(shape, dtype),
    "ones_like": lambda x, out=None: assigned(paddle.ones_like(x), out),
    "range": lambda start, end, step, dtype, name=None: paddle.arange(start, end, step, dtype),
    "uniform_random": lambda shape, dtype="float32", min=-1.0, max=1.0, seed=0, name=None: (
        paddle.uniform(shape, dtype, min, max, seed)
    ),
    "zeros": lambda shape, dtype, force_cpu=False, name=None: paddle.zeros(shape, dtype),
    "zeros_like": lambda x, out=None: assigned(paddle.zeros_like(x), out),
    # Shapes.
    "concat": lambda input, axis=0, name=None: paddle.concat(input, axis),
    "expand": lambda x, expand_times, name=None: paddle.tile(x, expand_times),
    "reshape": lambda x, shape, actual_shape=None, act=None, inplace=False, name=None: activated(
        paddle.reshape(x, shape if actual_shape is None else actual_shape), act
    ),
    "split": lambda input, num_or_sections, dim=-1, name=None: paddle.split(
        input, num_or_sections, dim
    ),
    "squeeze": lambda input, axes, name=None: paddle.squeeze(input, axis=list(axes) or None),
    "stack": lambda x, axis=0, name=None: paddle.stack(x, axis),
    "transpose": lambda x, perm, name=None: paddle.transpose(x, list(perm)),
    "unsqueeze": lambda input, axes, name=None: paddle.unsqueeze(input, axis=axes),
    "unstack": lambda x, axis=0, num=None: paddle.unstack(x, axis, num),
    # Indices.
    "argmax": lambda x, axis=0: paddle.argmax(x, axis),
    "argmin": lambda x, axis=0: paddle.argmin(x, axis),
    "gather": lambda input, index, overwrite=True: paddle.gather(input, index),
    "gather_nd": lambda input, index, name=None: paddle.gather_nd(input, index),
    "slice": lambda input, axes, starts, ends: paddle.slice(input, axes, starts, ends),
    "strided_slice": lambda input, axes, starts, ends, strides: paddle.strided_slice(
        input, axes, starts, ends, strides
    ),
    "topk": lambda input, k, name=None: paddle.topk(input, k, axis=-1),
    "where": lambda condition: paddle.nonzero(condition),
}
"""Layer -> its old arguments and defaults, by a function of today's Paddle."""

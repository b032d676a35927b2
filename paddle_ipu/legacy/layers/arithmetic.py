"""``paddle.fluid.layers``: element-wise operators, comparisons, reductions, products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import paddle
from paddle.base import framework

from paddle_ipu.legacy.layers.activations import activated

if TYPE_CHECKING:
    from paddle import Tensor

    from paddle_ipu.legacy.layers.activations import Layer


def aligned(x: Tensor, y: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Both operands in shapes that NumPy's rules broadcast as ``elementwise_*`` did with `axis`.

    The operand of lower rank begins at dimension `axis` of the other; -1 aligns their last ones.

    Raises:
        ValueError: the operand does not fit there.
    """
    swapped = len(x.shape) < len(y.shape)
    long, short = (y, x) if swapped else (x, y)
    rank = len(long.shape)
    if axis == -1 or rank == len(short.shape):
        return x, y
    shape = list(short.shape)
    while len(shape) + axis > rank and shape and shape[-1] == 1:
        shape.pop()
    if not 0 <= axis <= rank - len(shape):
        raise ValueError(
            f"axis={axis}: the operand of shape {list(short.shape)} does not fit there into "
            f"{list(long.shape)}."
        )
    short = paddle.reshape(short, shape + [1] * (rank - axis - len(shape)))
    return (short, long) if swapped else (long, short)


def _of_dtype(y: Tensor, x: Tensor) -> Tensor:
    # The dtype was x's, whatever y's was; today's operators refuse operands of two dtypes.
    return y if y.dtype == x.dtype else paddle.cast(y, x.dtype)


def _computed(today: Layer, x: Tensor, y: Tensor) -> Tensor:
    # The CPU wheel builds no PIR operator in float16: float32, rounded once, is the same number.
    if x.dtype != paddle.float16 or not framework.in_pir_mode():
        return today(x, y)
    wide = today(paddle.cast(x, "float32"), paddle.cast(y, "float32"))
    return paddle.cast(wide, "float16")


def _elementwise(today: Layer) -> Layer:
    return lambda x, y, axis=-1, act=None, name=None: activated(
        _computed(today, *aligned(x, _of_dtype(y, x), axis)), act
    )


def _comparison(today: Layer) -> Layer:
    return lambda x, y, cond=None, name=None: assigned(today(x, _of_dtype(y, x)), cond)


def _logical(today: Layer) -> Layer:
    return lambda x, y, out=None, name=None: assigned(today(x, y), out)


def _reduction(today: Layer) -> Layer:
    def layer(
        input: Tensor,
        dim: int | Sequence[int] | None = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Tensor:
        everything = dim is None or (isinstance(dim, (list, tuple)) and not dim)
        return today(input, axis=None if everything else dim, keepdim=keep_dim)

    return layer


def assigned(result: Tensor, target: Tensor | None) -> Tensor:
    """The result, written into a variable where one is named."""
    return result if target is None else paddle.assign(result, target)


def cumsum(
    x: Tensor, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None
) -> Tensor:
    """The running sum along an axis, the last one by default; it does not flatten."""
    axis = -1 if axis is None else axis
    if reverse:
        x = paddle.flip(x, [axis])
    total = paddle.cumsum(x, axis=axis)
    if exclusive:
        total = total - x
    return paddle.flip(total, [axis]) if reverse else total


def matmul(
    x: Tensor,
    y: Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """The matrix product times a number."""
    product = paddle.matmul(x, y, transpose_x, transpose_y)
    return product if alpha == 1.0 else paddle.scale(product, alpha)


def mul(
    x: Tensor, y: Tensor, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None
) -> Tensor:
    """The product of both seen as matrices, whose rows are the first so many dimensions."""
    product = paddle.matmul(as_matrix(x, x_num_col_dims), as_matrix(y, y_num_col_dims))
    shape = [*_rows(x.shape[:x_num_col_dims]), *y.shape[y_num_col_dims:]]
    return paddle.reshape(product, shape)


def as_matrix(x: Tensor, columns_from: int) -> Tensor:
    """A view of rank 2: dimensions in front of `columns_from` are rows, the others columns."""
    rows, columns = list(x.shape[:columns_from]), list(x.shape[columns_from:])
    if len(rows) == 1 and len(columns) == 1:
        return x
    unknown = any(dim < 0 for dim in rows)
    if unknown and any(dim < 0 for dim in columns):
        raise ValueError(
            f"a variable of shape {list(x.shape)} cannot be seen as a matrix: both its rows and "
            "its columns have an unknown dimension."
        )
    return paddle.reshape(
        x, [-1, math.prod(columns)] if unknown else [math.prod(rows), -1 if columns else 1]
    )


def _rows(shape: Sequence[int]) -> list[int]:
    # Paddle's reshape copies a dimension where the new shape says 0.
    return [0 if dim < 0 else dim for dim in shape] if len(shape) == 1 else list(shape)


FORWARDED: dict[str, Layer] = {
    "elementwise_add": _elementwise(paddle.add),
    "elementwise_sub": _elementwise(paddle.subtract),
    "elementwise_mul": _elementwise(paddle.multiply),
    "elementwise_div": _elementwise(paddle.divide),
    "elementwise_max": _elementwise(paddle.maximum),
    "elementwise_min": _elementwise(paddle.minimum),
    "elementwise_pow": _elementwise(paddle.pow),
    "elementwise_mod": _elementwise(paddle.remainder),
    "elementwise_floordiv": _elementwise(paddle.floor_divide),
    "equal": _comparison(paddle.equal),
    "not_equal": _comparison(paddle.not_equal),
    "greater_than": _comparison(paddle.greater_than),
    "greater_equal": _comparison(paddle.greater_equal),
    "less_equal": _comparison(paddle.less_equal),
    "less_than": lambda x, y, force_cpu=None, cond=None, name=None: assigned(
        paddle.less_than(x, _of_dtype(y, x)), cond
    ),
    "logical_and": _logical(paddle.logical_and),
    "logical_or": _logical(paddle.logical_or),
    "logical_xor": _logical(paddle.logical_xor),
    "logical_not": lambda x, out=None, name=None: assigned(paddle.logical_not(x), out),
    "reduce_sum": _reduction(paddle.sum),
    "reduce_mean": _reduction(paddle.mean),
    "reduce_max": _reduction(paddle.max),
    "reduce_min": _reduction(paddle.min),
    "reduce_prod": _reduction(paddle.prod),
    "reduce_all": _reduction(paddle.all),
    "reduce_any": _reduction(paddle.any),
    "clip": lambda x, min, max, name=None: paddle.clip(x, min, max),
    "mean": lambda x, name=None: paddle.mean(x),
    "pow": lambda x, factor=1.0, name=None: paddle.pow(x, factor),
    "scale": lambda x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None: activated(
        paddle.scale(x, scale, bias, bias_after_scale), act
    ),
    "sum": lambda x: paddle.add_n(x),
    "sums": lambda input, out=None: assigned(paddle.add_n(input), out),
}
"""Layer -> its old arguments and defaults, by a function of today's Paddle."""

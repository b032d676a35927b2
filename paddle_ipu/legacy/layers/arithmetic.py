"""``paddle.fluid.layers``: element-wise operators, comparisons, reductions, products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import paddle
from paddle.base import framework

from paddle_ipu.legacy.layers.activations import activated


def aligned(x: Any, y: Any, axis: int) -> tuple[Any, Any]:
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


def _of_dtype(y: Any, x: Any) -> Any:
    # The dtype was x's, whatever y's was; today's operators refuse operands of two dtypes.
    return y if y.dtype == x.dtype else paddle.cast(y, x.dtype)


def _computed(today: Callable[..., Any], x: Any, y: Any) -> Any:
    # The CPU wheel builds no PIR operator in float16: float32, rounded once, is the same number.
    if x.dtype != paddle.float16 or not framework.in_pir_mode():
        return today(x, y)
    wide = today(paddle.cast(x, "float32"), paddle.cast(y, "float32"))
    return paddle.cast(wide, "float16")


def _elementwise(today: Callable[..., Any]) -> Callable[..., Any]:
    def layer(
        x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None
    ) -> Any:
        return activated(_computed(today, *aligned(x, _of_dtype(y, x), axis)), act)

    return layer


elementwise_add = _elementwise(paddle.add)
elementwise_sub = _elementwise(paddle.subtract)
elementwise_mul = _elementwise(paddle.multiply)
elementwise_div = _elementwise(paddle.divide)
elementwise_max = _elementwise(paddle.maximum)
elementwise_min = _elementwise(paddle.minimum)
elementwise_pow = _elementwise(paddle.pow)
elementwise_mod = _elementwise(paddle.remainder)
elementwise_floordiv = _elementwise(paddle.floor_divide)


def _comparison(today: Callable[..., Any]) -> Callable[..., Any]:
    def layer(x: Any, y: Any, cond: Any = None, name: str | None = None) -> Any:
        result = today(x, _of_dtype(y, x))
        return result if cond is None else paddle.assign(result, cond)

    return layer


equal = _comparison(paddle.equal)
not_equal = _comparison(paddle.not_equal)
greater_than = _comparison(paddle.greater_than)
greater_equal = _comparison(paddle.greater_equal)
less_equal = _comparison(paddle.less_equal)


def less_than(
    x: Any, y: Any, force_cpu: bool | None = None, cond: Any = None, name: str | None = None
) -> Any:
    """``x < y``."""
    result = paddle.less_than(x, _of_dtype(y, x))
    return result if cond is None else paddle.assign(result, cond)


def _logical(today: Callable[..., Any]) -> Callable[..., Any]:
    def layer(x: Any, y: Any, out: Any = None, name: str | None = None) -> Any:
        result = today(x, y)
        return result if out is None else paddle.assign(result, out)

    return layer


logical_and = _logical(paddle.logical_and)
logical_or = _logical(paddle.logical_or)
logical_xor = _logical(paddle.logical_xor)


def logical_not(x: Any, out: Any = None, name: str | None = None) -> Any:
    """``not x``, element by element."""
    result = paddle.logical_not(x)
    return result if out is None else paddle.assign(result, out)


def _reduction(today: Callable[..., Any]) -> Callable[..., Any]:
    def layer(
        input: Any,
        dim: int | Sequence[int] | None = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Any:
        everything = dim is None or (isinstance(dim, (list, tuple)) and not dim)
        return today(input, axis=None if everything else dim, keepdim=keep_dim)

    return layer


reduce_sum = _reduction(paddle.sum)
reduce_mean = _reduction(paddle.mean)
reduce_max = _reduction(paddle.max)
reduce_min = _reduction(paddle.min)
reduce_prod = _reduction(paddle.prod)
reduce_all = _reduction(paddle.all)
reduce_any = _reduction(paddle.any)


def mean(x: Any, name: str | None = None) -> Any:
    """The mean of all elements; of rank 0, where 2.4 gave shape [1]."""
    return paddle.mean(x)


def sum(x: Any) -> Any:
    """The sum of a list of variables, or the variable itself."""
    return paddle.add_n(x)


def sums(input: Any, out: Any = None) -> Any:
    """The sum of a list of variables."""
    result = paddle.add_n(input)
    return result if out is None else paddle.assign(result, out)


def pow(x: Any, factor: Any = 1.0, name: str | None = None) -> Any:
    """``x`` to the power of a number."""
    return paddle.pow(x, factor)


def scale(
    x: Any,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """``scale * x + bias``, or ``scale * (x + bias)``."""
    return activated(paddle.scale(x, scale, bias, bias_after_scale), act)


def clip(x: Any, min: float, max: float, name: str | None = None) -> Any:
    """``x`` within both bounds."""
    return paddle.clip(x, min, max)


def cumsum(
    x: Any, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None
) -> Any:
    """The running sum along an axis, the last one by default; it does not flatten."""
    axis = -1 if axis is None else axis
    if reverse:
        x = paddle.flip(x, [axis])
    total = paddle.cumsum(x, axis=axis)
    if exclusive:
        total = total - x
    return paddle.flip(total, [axis]) if reverse else total


def matmul(
    x: Any,
    y: Any,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Any:
    """The matrix product times a number."""
    product = paddle.matmul(x, y, transpose_x, transpose_y)
    return product if alpha == 1.0 else paddle.scale(product, alpha)


def mul(
    x: Any, y: Any, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None
) -> Any:
    """The product of both seen as matrices, whose rows are the first so many dimensions."""
    product = paddle.matmul(as_matrix(x, x_num_col_dims), as_matrix(y, y_num_col_dims))
    shape = [*_rows(x.shape[:x_num_col_dims]), *y.shape[y_num_col_dims:]]
    return paddle.reshape(product, shape)


def as_matrix(x: Any, columns_from: int) -> Any:
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

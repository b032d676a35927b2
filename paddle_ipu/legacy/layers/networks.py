"""``paddle.fluid.layers`` and ``paddle.fluid.nets``: layers with parameters, and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import paddle
import paddle.nn.functional as F  # noqa: N812

from paddle_ipu.legacy.layers.activations import activated
from paddle_ipu.legacy.layers.losses import dropout
from paddle_ipu.legacy.layers.tensors import without_last_one

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle._typing import DTypeLike, ParamAttrLike, Size2

    from paddle_ipu.legacy.layers.activations import Layer


def fc(
    input: Tensor,
    size: int,
    num_flatten_dims: int = 1,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """A fully connected layer on a variable, or on a list of them that is summed up."""
    result = paddle.static.nn.fc(
        input,
        size,
        num_flatten_dims=num_flatten_dims,
        weight_attr=param_attr,
        bias_attr=bias_attr,
        # Paddle 3.x numbers layers over all programs of a process.
        name=name or paddle.utils.unique_name.generate("fc"),
    )
    return activated(result, act)


def instance_norm(
    input: Tensor,
    epsilon: float = 1e-5,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Every channel of every sample normalised, then scaled and shifted.

    Today's makes scale and shift only where both attributes are given, this one unless they are
    False.
    """
    if param_attr is None:
        param_attr = paddle.ParamAttr()
    if bias_attr is None:
        bias_attr = paddle.ParamAttr()
    return paddle.static.nn.instance_norm(input, epsilon, param_attr, bias_attr, name)


def embedding(
    input: Tensor,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: ParamAttrLike | None = None,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """Rows of a table by number; the numbers' last dimension, of size 1, becomes the row.

    Raises:
        ValueError: the last dimension is not of size 1.
    """
    ids = without_last_one(input, "embedding")
    return input_embedding(ids, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


def input_embedding(
    input: Tensor,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: ParamAttrLike | None = None,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """``paddle.fluid.embedding``: rows of a table by number, a new last dimension."""
    return paddle.static.nn.embedding(
        input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype
    )


def pool2d(
    input: Tensor,
    pool_size: Size2 = -1,
    pool_type: str = "max",
    pool_stride: Size2 = 1,
    pool_padding: Size2 = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Tensor:
    """Pooling over windows or, where asked, over the whole image.

    Raises:
        ValueError: an unknown pool_type, or no size of the window.
    """
    if pool_type not in ("max", "avg"):
        raise ValueError(f"pool2d(pool_type={pool_type!r}): expected 'max' or 'avg'.")
    if global_pooling:
        pool_size = list(input.shape[2:4] if data_format == "NCHW" else input.shape[1:3])
        pool_padding = 0
    elif pool_size == -1:
        raise ValueError("pool2d: give pool_size, or global_pooling=True.")
    settings = {
        "kernel_size": pool_size,
        "stride": pool_stride,
        "padding": pool_padding,
        "ceil_mode": ceil_mode,
        "data_format": data_format,
    }
    if pool_type == "max":
        return F.max_pool2d(input, **settings)
    return F.avg_pool2d(input, exclusive=exclusive, **settings)


def adaptive_pool2d(
    input: Tensor,
    pool_size: Size2,
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Tensor:
    """Pooling to a size of the result.

    Raises:
        ValueError: an unknown pool_type.
    """
    if pool_type == "max":
        return F.adaptive_max_pool2d(input, pool_size, return_mask=require_index)
    if pool_type != "avg":
        raise ValueError(f"adaptive_pool2d(pool_type={pool_type!r}): expected 'max' or 'avg'.")
    return F.adaptive_avg_pool2d(input, pool_size)


def simple_img_conv_pool(
    input: Tensor,
    num_filters: int,
    filter_size: Size2,
    pool_size: Size2,
    pool_stride: Size2,
    pool_padding: Size2 = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Size2 = 1,
    conv_padding: Size2 = 0,
    conv_dilation: Size2 = 1,
    conv_groups: int = 1,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Tensor:
    """``paddle.fluid.nets.simple_img_conv_pool``: a convolution, then pooling."""
    result = paddle.static.nn.conv2d(
        input,
        num_filters,
        filter_size,
        stride=conv_stride,
        padding=conv_padding,
        dilation=conv_dilation,
        groups=conv_groups,
        param_attr=param_attr,
        bias_attr=bias_attr,
        act=act,
    )
    return pool2d(
        result,
        pool_size,
        pool_type,
        pool_stride,
        pool_padding,
        global_pooling=global_pooling,
    )


def scaled_dot_product_attention(
    queries: Tensor, keys: Tensor, values: Tensor, num_heads: int = 1, dropout_rate: float = 0.0
) -> Tensor:
    """``paddle.fluid.nets.scaled_dot_product_attention`` of tensors [batch, length, size].

    Raises:
        ValueError: sizes that the heads do not divide, or that do not fit one another.
    """
    size, value_size = queries.shape[-1], values.shape[-1]
    if keys.shape[-1] != size or size % num_heads or value_size % num_heads:
        raise ValueError(
            f"scaled_dot_product_attention: queries of size {size}, keys of size "
            f"{keys.shape[-1]} and values of size {value_size} with {num_heads} heads; expected "
            "queries and keys of one size, and multiples of the heads."
        )

    def split_heads(x: Tensor) -> Tensor:
        parts = paddle.reshape(x, [0, 0, num_heads, x.shape[-1] // num_heads])
        return paddle.transpose(parts, [0, 2, 1, 3])

    queries = paddle.scale(split_heads(queries), (size // num_heads) ** -0.5)
    weights = F.softmax(paddle.matmul(queries, split_heads(keys), transpose_y=True))
    if dropout_rate:
        weights = dropout(weights, dropout_rate)
    context = paddle.transpose(paddle.matmul(weights, split_heads(values)), [0, 2, 1, 3])
    return paddle.reshape(context, [0, 0, value_size])


FORWARDED: dict[str, Layer] = {"glu": lambda input, dim=-1: F.glu(input, dim)}
"""Layer -> its old arguments and defaults, by a function of today's Paddle."""

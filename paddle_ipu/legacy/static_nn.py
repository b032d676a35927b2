"""``paddle.static.nn`` layers with parameters, for PIR programs, which Paddle 3.x refuses.

Parameters have the names, shapes and initial values that the layer gives them in a ProgramDesc
program, so that weights saved from one fit the other.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import paddle
import paddle.nn.functional as F  # noqa: N812
from paddle.base import unique_name
from paddle.base.layer_helper import LayerHelper
from paddle.nn.initializer import Constant, Normal

from paddle_ipu.legacy.layers.activations import activated

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle._typing import DTypeLike, ParamAttrLike
    from paddle.nn.initializer import Initializer

Layer = Callable[..., "Tensor"]
Sizes = int | Sequence[int]


def _for_pir(build: Layer) -> Callable[[Layer], Layer]:
    """Makes the layer that builds by `build` under PIR and by Paddle's own layer otherwise."""

    def wrap(stock: Layer) -> Layer:
        signature = inspect.signature(stock)

        @functools.wraps(stock)
        def layer(*args: Any, **keywords: Any) -> Tensor:
            if not paddle.base.framework.in_pir_mode():
                return stock(*args, **keywords)
            bound = signature.bind(*args, **keywords)
            bound.apply_defaults()
            return build(**bound.arguments)

        return layer

    return wrap


def _parameter(
    helper: LayerHelper,
    attr: ParamAttrLike | None,
    shape: Sequence[int],
    dtype: DTypeLike,
    *,
    bias: bool = False,
    start: Initializer | None = None,
) -> Tensor:
    return helper.create_parameter(
        attr=attr, shape=list(shape), dtype=dtype, is_bias=bias, default_initializer=start
    )


def _bias(helper: LayerHelper, size: int, dtype: DTypeLike) -> Tensor | None:
    attr = helper.bias_attr
    return _parameter(helper, attr, [size], dtype, bias=True) if attr else None


def _helper(
    layer: str,
    name: str | None,
    param_attr: ParamAttrLike | None,
    bias_attr: ParamAttrLike | None = None,
) -> LayerHelper:
    # Paddle 3.x numbers layers over all programs of a process, whatever `unique_name.guard` says.
    name = name or unique_name.generate(layer)
    return LayerHelper(layer, name=name, param_attr=param_attr, bias_attr=bias_attr)


def _channels(x: Tensor, data_format: str) -> int:
    return int(x.shape[1] if data_format.startswith("NC") else x.shape[-1])


def _tuple(value: Sizes | str | None, rank: int) -> list[int]:
    return list(value) if isinstance(value, (list, tuple)) else [int(value)] * rank  # type: ignore[arg-type]


def _refuse(layer: str, **arguments: object) -> None:
    wrong = {name: value for name, value in arguments.items() if value}
    if wrong:
        names = ", ".join(f"{name}={value!r}" for name, value in wrong.items())
        raise ValueError(
            f"paddle.static.nn.{layer}({names}): a PIR program cannot express it. Leave it out, or "
            "use Paddle 2.6."
        )


def _embedding(
    input: Tensor,
    size: Sequence[int],
    is_sparse: bool,
    is_distributed: bool,
    padding_idx: int | None,
    param_attr: ParamAttrLike | None,
    dtype: DTypeLike,
) -> Tensor:
    _refuse("embedding", is_distributed=is_distributed)
    weight = _parameter(_helper("embedding", None, param_attr), param_attr, size, dtype)
    return F.embedding(input, weight, padding_idx=padding_idx, sparse=is_sparse)


def _convolution(rank: int) -> Layer:
    def build(
        input: Tensor,
        num_filters: int,
        filter_size: Sizes | None,
        stride: Sizes,
        padding: Sizes | str,
        dilation: Sizes,
        groups: int | None,
        param_attr: ParamAttrLike | None,
        bias_attr: ParamAttrLike | None,
        use_cudnn: bool,
        act: str | None,
        name: str | None,
        data_format: str,
    ) -> Tensor:
        channels = _channels(input, data_format)
        groups = groups or 1
        depthwise = rank == 2 and channels == groups and num_filters % channels == 0
        kind = "depthwise_conv2d" if depthwise and not use_cudnn else f"conv{rank}d"
        helper = _helper(kind, name, param_attr, bias_attr)
        kernel = _tuple(filter_size, rank)
        start = Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * channels)))
        shape = [num_filters, channels // groups, *kernel]
        weight = _parameter(helper, helper.param_attr, shape, input.dtype, start=start)
        bias = _bias(helper, num_filters, input.dtype)
        today = F.conv2d if rank == 2 else F.conv3d
        result = today(input, weight, bias, stride, padding, dilation, groups, data_format)
        return activated(result, act)

    return build


def _transposed_convolution(rank: int) -> Layer:
    def build(
        input: Tensor,
        num_filters: int,
        output_size: Sizes | None,
        filter_size: Sizes | None,
        padding: Sizes | str,
        stride: Sizes,
        dilation: Sizes,
        groups: int | None,
        param_attr: ParamAttrLike | None,
        bias_attr: ParamAttrLike | None,
        use_cudnn: bool,
        act: str | None,
        name: str | None,
        data_format: str,
    ) -> Tensor:
        channels = _channels(input, data_format)
        groups = groups or 1
        if filter_size is None:
            filter_size = _kernel(input, rank, output_size, padding, stride, dilation, data_format)
        helper = _helper(f"conv{rank}d_transpose", name, param_attr, bias_attr)
        shape = [channels, num_filters // groups, *_tuple(filter_size, rank)]
        weight = _parameter(helper, helper.param_attr, shape, input.dtype)
        bias = _bias(helper, num_filters, input.dtype)
        today = F.conv2d_transpose if rank == 2 else F.conv3d_transpose
        result = today(
            input,
            weight,
            bias,
            stride,
            padding,
            0,
            groups,
            dilation,
            output_size=output_size,
            data_format=data_format,
        )
        return activated(result, act)

    return build


def _kernel(
    x: Tensor,
    rank: int,
    output_size: Sizes | None,
    padding: Sizes | str,
    stride: Sizes,
    dilation: Sizes,
    data_format: str,
) -> list[int]:
    """The filter that turns the input's size into `output_size`."""
    if output_size is None:
        raise ValueError("a transposed convolution needs filter_size or output_size; got neither.")
    sizes = x.shape[2:] if data_format.startswith("NC") else x.shape[1:-1]
    steps = zip(
        sizes,
        *(_tuple(value, rank) for value in (output_size, padding, stride, dilation)),
        strict=True,
    )
    return [(out - (size - 1) * s + 2 * p - 1) // d + 1 for size, out, p, s, d in steps]


def _batch_norm(
    input: Tensor,
    act: str | None,
    is_test: bool,
    momentum: float,
    epsilon: float,
    param_attr: ParamAttrLike | None,
    bias_attr: ParamAttrLike | None,
    data_layout: str,
    in_place: bool,
    name: str | None,
    moving_mean_name: str | None,
    moving_variance_name: str | None,
    do_model_average_for_mean_and_var: bool,
    use_global_stats: bool,
) -> Tensor:
    helper = _helper("batch_norm", name, param_attr, bias_attr)
    shape = [_channels(input, data_layout)]
    scale = _parameter(helper, helper.param_attr, shape, input.dtype, start=Constant(1.0))
    bias = _parameter(helper, helper.bias_attr, shape, input.dtype, bias=True)
    running = []
    for own_name, first in ((moving_mean_name, 0.0), (moving_variance_name, 1.0)):
        attr = paddle.ParamAttr(name=own_name, initializer=Constant(first), trainable=False)
        statistic = _parameter(helper, attr, shape, input.dtype)
        statistic.stop_gradient = True
        running.append(statistic)
    result = F.batch_norm(
        input,
        *running,
        scale,
        bias,
        training=not is_test,
        momentum=momentum,
        epsilon=epsilon,
        data_format=data_layout,
        # False would make a copy for tests normalise by the batch.
        use_global_stats=use_global_stats or None,
    )
    return activated(result, act)


def _layer_norm(
    input: Tensor,
    scale: bool,
    shift: bool,
    begin_norm_axis: int,
    epsilon: float,
    param_attr: ParamAttrLike | None,
    bias_attr: ParamAttrLike | None,
    act: str | None,
    name: str | None,
) -> Tensor:
    helper = _helper("layer_norm", name, param_attr, bias_attr)
    shape = [int(dim) for dim in input.shape[begin_norm_axis:]]
    size = [math.prod(shape)]
    dtype = input.dtype
    start = Constant(1.0)
    weight = _parameter(helper, helper.param_attr, size, dtype, start=start) if scale else None
    bias = _parameter(helper, helper.bias_attr, size, dtype, bias=True) if shift else None
    # Paddle's function wants the parameters in the shape of what is normalised in some versions.
    result = paddle._C_ops.layer_norm(input, weight, bias, epsilon, len(input.shape) - len(shape))
    return activated(result, act)


def _group_norm(
    input: Tensor,
    groups: int,
    epsilon: float,
    param_attr: ParamAttrLike | None,
    bias_attr: ParamAttrLike | None,
    act: str | None,
    data_layout: str,
    name: str | None,
) -> Tensor:
    helper = _helper("group_norm", name, param_attr, bias_attr)
    shape = [_channels(input, data_layout)]
    # As in ProgramDesc programs, None makes no parameter.
    weight = bias = None
    if param_attr:
        weight = _parameter(helper, helper.param_attr, shape, input.dtype, start=Constant(1.0))
    if bias_attr:
        bias = _parameter(helper, helper.bias_attr, shape, input.dtype, bias=True)
    result = F.group_norm(input, groups, epsilon, weight, bias, data_layout)
    return activated(result, act)


def _instance_norm(
    input: Tensor,
    epsilon: float,
    param_attr: ParamAttrLike | None,
    bias_attr: ParamAttrLike | None,
    name: str | None,
) -> Tensor:
    helper = _helper("instance_norm", name, param_attr, bias_attr)
    shape = [int(input.shape[1])]
    weight = bias = None
    if param_attr and bias_attr:
        weight = _parameter(helper, helper.param_attr, shape, input.dtype, start=Constant(1.0))
        bias = _parameter(helper, helper.bias_attr, shape, input.dtype, bias=True)
    return F.instance_norm(input, weight=weight, bias=bias, eps=epsilon)


def _prelu(
    x: Tensor, mode: str, param_attr: ParamAttrLike | None, data_format: str, name: str | None
) -> Tensor:
    channels = _channels(x, data_format)
    channel = [1, channels, 1, 1] if data_format.startswith("NC") else [1, 1, 1, channels]
    shapes = {"all": [1], "channel": channel, "element": [1, *x.shape[1:]]}
    if mode not in shapes:
        raise ValueError(f"prelu(mode={mode!r}): expected one of {', '.join(map(repr, shapes))}.")
    helper = _helper("prelu", name, param_attr)
    weight = _parameter(helper, helper.param_attr, shapes[mode], x.dtype, start=Constant(0.25))
    if mode == "channel" and len(x.shape) != len(channel):
        # The parameter has this shape whatever the rank, as in a ProgramDesc program.
        ones = [1] * (len(x.shape) - 2)
        first = data_format.startswith("NC")
        weight = paddle.reshape(weight, [1, channels, *ones] if first else [1, *ones, channels])
    zeros = paddle.zeros_like(x)
    return paddle.maximum(x, zeros) + weight * paddle.minimum(x, zeros)


def _bilinear_tensor_product(
    x: Tensor,
    y: Tensor,
    size: int,
    act: str | None,
    name: str | None,
    param_attr: ParamAttrLike | None,
    bias_attr: ParamAttrLike | None,
) -> Tensor:
    helper = _helper("bilinear_tensor_product", name, param_attr, bias_attr)
    shape = [size, x.shape[1], y.shape[1]]
    weight = _parameter(helper, helper.param_attr, shape, x.dtype)
    bias = None
    if helper.bias_attr:
        bias = _parameter(helper, helper.bias_attr, [1, size], x.dtype, bias=True)
    return activated(F.bilinear(x, y, weight, bias), act)


embedding = _for_pir(_embedding)
conv2d = _for_pir(_convolution(2))
conv3d = _for_pir(_convolution(3))
conv2d_transpose = _for_pir(_transposed_convolution(2))
conv3d_transpose = _for_pir(_transposed_convolution(3))
batch_norm = _for_pir(_batch_norm)
layer_norm = _for_pir(_layer_norm)
group_norm = _for_pir(_group_norm)
instance_norm = _for_pir(_instance_norm)
prelu = _for_pir(_prelu)
bilinear_tensor_product = _for_pir(_bilinear_tensor_product)

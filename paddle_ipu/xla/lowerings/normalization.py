"""Lowerings of normalisation: batch, group and instance; statistics are taken in float32."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.kernels import channel_sums
from paddle_ipu.xla.lowerings.arrays import Inputs, Results, where_in_program
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering
from paddle_ipu.xla.lowerings.residuals import Rematerialization, due

_ROWS_AT_ONCE = 32
"""The longest sum that XLA leaves as it is."""

Triple = tuple[jax.Array, jax.Array, jax.Array]

_Residuals = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
"""(x, mean, 1 / standard deviation, scale)."""


def _statistics(context: LoweringContext, x: jax.Array, axes: tuple[int, ...]) -> Triple:
    """(deviations from the mean, mean, population variance); the last two keep their axes.

    The variance is the mean square of the deviations. Of a half tensor it is the mean square less
    the square of the mean, which takes one pass and cancels where the mean is large, unless the
    session asks for stable norms.
    """
    mean = jnp.mean(x, axis=axes, keepdims=True)
    deviations = x - mean
    if _in_one_pass(context):
        variance = jnp.mean(lax.square(x), axis=axes, keepdims=True) - lax.square(mean)
        return deviations, mean, lax.max(variance, jnp.zeros_like(variance))
    return deviations, mean, jnp.mean(lax.square(deviations), axis=axes, keepdims=True)


def _in_one_pass(context: LoweringContext) -> bool:
    """Whether the variance is the mean square less the square of the mean."""
    return context.is_half and not context.precision.stable_norms


def _per_channel(vector: jax.Array, rank: int, axis: int = 1) -> jax.Array:
    """A vector [C] shaped to broadcast against [N, C, ...], or [N, ..., C] with `axis` -1."""
    shape = [1] * rank
    shape[axis] = -1
    return jnp.reshape(vector, shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def normalised(x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float) -> Triple:
    """x normalised over its last axis, times scale plus bias; mean; 1 / standard deviation."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    deviations = x - mean
    variance = jnp.mean(lax.square(deviations), axis=-1, keepdims=True)
    inverse = lax.rsqrt(variance + epsilon)
    return deviations * inverse * scale + bias, mean, inverse


def _normalised_forward(
    x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float
) -> tuple[Triple, tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:
    y, mean, inverse = normalised(x, scale, bias, epsilon)
    return (y, mean, inverse), (x, mean, inverse, scale)


def _normalised_backward(epsilon: float, residuals: _Residuals, gradients: Triple) -> Triple:
    (x, mean, inverse, scale), (of_y, of_mean, of_inverse) = due(residuals, gradients)
    normal, of_normal = (x - mean) * inverse, of_y * scale
    # With n = (x - mean) * inverse and mean(.) over the row, of y alone:
    # inverse * (of_n - mean(of_n) - n * mean(of_n * n)). The other results add the shares.
    along = jnp.mean(of_normal * normal, axis=-1, keepdims=True)
    share = of_inverse * inverse * normal / x.shape[-1]
    share = share + jnp.mean(of_normal, axis=-1, keepdims=True)
    rows = tuple(range(x.ndim - 1))
    return (
        inverse * (of_normal - normal * along - share) + of_mean / x.shape[-1],
        jnp.sum(of_y * normal, axis=rows),
        jnp.sum(of_y, axis=rows),
    )


normalised.defvjp(_normalised_forward, _normalised_backward)


def _rematerialized(
    x: jax.Array, mean: jax.Array, inverse: jax.Array, scale: jax.Array, bias: jax.Array
) -> jax.Array:
    """The normalised rows from what backward keeps anyway."""
    return (x - mean) * inverse * scale + bias


@lowering("ai.graphcore", "GroupNormalization")
def group_normalization(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Triple:
    """Normalises x [N, C, ...] over each of ``num_groups`` groups of channels.

    A group is neighbouring channels, or with strided grouping every ``num_groups``-th channel.
    Returns (y, mean [N * groups], 1 / standard deviation [N * groups]), as PopART.
    """
    x, scale, bias = (jnp.asarray(value) for value in inputs)
    groups, epsilon = int(attributes["num_groups"]), float(attributes.get("epsilon", 1e-5))
    if x.shape[1] % groups:
        raise LoweringError(
            f"{where_in_program(context)}: {x.shape[1]} channels do not divide into {groups} "
            "groups; num_groups must be a divisor of axis 1."
        )
    # One group of a matrix is layer normalisation, and its rows need not be in one axis.
    rows = _rows(context, x) if x.ndim == 2 and groups == 1 else None
    strided = context.precision.strided_groups and groups > 1
    by_group = _strided(x, groups) if strided else x
    grouped = by_group.reshape(x.shape[0] * groups, -1) if rows is None else rows
    grouped = grouped.astype(jnp.float32)
    if rows is not None and not _in_one_pass(context):
        scale, bias = scale.astype(jnp.float32), bias.astype(jnp.float32)
        y, mean, inverse = normalised(grouped, scale, bias, epsilon)
        context.rematerialized[0] = Rematerialization(
            _rematerialized, (grouped, mean, inverse, scale, bias)
        )
        return y.astype(x.dtype).reshape(x.shape), mean.reshape(-1), inverse.reshape(-1)
    deviations, mean, variance = _statistics(context, grouped, (grouped.ndim - 1,))
    inverse = lax.rsqrt(variance + epsilon)
    normal = deviations * inverse
    if rows is None:
        if strided:
            normal = _strided(normal.reshape(x.shape), x.shape[1] // groups)
        normal = normal.reshape(x.shape)
        scale, bias = _per_channel(scale, x.ndim), _per_channel(bias, x.ndim)
    y = (normal * scale + bias).astype(x.dtype).reshape(x.shape)
    return y, mean.reshape(-1), inverse.reshape(-1)


def _strided(x: jax.Array, groups: int) -> jax.Array:
    """Channels of x [N, C, ...] in the order 0, groups, 2 * groups, …, 1, groups + 1, …."""
    split = x.reshape(x.shape[0], -1, groups, *x.shape[2:])
    return jnp.swapaxes(split, 1, 2).reshape(x.shape)


def _rows(context: LoweringContext, x: jax.Array) -> jax.Array:
    """`x` [N, C], or [..., C] where a Reshape has only merged its leading axes.

    XLA fuses through a reshape in front of the mean: each fusion behind it would recompute the
    residual additions and normalisations of all layers before.
    """
    source = context.sources[0] if context.sources else None
    return x if source is None or source.shape[-1] != x.shape[1] else jnp.asarray(source)


def _applied(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
    epsilon: float,
    axis: int = 1,
) -> jax.Array:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` by channel, in float32."""
    scale, bias, mean, variance = (
        _per_channel(vector, x.ndim, axis) for vector in (scale, bias, mean, variance)
    )
    normal = (x.astype(jnp.float32) - mean) * lax.rsqrt(variance.astype(jnp.float32) + epsilon)
    return (normal * scale + bias).astype(x.dtype)


def _sum_of_rows(x: jax.Array) -> jax.Array:
    """The sum of x [..., C] over all axes but the last, of some rows at a time.

    XLA's CPU backend divides a long sum by itself, for the sake of rounding; but where YNNPACK does
    not take them, these sums took two fifths of a step of ResNet-50.
    """
    x = x.reshape(-1, x.shape[-1])
    while x.shape[0] > _ROWS_AT_ONCE:
        x = lax.pad(x, np.zeros((), x.dtype), ((0, -x.shape[0] % _ROWS_AT_ONCE, 0), (0, 0, 0)))
        x = jnp.sum(x.reshape(-1, _ROWS_AT_ONCE, x.shape[-1]), axis=1)
    return jnp.sum(x, axis=0)


def _moments(x: jax.Array, in_one_pass: bool) -> tuple[jax.Array, jax.Array]:
    """The means and population variances of x [..., C]."""
    if not in_one_pass and channel_sums.has_kernel(x):
        return channel_sums.moments(x)
    count = x.size // x.shape[-1]
    mean = _sum_of_rows(x) / count
    if in_one_pass:
        variance = _sum_of_rows(lax.square(x)) / count - lax.square(mean)
        return mean, lax.max(variance, jnp.zeros_like(variance))
    return mean, _sum_of_rows(lax.square(x - mean)) / count


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _over_batch(
    x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float, in_one_pass: bool
) -> Triple:
    """x [N, ..., C] normalised by channel; the channels' means and population variances [C].

    Only the first result has a gradient.
    """
    mean, variance = _moments(x, in_one_pass)
    return (x - mean) * lax.rsqrt(variance + epsilon) * scale + bias, mean, variance


def _over_batch_forward(
    x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float, in_one_pass: bool
) -> tuple[Triple, _Residuals]:
    y, mean, variance = _over_batch(x, scale, bias, epsilon, in_one_pass)
    return (y, mean, variance), (x, mean, lax.rsqrt(variance + epsilon), scale)


def _over_batch_backward(
    epsilon: float, in_one_pass: bool, residuals: _Residuals, gradients: Triple
) -> Triple:
    (x, mean, inverse, scale), (of_y, _, _) = due(residuals, gradients)
    count = x.size // x.shape[-1]
    normal = (x - mean) * inverse
    if channel_sums.has_kernel(x):
        of_bias, of_scale = channel_sums.gradient_sums(of_y, x, mean, inverse)
    else:
        of_scale, of_bias = _sum_of_rows(of_y * normal), _sum_of_rows(of_y)
    # With n = normal and mean(.) over the batch: scale * inverse * (g - mean(g) - n * mean(g * n)).
    of_x = (of_y - of_bias / count - normal * (of_scale / count)) * (inverse * scale)
    return of_x, of_scale.astype(scale.dtype), of_bias.astype(scale.dtype)


_over_batch.defvjp(_over_batch_forward, _over_batch_backward)


@lowering("ai.onnx", "BatchNormalization")
@lowering("ai.graphcore", "BatchNormalization")
def batch_normalization(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> Results:
    """Normalises x [N, C, ...] by channel.

    With one output it uses the mean and variance given. With five it uses the batch's own and
    returns (y, running mean, running variance, batch mean, batch variance): running is
    ``momentum * old + (1 - momentum) * batch``, the variance that of the population. In
    ``ai.graphcore``, ``unbiased_variance`` (default 1) divides the running variance by N - 1.
    Only y has a gradient. With ``spatial`` 0 each element of a sample is normalised by itself.
    """
    x, scale, bias, old_mean, old_variance = (jnp.asarray(value) for value in inputs)
    epsilon = float(attributes.get("epsilon", 1e-5))
    momentum = float(attributes.get("momentum", 0.9))
    if context.num_outputs not in (1, 5):
        raise LoweringError(
            f"{where_in_program(context)}: batch normalisation has 1 output (inference) or 5 "
            f"(training), got {context.num_outputs}."
        )
    if not attributes.get("spatial", 1):
        # Every element of a sample is a channel.
        flat = [x.reshape(x.shape[0], -1, 1), *(jnp.ravel(value) for value in inputs[1:])]
        results = batch_normalization(context, flat, {**attributes, "spatial": 1})
        several = results if isinstance(results, tuple) else (results,)
        shapes = [x.shape, *[x.shape[1:]] * 4]
        return tuple(value.reshape(shape) for value, shape in zip(several, shapes, strict=False))
    if context.num_outputs == 1:
        own = scale, bias, old_mean, old_variance
        turned = context.images.operands([x])
        if turned is None:
            return _applied(x, *own, epsilon)
        return context.images.first(_applied(jnp.asarray(turned[0]), *own, epsilon, axis=-1))
    wide = context.images.last(x).astype(jnp.float32)
    y, mean, variance = _over_batch(wide, scale, bias, epsilon, _in_one_pass(context))
    batch_mean = lax.stop_gradient(mean.astype(old_mean.dtype))
    batch_variance = lax.stop_gradient(variance.astype(old_variance.dtype))
    estimate = batch_variance
    if context.domain == "ai.graphcore" and attributes.get("unbiased_variance", 1):
        count = x.size // x.shape[1]
        estimate = batch_variance * (count / max(count - 1, 1))
    old_mean, old_variance = lax.stop_gradient((old_mean, old_variance))
    return (
        context.images.first(y.astype(x.dtype)),
        momentum * old_mean + (1 - momentum) * batch_mean,
        momentum * old_variance + (1 - momentum) * estimate,
        batch_mean,
        batch_variance,
    )


def folded_without_bias(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """A batch norm whose scale is folded into the product before it: the bias remains."""
    x = jnp.asarray(inputs[0])
    return x + _per_channel(jnp.asarray(inputs[2]), x.ndim)


def folded_whole(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """A batch norm that is folded into the product before it and its bias: the identity."""
    return jnp.asarray(inputs[0])


@lowering("ai.onnx", "LRN")
def local_response_normalization(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """x [N, C, ...] divided by ``(bias + alpha / size * s) ** beta``.

    s is the sum of squares over a window of ``size`` channels; an even window has one channel more
    behind its centre than before it.
    """
    x, size = jnp.asarray(inputs[0]), int(attributes["size"])
    before = (size - 1) // 2
    rest = (1,) * (x.ndim - 2)
    padding = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    total = lax.reduce_window(
        lax.square(x), np.zeros((), x.dtype), lax.add, (1, size, *rest), (1,) * x.ndim, padding
    )
    bias, alpha = float(attributes.get("bias", 1.0)), float(attributes.get("alpha", 1e-4))
    out: jax.Array = x / (bias + alpha / size * total) ** float(attributes.get("beta", 0.75))
    return out


@lowering("ai.onnx", "InstanceNormalization")
def instance_normalization(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """Normalises each channel of each sample of x [N, C, ...] over its spatial axes."""
    x, scale, bias = (jnp.asarray(value) for value in inputs)
    deviations, _, variance = _statistics(context, x.astype(jnp.float32), tuple(range(2, x.ndim)))
    normal = deviations * lax.rsqrt(variance + float(attributes.get("epsilon", 1e-5)))
    y = normal * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)
    return y.astype(x.dtype)

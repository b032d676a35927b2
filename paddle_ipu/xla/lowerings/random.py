"""Lowerings of random operators: each draws from its own key of the current micro-batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, Results, where_in_program
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _ratio(context: LoweringContext, attributes: Attributes) -> float:
    ratio = float(attributes.get("ratio", 0.5))
    if not 0 <= ratio < 1:
        raise LoweringError(
            f"{where_in_program(context)}: the ratio must be at least 0 and less than 1, "
            f"got {ratio}."
        )
    return ratio


def _keep_mask(context: LoweringContext, shape: tuple[int, ...], ratio: float) -> jax.Array:
    """Bool tensor, true with probability 1 - ratio to within 2^-32."""
    bits = jax.random.bits(context.rng_key(), shape, jnp.uint32)
    mask: jax.Array = bits >= jnp.uint32(min(round(ratio * 2**32), 2**32 - 1))
    return mask


def _dropped(x: jax.Array, mask: jax.Array, ratio: float) -> jax.Array:
    return jnp.where(mask, x * (1 / (1 - ratio)), jnp.zeros_like(x))


@lowering("ai.onnx", "Dropout", random=True)
def dropout(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Results:
    """Zeros each element with probability ``ratio`` and scales the rest by 1 / (1 - ratio).

    The identity outside training. The optional second output is the mask, true where kept.
    """
    x = jnp.asarray(inputs[0])
    ratio = _ratio(context, attributes)
    if context.training and ratio > 0:
        mask = _keep_mask(context, x.shape, ratio)
        out = _dropped(x, mask, ratio)
    else:
        out, mask = x, jnp.ones(x.shape, jnp.bool_)
    return (out, mask) if context.num_outputs > 1 else out


@lowering("ai.graphcore", "ShapedDropout", random=True)
def shaped_dropout(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Dropout with a mask of the attribute ``shape``, broadcast to the input."""
    x = jnp.asarray(inputs[0])
    ratio = _ratio(context, attributes)
    if not context.training or ratio == 0:
        return x
    shape = tuple(int(size) for size in attributes["shape"])
    return _dropped(x, _keep_mask(context, shape, ratio), ratio)


def _key(context: LoweringContext, attributes: Attributes) -> jax.Array:
    """The operator's own key, or that of the attribute ``seed`` where it has one."""
    seed = int(attributes.get("seed", 0) or 0)
    if seed == 0:
        return context.rng_key()
    low = jax.random.key(np.uint32(seed & 0xFFFFFFFF))
    return jax.random.fold_in(low, np.uint32(seed >> 32 & 0xFFFFFFFF))


def _shape(attributes: Attributes) -> tuple[int, ...]:
    return tuple(int(size) for size in attributes.get("shape") or ())


def _normal(key: jax.Array, shape: tuple[int, ...], attributes: Attributes) -> jax.Array:
    """Numbers of mean ``mean`` and standard deviation ``scale``."""
    drawn = jax.random.normal(key, shape, jnp.float32)
    return drawn * float(attributes.get("scale", 1.0)) + float(attributes.get("mean", 0.0))


def _uniform(key: jax.Array, shape: tuple[int, ...], attributes: Attributes) -> jax.Array:
    """Numbers in [``low``, ``high``)."""
    low, high = np.float32(attributes.get("low", 0.0)), np.float32(attributes.get("high", 1.0))
    drawn = jax.random.uniform(key, shape, jnp.float32) * (high - low) + low
    # Rounding may reach the upper bound, which does not belong to the interval.
    return jnp.minimum(drawn, np.nextafter(high, low))


@lowering("ai.onnx", "RandomNormal", random=True)
@lowering("ai.paddle_ipu", "SeededNormal", random=True)
def random_normal(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Normal numbers of the attribute ``shape``."""
    return _normal(_key(context, attributes), _shape(attributes), attributes)


@lowering("ai.onnx", "RandomUniform", random=True)
@lowering("ai.paddle_ipu", "SeededUniform", random=True)
def random_uniform(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Uniform numbers of the attribute ``shape``."""
    return _uniform(_key(context, attributes), _shape(attributes), attributes)


@lowering("ai.onnx", "RandomNormalLike", random=True)
def random_normal_like(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """Normal numbers in the shape of the input."""
    return _normal(context.rng_key(), inputs[0].shape, attributes)


@lowering("ai.onnx", "RandomUniformLike", random=True)
def random_uniform_like(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """Uniform numbers in the shape of the input."""
    return _uniform(context.rng_key(), inputs[0].shape, attributes)


@lowering("ai.paddle_ipu", "TruncatedNormal", random=True)
def truncated_normal(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Normal numbers conditioned on lying between ``low`` and ``high``."""
    mean, scale = float(attributes["mean"]), float(attributes["scale"])
    low, high = ((float(attributes[name]) - mean) / scale for name in ("low", "high"))
    drawn = jax.random.truncated_normal(
        _key(context, attributes), low, high, _shape(attributes), jnp.float32
    )
    return drawn * scale + mean


@lowering("ai.paddle_ipu", "RandomInteger", random=True)
def random_integer(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Whole numbers in [``low``, ``high``)."""
    low, high = int(attributes["low"]), int(attributes["high"])
    return jax.random.randint(context.rng_key(), _shape(attributes), low, high, jnp.int32)


@lowering("ai.paddle_ipu", "RandomPermutation", random=True)
def random_permutation(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """The numbers from 0 to ``n`` - 1 in random order."""
    return jax.random.permutation(context.rng_key(), jnp.arange(int(attributes["n"])))


@lowering("ai.paddle_ipu", "Poisson", random=True)
def poisson(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """A Poisson number for each rate."""
    rate = jnp.asarray(inputs[0])
    return jax.random.poisson(context.rng_key(), rate).astype(rate.dtype)


@lowering("ai.paddle_ipu", "Gamma", random=True)
def gamma(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """A gamma number of scale 1 for each shape parameter."""
    alpha = jax.lax.stop_gradient(jnp.asarray(inputs[0]))
    return jax.random.gamma(context.rng_key(), alpha)


@lowering("ai.paddle_ipu", "Binomial", random=True)
def binomial(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """How many of `count` trials succeed, each with the given probability."""
    count, probability = (jnp.asarray(value, jnp.float32) for value in inputs)
    return jax.random.binomial(context.rng_key(), count, probability).astype(jnp.int32)


@lowering("ai.paddle_ipu", "Multinomial", random=True)
def multinomial(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Indices drawn in proportion to weights [..., C].

    Without ``replacement`` by the Gumbel top-k trick: the indices of the largest logarithms plus
    Gumbel noise (Kool et al., arXiv:1903.06059).
    """
    logs = jnp.log(jnp.asarray(inputs[0]))
    count = int(attributes["num_samples"])
    if attributes.get("replacement", 0):
        shape = (count, *logs.shape[:-1])
        drawn = jax.random.categorical(context.rng_key(), logs, shape=shape)
        return jnp.moveaxis(drawn, 0, -1).astype(jnp.int32)
    noise = jax.random.gumbel(context.rng_key(), logs.shape, jnp.float32)
    return jax.lax.top_k(logs + noise, count)[1]


@lowering("ai.paddle_ipu", "ClassCenterSample", random=True)
def class_center_sample(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(position of each label among the sampled classes, the ``num_samples`` classes).

    The classes that have labels come first, in ascending order; the others are random.
    """
    label = jnp.asarray(inputs[0]).reshape(-1)
    classes, count = int(attributes["num_classes"]), int(attributes["num_samples"])
    present = jnp.zeros(classes, jnp.bool_).at[label].set(True)
    noise = jax.random.uniform(_key(context, attributes), (classes,))
    order = jnp.lexsort(
        (jnp.where(present, jnp.arange(classes, dtype=jnp.float32), noise), ~present)
    )
    position = jnp.cumsum(present) - 1
    return position[label].reshape(inputs[0].shape).astype(jnp.int32), order[:count]


@lowering("ai.paddle_ipu", "SeededPermutation")
def seeded_permutation(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(the numbers from 0 to ``n`` - 1 in an order that the seed [1] decides, the next seed)."""
    key, following = jax.random.split(jax.random.key(jnp.asarray(inputs[0]).reshape(())))
    seed = jax.random.randint(following, inputs[0].shape, 1, 2**31 - 1, jnp.int32)
    return jax.random.permutation(key, jnp.arange(int(attributes["n"]))), seed


@lowering("ai.paddle_ipu", "TopPSampling", random=True)
def top_p_sampling(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(probability, index) of a class drawn by nucleus sampling (arXiv:1904.09751).

    Probabilities are [B, V]; only the most probable whose sum reaches p [B] are drawn from.
    """
    x, p = jnp.asarray(inputs[0]), jnp.asarray(inputs[1]).reshape(-1)
    order = jnp.argsort(x, axis=1, descending=True)
    sums = jnp.cumsum(jnp.take_along_axis(x, order, axis=1), axis=1)
    drawn = jax.random.uniform(_key(context, attributes), p.shape, jnp.float32) * p
    rank = jnp.minimum(jnp.sum(sums <= drawn[:, None], axis=1), x.shape[1] - 1)
    index = jnp.take_along_axis(order, rank[:, None], axis=1)
    return jnp.take_along_axis(x, index, axis=1)[:, 0], index[:, 0].astype(jnp.int32)

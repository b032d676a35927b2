"""Lowerings of losses."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, Single, where_in_program
from paddle_ipu.xla.lowerings.elementwise import absolute
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_Triple = tuple[jax.Array, jax.Array, jax.Array]


def reduced(
    context: LoweringContext,
    loss: jax.Array,
    attributes: Attributes,
    divisor: jax.Array | None = None,
) -> jax.Array:
    """`loss` under the attribute ``reduction`` ("Mean" by default, "Sum" or "None")."""
    reduction = attributes.get("reduction", "Mean")
    if reduction == "None":
        return loss
    if reduction == "Sum":
        return jnp.sum(loss)
    if reduction == "Mean":
        return jnp.sum(loss) / (loss.size if divisor is None else divisor)
    raise LoweringError(
        f"{where_in_program(context)}: unknown reduction {reduction!r}; "
        "expected 'Mean', 'Sum' or 'None'."
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _clamped_log(probability: jax.Array, epsilon: float, steepest: float) -> jax.Array:
    """log(max(p, epsilon)); its derivative is 1 / max(p, steepest), also below epsilon."""
    return lax.log(jnp.maximum(probability, epsilon))


@_clamped_log.defjvp
def _clamped_log_jvp(epsilon: float, steepest: float, primals: Single, tangents: Single) -> Pair:
    (probability,), (tangent,) = primals, tangents
    return _clamped_log(probability, epsilon, steepest), tangent / jnp.maximum(
        probability, steepest
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _nll_of_softmax(
    logits: jax.Array, probabilities: jax.Array, labels: jax.Array, epsilon: float
) -> jax.Array:
    """``-log(max(p[label], epsilon))`` of the softmax of `logits`.

    Its derivative goes straight to the logits, as in PopART's NlllWithSoftmaxGradDirect: that of
    the logarithm, 1 / p times the loss scale, overflows half where p is small.
    """
    return -lax.log(jnp.maximum(_picked(probabilities, labels), epsilon))


@_nll_of_softmax.defjvp
def _nll_of_softmax_jvp(epsilon: float, primals: _Triple, tangents: _Triple) -> Pair:
    logits, probabilities, labels = primals
    slope = probabilities - _is_label(probabilities, labels).astype(probabilities.dtype)
    return _nll_of_softmax(*primals, epsilon), jnp.sum(slope * tangents[0], axis=-1)


def _is_label(x: jax.Array, labels: jax.Array) -> jax.Array:
    """Whether an element of `x` is the one of its label; labels as for :func:`_picked`."""
    return lax.broadcasted_iota(labels.dtype, x.shape, x.ndim - 1) == labels[..., None]


def _is_class(x: jax.Array, labels: jax.Array) -> jax.Array:
    return (labels >= 0) & (labels < x.shape[-1])


@jax.custom_jvp
def _picked(x: jax.Array, labels: jax.Array) -> jax.Array:
    """``x[..., labels]``, shaped like `labels`; 0 for a label that is no class."""
    index = jnp.clip(labels, 0, x.shape[-1] - 1)[..., None]
    picked = jnp.take_along_axis(x, index, axis=-1, mode="promise_in_bounds")[..., 0]
    return jnp.where(_is_class(x, labels), picked, jnp.zeros_like(picked))


@_picked.defjvp
def _picked_jvp(primals: Pair, tangents: Pair) -> Pair:
    # Transposed, this is a select that fuses into the gradient of softmax; a gather's transpose
    # is a scatter into a tensor of zeros.
    (x, labels), (tangent, _) = primals, tangents
    is_label = _is_label(x, labels)
    return _picked(x, labels), jnp.sum(
        jnp.where(is_label, tangent, jnp.zeros_like(tangent)), axis=-1
    )


def _check_labels(
    context: LoweringContext,
    labels: jax.Array,
    x: jax.Array,
    ignored: float | None,
    effect: str = "",
) -> None:
    number = None if ignored is None else int(ignored)
    context.within("label", labels, 0, x.shape[-1] - 1, number, effect)


def _effect(context: LoweringContext, epsilon: float | None) -> str:
    """What a label that is no class does in a program for PopART, and what to do about it.

    Args:
        epsilon: the smallest probability; None for logarithms.
    """
    label = f"Such a label, of tensor '{context.input_ids[1]}'," if context.input_ids else "It"
    if epsilon is None:
        told = f"{label} has no loss and no gradient, as on an IPU."
    else:
        gradient = "the gradient of a row without a right class" if context.is_joined else "none"
        told = (
            f"{label} has the loss of a probability of 0, {-math.log(epsilon):.3g}, as on an IPU"
            + (f", and {gradient}." if context.training else ".")
        )
    return f"{told} Check the labels, or name one that counts nothing as ignoreIndex."


@lowering("ai.graphcore", "Nll")
def nll(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Negative log likelihood of `labels` [...] under probabilities [..., C].

    "Mean" divides by the number of labels, or with ``ignoreIndex`` by that of the labels not
    ignored, at least 1. Probabilities are clamped at 1e-7 (float16: 6.104e-05).
    """
    probabilities, labels = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    ignored = attributes.get("ignoreIndex")
    epsilon, steepest = (6.104e-05, 6.104e-05) if context.is_half else (1e-7, 1e-10)
    of_logarithms = bool(attributes.get("inputIsLogProbability", 0))
    _check_labels(
        context, labels, probabilities, ignored,
        "" if context.integers_of_paddle else _effect(context, None if of_logarithms else epsilon),
    )  # fmt: skip
    logits = context.logits[0] if context.logits else None
    if of_logarithms:
        loss = -_picked(probabilities, labels)
    elif logits is not None:
        loss = _nll_of_softmax(jnp.asarray(logits), probabilities, labels, epsilon)
        if not context.is_joined and not context.integers_of_paddle:
            valid = _is_class(probabilities, labels)
            loss = jnp.where(valid, loss, lax.stop_gradient(loss))
    else:
        loss = -_clamped_log(_picked(probabilities, labels), epsilon, steepest)
    if ignored is None:
        return reduced(context, loss, attributes)
    counted = labels != int(ignored)
    loss = jnp.where(counted, loss, jnp.zeros_like(loss))
    count = jnp.maximum(jnp.sum(counted.astype(loss.dtype)), 1)
    return reduced(context, loss, attributes, divisor=count)


@lowering("ai.paddle_ipu", "LogNll")
def log_nll(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``-log_probs[..., label]`` for each label; zero where it is ``ignore_index``."""
    log_probabilities, labels = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    ignored = attributes.get("ignore_index")
    _check_labels(context, labels, log_probabilities, ignored)
    loss = -_picked(log_probabilities, labels)
    if ignored is None:
        return loss
    return jnp.where(labels == int(ignored), jnp.zeros_like(loss), loss)


@lowering("ai.graphcore", "IdentityLoss")
def identity_loss(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The tensor itself as loss: its mean, its sum or, with "None", every element."""
    x = jnp.asarray(inputs[0])
    return reduced(context, x, attributes).astype(x.dtype)


@lowering("ai.graphcore", "L1")
def l1(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``lambda * |x|``, reduced; the derivative at 0 is 0."""
    x = jnp.asarray(inputs[0])
    if x.ndim == 0:
        raise LoweringError(
            f"{where_in_program(context)}: the input of an L1 loss must have at least one axis, "
            "got a scalar. Reshape it to [1]."
        )
    return reduced(context, float(attributes["lambda"]) * absolute(x), attributes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _cvm(x: jax.Array, cvm: jax.Array, keep: bool) -> jax.Array:
    if not keep:
        return x[:, 2:]
    show = jnp.log(x[:, :1] + 1)
    return jnp.concatenate([show, jnp.log(x[:, 1:2] + 1) - show, x[:, 2:]], axis=1)


def _cvm_backward(keep: bool, cvm: jax.Array, cotangent: jax.Array) -> tuple[jax.Array, None]:
    return jnp.concatenate([cvm, cotangent[:, 2:] if keep else cotangent], axis=1), None


_cvm.defvjp(lambda x, cvm, keep: (_cvm(x, cvm, keep), cvm), _cvm_backward)


@lowering("ai.paddle_ipu", "Cvm")
def cvm(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Features [N, D] whose first two, show and click, become logarithms, or are removed.

    As in Paddle, the "gradient" of these two is the second input [N, 2].
    """
    return _cvm(*(jnp.asarray(value) for value in inputs), bool(attributes.get("use_cvm", 1)))

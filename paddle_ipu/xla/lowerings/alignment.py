"""Lowerings of losses that sum over the alignments of a sequence with its labels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair
from paddle_ipu.xla.lowerings.loss import reduced
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_NEVER = np.float32(-1e30)
"""The logarithm of a probability of 0: with -inf derivatives would be NaN."""


def _shifted(x: jax.Array, by: int) -> jax.Array:
    """Each row moved to the right by some states, filled with impossible ones."""
    return jnp.pad(x, ((0, 0), (by, 0)), constant_values=_NEVER)[:, : x.shape[1]]


def _check_ranges(
    context: LoweringContext, inputs: Inputs, times: int, classes: int, shortest: int = 0
) -> None:
    """Checks the lengths, from `shortest` on, and the labels [N, S] within their lengths."""
    _, labels, lengths, label_lengths = inputs[:4]
    size = labels.shape[1]
    context.within("length", lengths, shortest, times)
    context.within("length of labels", label_lengths, 0, size)
    counted = jnp.arange(size) < jnp.asarray(label_lengths)[:, None]
    context.within("label", jnp.where(counted, labels, 0), 0, classes - 1)


@lowering("ai.graphcore", "Ctc")
def ctc(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``-log`` of the probability of all alignments, by the forward recursion of Graves et al.
    (ICML 2006, equations 6 to 8, in logarithms).

    Log probabilities are [T, N, C], labels [N, S]. "Mean" divides each loss by the length of its
    labels, at least 1, and averages over the batch. With ``zeroInfinity`` labels that do not fit
    their sequence, or any of a sequence of length 0, have a loss, and a gradient, of zero.
    """
    logs, labels = jnp.asarray(inputs[0]), jnp.asarray(inputs[1]).astype(jnp.int32)
    lengths, label_lengths = (jnp.asarray(value).astype(jnp.int32) for value in inputs[2:4])
    blank = int(attributes.get("blank", 0))
    batch, size = labels.shape
    _check_ranges(context, inputs, logs.shape[0], logs.shape[-1])
    # The states: a blank before, between and after the labels.
    states = jnp.full((batch, 2 * size + 1), blank, jnp.int32).at[:, 1::2].set(labels)
    before = jnp.pad(states, ((0, 0), (2, 0)), constant_values=blank)[:, :-2]
    # A label may follow the one before without a blank between, if they differ.
    skips = (states != blank) & (states != before)
    index = jnp.broadcast_to(states, (logs.shape[0], *states.shape))
    emitted = jnp.take_along_axis(logs, index, axis=2, mode="clip")
    at_start = jnp.arange(2 * size + 1) < 2
    alpha = jnp.where(at_start, emitted[0], _NEVER)

    def step(alpha: jax.Array, item: Pair) -> tuple[jax.Array, None]:
        time, emission = item
        reached = jnp.stack(
            [alpha, _shifted(alpha, 1), jnp.where(skips, _shifted(alpha, 2), _NEVER)]
        )
        after = jax.nn.logsumexp(reached, axis=0) + emission
        return jnp.where((time < lengths)[:, None], after, alpha), None

    alpha, _ = lax.scan(step, alpha, (jnp.arange(1, logs.shape[0]), emitted[1:]))
    # A sequence of length 0 has no alignment: the first time is not its.
    alpha = jnp.where(lengths[:, None] > 0, alpha, _NEVER)
    # Alignments end in the last label or in the blank behind it.
    end = 2 * label_lengths[:, None]
    last = jnp.take_along_axis(alpha, end, axis=1)[:, 0]
    label = jnp.take_along_axis(alpha, jnp.maximum(end - 1, 0), axis=1)[:, 0]
    loss = -jnp.logaddexp(last, jnp.where(label_lengths > 0, label, _NEVER))
    infinite = 0.0 if attributes.get("zeroInfinity", 0) else np.inf
    loss = jnp.where(loss > -_NEVER / 2, jnp.asarray(infinite, loss.dtype), loss)
    if attributes.get("reduction", "Mean") == "Mean":
        loss = loss / jnp.maximum(label_lengths, 1)
    return reduced(context, loss, attributes)


@lowering("ai.paddle_ipu", "Rnnt")
def rnnt(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """``-log`` of the probability of all alignments in Graves' transducer (arXiv:1211.3711).

    Log probabilities are [N, T, U + 1, C], labels [N, U]. FastEmit (arXiv:2010.11148) scales the
    derivative of emitting a label by ``1 + fastemit_lambda``.
    """
    logs = jnp.asarray(inputs[0])
    labels, lengths, label_lengths = (jnp.asarray(value).astype(jnp.int32) for value in inputs[1:4])
    batch, times, rows, classes = logs.shape
    # An alignment ends in a blank of the last time.
    _check_ranges(context, inputs, times, classes, shortest=1)
    blanks = logs[..., int(attributes.get("blank", 0))]
    index = jnp.broadcast_to(labels[:, None, :, None], (batch, times, rows - 1, 1))
    emits = jnp.take_along_axis(logs[:, :, :-1], index, axis=3, mode="clip")[..., 0]
    # The value is that of emits, the derivative is scaled.
    constant = lax.stop_gradient(emits)
    emits = constant + (emits - constant) * (1.0 + float(attributes.get("fastemit_lambda", 0.0)))

    def along_labels(first: jax.Array, others: jax.Array, emission: jax.Array) -> jax.Array:
        """alpha of one time: by a blank from the time before, or by a label from the row before."""

        def step(left: jax.Array, item: Pair) -> Pair:
            base, emitted = item
            here = jnp.logaddexp(base, left + emitted)
            return here, here

        _, rest = lax.scan(step, first, (others.T, emission.T))
        return jnp.concatenate([first[:, None], rest.T], axis=1)

    nothing = jnp.full((batch, rows - 1), _NEVER)
    start = along_labels(jnp.zeros(batch), nothing, emits[:, 0])

    def advance(alpha: jax.Array, item: Pair) -> Pair:
        blank, emission = item
        base = alpha + blank
        alpha = along_labels(base[:, 0], base[:, 1:], emission)
        return alpha, alpha

    moved = (jnp.moveaxis(blanks[:, :-1], 1, 0), jnp.moveaxis(emits[:, 1:], 1, 0))
    _, later = lax.scan(advance, start, moved)
    alphas = jnp.concatenate([start[None], later])
    row = jnp.arange(batch)
    return -(alphas[lengths - 1, row, label_lengths] + blanks[row, lengths - 1, label_lengths])

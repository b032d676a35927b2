"""Lowerings of losses that sum over the alignments of a sequence with its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.loss import reduced
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_NEVER = np.float32(-1e30)
"""The logarithm of a probability of zero; infinity would give derivatives that are not numbers."""


def _shifted(x: Any, by: int) -> Any:
    """Each row moved to the right, impossible numbers moved in."""
    return jnp.pad(x, ((0, 0), (by, 0)), constant_values=_NEVER)[:, : x.shape[1]]


def _watch(context: LoweringContext, inputs: Sequence[Any], times: int, classes: int) -> None:
    """Labels [N, S] are classes as far as they count; no length is beyond its sequence."""
    _, labels, lengths, wanted = inputs[:4]
    size = labels.shape[1]
    context.within("length", lengths, 0, times)
    context.within("length of labels", wanted, 0, size)
    counted = jnp.arange(size) < jnp.asarray(wanted)[:, None]
    context.within("label", jnp.where(counted, labels, 0), 0, classes - 1)


@lowering("ai.graphcore", "Ctc")
def ctc(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """``-log`` of the probability of all alignments, by the forward recursion of Graves et al.

    Log probabilities are [T, N, C], labels [N, S]. "Mean" divides each loss by the length of its
    labels, at least 1, and averages over the batch. With ``zeroInfinity`` labels that do not fit
    their sequence have a loss, and a gradient, of zero.
    """
    logs, labels = jnp.asarray(inputs[0]), jnp.asarray(inputs[1]).astype(jnp.int32)
    lengths, wanted = (jnp.asarray(value).astype(jnp.int32) for value in inputs[2:4])
    blank = int(attributes.get("blank", 0))
    batch, size = labels.shape
    _watch(context, inputs, logs.shape[0], logs.shape[-1])
    # A blank before, between and after the labels.
    states = jnp.full((batch, 2 * size + 1), blank, jnp.int32).at[:, 1::2].set(labels)
    before = jnp.pad(states, ((0, 0), (2, 0)), constant_values=blank)[:, :-2]
    skips = (states != blank) & (states != before)
    index = jnp.broadcast_to(states, (logs.shape[0], *states.shape))
    emitted = jnp.take_along_axis(logs, index, axis=2, mode="clip")
    at_start = jnp.arange(2 * size + 1) < 2
    alpha = jnp.where(at_start, emitted[0], _NEVER)

    def step(alpha: Any, turn: Any) -> tuple[Any, None]:
        time, emission = turn
        reached = jnp.stack(
            [alpha, _shifted(alpha, 1), jnp.where(skips, _shifted(alpha, 2), _NEVER)]
        )
        after = jax.nn.logsumexp(reached, axis=0) + emission
        return jnp.where((time < lengths)[:, None], after, alpha), None

    alpha, _ = lax.scan(step, alpha, (jnp.arange(1, logs.shape[0]), emitted[1:]))
    end = 2 * wanted[:, None]
    last = jnp.take_along_axis(alpha, end, axis=1)[:, 0]
    label = jnp.take_along_axis(alpha, jnp.maximum(end - 1, 0), axis=1)[:, 0]
    loss = -jnp.logaddexp(last, jnp.where(wanted > 0, label, _NEVER))
    infinite = 0.0 if attributes.get("zeroInfinity", 0) else np.inf
    loss = jnp.where(loss > -_NEVER / 2, jnp.asarray(infinite, loss.dtype), loss)
    if attributes.get("reduction", "Mean") == "Mean":
        loss = loss / jnp.maximum(wanted, 1)
    return reduced(context, loss, attributes)


@lowering("ai.paddle_ipu", "Rnnt")
def rnnt(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """``-log`` of the probability of all alignments in Graves' transducer.

    Log probabilities are [N, T, U + 1, C], labels [N, U]. FastEmit (Yu et al.) scales the
    derivative of emitting a label by ``1 + fastemit_lambda``.
    """
    logs = jnp.asarray(inputs[0])
    labels, lengths, wanted = (jnp.asarray(value).astype(jnp.int32) for value in inputs[1:4])
    batch, times, rows, classes = logs.shape
    _watch(context, inputs, times, classes)
    blanks = logs[..., int(attributes.get("blank", 0))]
    index = jnp.broadcast_to(labels[:, None, :, None], (batch, times, rows - 1, 1))
    emits = jnp.take_along_axis(logs[:, :, :-1], index, axis=3, mode="clip")[..., 0]
    still = lax.stop_gradient(emits)
    emits = still + (emits - still) * (1.0 + float(attributes.get("fastemit_lambda", 0.0)))

    def along_labels(first: Any, others: Any, emission: Any) -> Any:
        """One time step: what comes from the time before, and from the label before."""

        def step(left: Any, turn: Any) -> tuple[Any, Any]:
            base, emitted = turn
            here = jnp.logaddexp(base, left + emitted)
            return here, here

        _, rest = lax.scan(step, first, (others.T, emission.T))
        return jnp.concatenate([first[:, None], rest.T], axis=1)

    nothing = jnp.full((batch, rows - 1), _NEVER)
    start = along_labels(jnp.zeros(batch), nothing, emits[:, 0])

    def advance(alpha: Any, turn: Any) -> tuple[Any, Any]:
        blank, emission = turn
        base = alpha + blank
        alpha = along_labels(base[:, 0], base[:, 1:], emission)
        return alpha, alpha

    moved = (jnp.moveaxis(blanks[:, :-1], 1, 0), jnp.moveaxis(emits[:, 1:], 1, 0))
    _, later = lax.scan(advance, start, moved)
    alphas = jnp.concatenate([start[None], later])
    row = jnp.arange(batch)
    return -(alphas[lengths - 1, row, wanted] + blanks[row, lengths - 1, wanted])

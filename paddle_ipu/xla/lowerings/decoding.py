"""Lowerings of operators that decode sequences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, lowest_number
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _best_path(
    emissions: jax.Array,
    transitions: jax.Array,
    start: jax.Array,
    stop: jax.Array,
    lengths: jax.Array,
) -> Pair:
    """The Viterbi algorithm: (score of the best path [B], its tags [B, T]); of ties the first.

    As in Paddle, which looks for scores above the lowest number, NaN and -inf count as that number.

    Args:
        emissions: scores of the tags, [B, T, N].
        transitions: [from, to].
        start: added to the scores of the first tag, [N].
        stop: added to the scores of the last tag, [N].
        lengths: of the sequences, [B]; tags behind the end are 0.
    """
    times = emissions.shape[1]
    by_time = jnp.moveaxis(emissions, 1, 0)
    ends = lengths[:, None]
    lowest = lowest_number(emissions)

    def compared(scores: jax.Array) -> jax.Array:
        return jnp.where(scores > lowest, scores, lowest)

    alpha = by_time[0] + start + jnp.where(ends == 1, stop, 0)

    def step(alpha: jax.Array, item: Pair) -> Pair:
        time, emission = item
        reached = compared(alpha[:, :, None] + transitions)
        best = jnp.argmax(reached, axis=1)
        after = jnp.max(reached, axis=1) + emission + jnp.where(ends == time + 1, stop, 0)
        return jnp.where(time < ends, after, alpha), best

    alpha, pointers = lax.scan(step, alpha, (jnp.arange(1, times), by_time[1:]))
    alpha = compared(alpha)
    last = jnp.argmax(alpha, axis=1)

    def back(tag: jax.Array, item: Pair) -> Pair:
        time, pointer = item
        earlier = jnp.take_along_axis(pointer, tag[:, None], axis=1)[:, 0]
        tag = jnp.where(time == lengths - 1, last, jnp.where(time < lengths - 1, earlier, 0))
        return tag, tag

    # The pointers behind the last time are never read.
    following = jnp.concatenate([pointers, jnp.zeros_like(by_time[:1], pointers.dtype)])
    _, tags = lax.scan(back, jnp.zeros_like(last), (jnp.arange(times), following), reverse=True)
    return jnp.max(alpha, axis=1), tags.T.astype(jnp.int32)


@lowering("ai.paddle_ipu", "ViterbiDecode")
def viterbi_decode(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(score, tags) of the best path.

    With ``include_bos_eos_tag`` the last tag stands for the begin and the last but one for the end
    of a sequence: the last row of the transitions is added to the first tag's scores, the row
    before it to the last tag's.
    """
    emissions, transitions = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    context.within("length", inputs[2], 0, emissions.shape[1])
    lengths = jnp.asarray(inputs[2]).astype(jnp.int32)
    nothing = jnp.zeros_like(transitions[0])
    tagged = attributes.get("include_bos_eos_tag", 0)
    start, stop = (transitions[-1], transitions[-2]) if tagged else (nothing, nothing)
    return _best_path(emissions, transitions, start, stop, lengths)


@lowering("ai.paddle_ipu", "CrfDecode")
def crf_decode(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(score, tags) of the best path; weights [N + 2, N] are start, stop, then the transitions."""
    emissions, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    context.within("length", inputs[2], 0, emissions.shape[1])
    lengths = jnp.asarray(inputs[2]).astype(jnp.int32)
    return _best_path(emissions, weights[2:], weights[0], weights[1], lengths)


@lowering("ai.paddle_ipu", "EditDistance")
def edit_distance(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """The Levenshtein distance of each hypothesis from its reference, row by row of the table."""
    hypotheses, references = (jnp.asarray(value) for value in inputs[:2])
    for counts, tokens in zip(inputs[2:4], (hypotheses, references), strict=True):
        context.within("length", counts, 0, tokens.shape[1])
    lengths, reference_lengths = (
        jnp.asarray(value).astype(jnp.int32)[:, None] for value in inputs[2:4]
    )
    columns = jnp.arange(references.shape[1] + 1)

    def step(row: jax.Array, item: Pair) -> tuple[jax.Array, None]:
        number, token = item
        costs = (references != token[:, None]).astype(jnp.int32)
        above = jnp.minimum(row[:, 1:] + 1, row[:, :-1] + costs)
        first = jnp.full_like(row[:, :1], number + 1)
        # d[j] = min over k <= j of above[k] + (j - k).
        after = lax.cummin(jnp.concatenate([first, above], axis=1) - columns, axis=1) + columns
        return jnp.where(number < lengths, after, row), None

    row = jnp.broadcast_to(columns, (hypotheses.shape[0], columns.size))
    row, _ = lax.scan(step, row, (jnp.arange(hypotheses.shape[1]), hypotheses.T))
    return jnp.take_along_axis(row, reference_lengths, axis=1)[:, 0].astype(jnp.float32)


@lowering("ai.paddle_ipu", "CtcAlign")
def ctc_align(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(tokens without blanks and, with ``merge_repeated``, without repetitions; their number)."""
    tokens = jnp.asarray(inputs[0])
    lengths = jnp.asarray(inputs[1]).astype(jnp.int32)
    batch, times = tokens.shape
    kept = (jnp.arange(times) < lengths[:, None]) & (tokens != int(attributes.get("blank", 0)))
    if attributes.get("merge_repeated", 1):
        before = jnp.pad(tokens, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
        kept &= tokens != before
    target = jnp.where(kept, jnp.cumsum(kept, axis=1) - 1, times)
    padding = jnp.full((batch, times), int(attributes.get("padding_value", 0)), tokens.dtype)
    aligned = padding.at[jnp.arange(batch)[:, None], target].set(tokens, mode="drop")
    return aligned, jnp.sum(kept, axis=1).astype(jnp.int32)


@lowering("ai.paddle_ipu", "Auc")
def auc(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> tuple[jax.Array, ...]:
    """(area under the ROC curve, the updated counts of positives and of negatives by bucket).

    With ``slide_steps`` the counts are those of each of the last steps, a ring buffer, then their
    sum, then the number of steps so far.
    """
    predictions, labels = (jnp.asarray(value).reshape(-1) for value in inputs[:2])
    buckets, steps = int(attributes["num_thresholds"]) + 1, int(attributes.get("slide_steps", 0))
    index = (predictions * (buckets - 1)).astype(jnp.int32)
    sums, states = [], []
    for counts, weight in zip(inputs[2:4], (labels > 0, labels == 0), strict=True):
        state = jnp.asarray(counts).reshape(-1)
        new = jnp.zeros(buckets, state.dtype).at[index].add(weight.astype(state.dtype))
        if steps == 0:
            total = state + new
            state = total
        else:
            begin = (state[-1] % steps) * buckets
            whole = slice(steps * buckets, (steps + 1) * buckets)
            total = state[whole] - lax.dynamic_slice(state, (begin,), (buckets,)) + new
            state = lax.dynamic_update_slice(state, new, (begin,)).at[whole].set(total)
            state = state.at[-1].add(1)
        sums.append(total[::-1].astype(jnp.float32))
        states.append(state.reshape(counts.shape))
    positive, negative = (jnp.cumsum(total) for total in sums)
    area = jnp.sum(sums[1] * (positive + positive - sums[0]) / 2)
    scale = positive[-1] * negative[-1]
    empty = (positive[-1] == 0) | (negative[-1] == 0)
    one, zero = np.float32(1), np.float32(0)
    return jnp.where(empty, zero, area / jnp.where(empty, one, scale)), *states


_NEVER = np.float32(-1e30)
"""The logarithm of a probability of 0."""

_NO_BEAM = -5
"""The length of a beam that does not exist: no beam is one shorter or longer."""

_Beams = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
"""Labels [W, T], lengths [W], and log probabilities [W] ending with a blank and without."""


def _beam_search(
    logs: jax.Array, length: jax.Array, blank: int, width: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log probability, length, labels) of the best prefixes of one sequence [T, C], best first.

    Prefix beam search (Graves and Jaitly, ICML 2014). Each beam is a prefix of labels, with the
    probabilities that its alignment ends with a blank and without: only behind a blank does a
    repeated label make the prefix longer.
    """
    times, classes = logs.shape
    labels = jnp.full((width, times), -1, jnp.int32)
    sizes = jnp.full(width, _NO_BEAM, jnp.int32).at[0].set(0)
    with_blank = jnp.full(width, _NEVER).at[0].set(0.0)
    without = jnp.full(width, _NEVER)
    tokens = jnp.arange(classes)

    def step(state: _Beams, item: Pair) -> tuple[_Beams, None]:
        labels, sizes, with_blank, without = state
        time, emission = item
        total = jnp.logaddexp(with_blank, without)
        last = jnp.where(sizes > 0, labels[jnp.arange(width), jnp.maximum(sizes - 1, 0)], -1)
        repeated = jnp.where(sizes > 0, without + emission[jnp.maximum(last, 0)], _NEVER)
        before = jnp.where(tokens == last[:, None], with_blank[:, None], total[:, None])
        longer = jnp.where(tokens == blank, _NEVER, before + emission)
        # A prefix with one more label may be another beam already; the two are one then. The
        # matrices are [shorter, longer].
        same = (labels[:, None] == labels[None]) | (jnp.arange(times) >= sizes[:, None, None])
        extends = same.all(axis=2) & (sizes[None] == sizes[:, None] + 1)
        joined = jnp.where(extends, longer[:, jnp.maximum(last, 0)], _NEVER).max(axis=0)
        is_beam = (extends[:, :, None] & (tokens == last[None, :, None])).any(axis=1)
        longer = jnp.where(is_beam, _NEVER, longer)
        blanks = jnp.concatenate([total + emission[blank], jnp.full(longer.size, _NEVER)])
        others = jnp.concatenate([jnp.logaddexp(repeated, joined), longer.reshape(-1)])
        # Of the W beams as they are and the W * C with one more label, the best W remain.
        best, chosen = lax.top_k(jnp.logaddexp(blanks, others), width)
        parent = jnp.where(chosen < width, chosen, (chosen - width) // classes)
        token = (chosen - width) % classes
        is_longer = chosen >= width
        written = is_longer[:, None] & (jnp.arange(times) == sizes[parent][:, None])
        after: _Beams = (
            jnp.where(written, token[:, None], labels[parent]),
            jnp.where(best > _NEVER / 2, sizes[parent] + is_longer, _NO_BEAM),
            blanks[chosen],
            others[chosen],
        )
        kept: _Beams = jax.tree.map(
            lambda new, old: jnp.where(time < length, new, old), after, state
        )
        return kept, None

    state, _ = lax.scan(step, (labels, sizes, with_blank, without), (jnp.arange(times), logs))
    labels, sizes, with_blank, without = state
    return jnp.logaddexp(with_blank, without), jnp.maximum(sizes, 0), jnp.maximum(labels, 0)


@lowering("ai.graphcore", "CtcBeamSearchDecoder")
def ctc_beam_search_decoder(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(log probabilities, lengths, labels) of the ``top_paths`` best label sequences.

    Log probabilities are [T, N, C]; labels past the length are 0.
    """
    logs, lengths = jnp.asarray(inputs[0]), jnp.asarray(inputs[1]).astype(jnp.int32)
    paths = int(attributes.get("top_paths", 1))
    blank, width = int(attributes.get("blank", 0)), int(attributes.get("beam_width", 100))
    width = max(width, paths)
    by_row = jax.vmap(_beam_search, in_axes=(1, 0, None, None))
    scores, sizes, labels = by_row(logs, lengths, blank, width)
    return (
        scores[:, :paths],
        sizes[:, :paths].astype(jnp.uint32),
        labels[:, :paths].astype(jnp.uint32),
    )

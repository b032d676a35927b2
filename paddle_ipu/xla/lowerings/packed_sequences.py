"""Lowering of PackedDataBlock: sequences that lie in one tensor end to end, through a subgraph."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs
from paddle_ipu.xla.lowerings.dynamic_slices import last_sequence
from paddle_ipu.xla.lowerings.range_checks import first_wrong
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering


def _unpacked(data: Array, starts: Array, lengths: Array, most: int) -> jax.Array:
    """Each sequence of packed data, zeros behind its end.

    Args:
        data: ``[rows, *rest]``.
        starts: the first row of each sequence, ``[sequences]``.
        lengths: their rows, ``[sequences]``.
        most: rows of the longest.

    Returns:
        ``[sequences, most, *rest]``.
    """
    array, row = jnp.asarray(data), jnp.arange(most, dtype=jnp.int32)
    taken = jnp.take(array, _numbers(starts)[:, None] + row, axis=0, mode="clip")
    inside = row < _numbers(lengths)[:, None]
    return jnp.where(inside.reshape(*inside.shape, *[1] * (array.ndim - 1)), taken, 0)


def _packed(sequences: jax.Array, starts: Array, lengths: Array, rows: int) -> jax.Array:
    """The inverse of :func:`_unpacked`: ``[rows, *rest]``; where two overlap the last counts."""
    first, count = _numbers(starts), _numbers(lengths)
    used, last = last_sequence(first[: len(sequences)], count[: len(sequences)], rows)
    place = jnp.clip(jnp.arange(rows) - first[last], 0, sequences.shape[1] - 1)
    shape = used.reshape(-1, *[1] * (sequences.ndim - 2))
    return jnp.where(shape, sequences[last, place], 0)


def _numbers(array: Array) -> jax.Array:
    return jnp.asarray(array).reshape(-1).astype(jnp.int32)


@lowering("ai.graphcore", "PackedDataBlock", random=True)
def packed_data_block(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """What the subgraph gives for the sequences, some of them at once, packed.

    Inputs: data, first rows and lengths of sequences for each input of the subgraph, then first
    rows and lengths of the result. Sequences that do not fill a batch are left out.
    """
    body, key = context.blocks["callback"], context.rng_key()
    batch = int(attributes["callbackBatchSize"])
    *packed, starts, lengths = inputs
    batches = _numbers(packed[1]).shape[0] // batch
    slices = []
    for at, most in enumerate(attributes["maxSequenceLengths"]):
        data, first, count = packed[3 * at : 3 * at + 3]
        each = _unpacked(data, first, count, int(most))
        slices.append(each[: batches * batch].reshape(batches, batch, *each.shape[1:]))
    watched = context.block_ranges()

    def step(
        wrong: jax.Array, item: tuple[jax.Array, list[jax.Array]]
    ) -> tuple[jax.Array, jax.Array]:
        index, sequences = item
        ranges = context.block_ranges()
        (result,) = body.run(sequences, jax.random.fold_in(key, index), ranges)
        return first_wrong(wrong, ranges.wrong), jnp.asarray(result)

    wrong, results = lax.scan(step, watched.wrong, (jnp.arange(batches, dtype=jnp.int32), slices))
    context.within_blocks(watched, wrong)
    rows = results.reshape(batches * batch, *results.shape[2:])
    # PopART has no gradient of it.
    return lax.stop_gradient(_packed(rows, starts, lengths, int(attributes["resultSize"])))

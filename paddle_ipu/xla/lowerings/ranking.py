"""Lowerings of operators of ranking and matching models."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

_NO_DISTANCE = 1e-6
"""Distances below it, and NaN, match nothing, as in Paddle."""

_Matches = tuple[jax.Array, jax.Array, jax.Array]
"""Distances [R, C], -1 where matched already; the row and the distance of each column."""


@lowering("ai.paddle_ipu", "DequantGather")
def dequant_gather(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Rows of a table of floats: the least and the largest number, then four bytes in each.

    A byte b is ``(largest - least) / 256 * b + least``.
    """
    table, ids = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])[..., 0]
    rows = jnp.take(table, ids, axis=0, mode="clip")
    low, high = rows[..., :1], rows[..., 1:2]
    numbers = lax.bitcast_convert_type(rows[..., 2:], jnp.uint8).astype(jnp.float32)
    return (high - low) / 256 * numbers.reshape(*ids.shape, -1) + low


@lowering("ai.paddle_ipu", "BipartiteMatch")
def bipartite_match(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """(row of each column, -1 for none; its distance, 0 for none).

    Greedy: the largest distance is matched first. With ``per_prediction`` a column without a match
    then gets the row of its largest distance, where that reaches ``dist_threshold``.
    """
    distances = jnp.asarray(inputs[0])
    rows, columns = distances.shape
    usable = jnp.where(distances >= _NO_DISTANCE, distances, -1.0)

    def step(state: _Matches, _: None) -> tuple[_Matches, None]:
        left, row_of, distance_of = state
        # As in Paddle, of ties the first column is taken, and in it the first row.
        column, row = jnp.divmod(jnp.argmax(left.T), rows)
        best = left[row, column]
        matches = best > 0
        after = (
            jnp.where(matches, left.at[row].set(-1.0).at[:, column].set(-1.0), left),
            jnp.where(matches, row_of.at[column].set(row.astype(jnp.int32)), row_of),
            jnp.where(matches, distance_of.at[column].set(best), distance_of),
        )
        return after, None

    start = (usable, jnp.full(columns, -1, jnp.int32), jnp.zeros(columns, distances.dtype))
    (_, row_of, distance_of), _ = lax.scan(step, start, length=min(rows, columns))
    if attributes.get("per_prediction", 0):
        threshold = float(attributes.get("dist_threshold", 0.5))
        best = usable.max(axis=0)
        matches = (row_of == -1) & (best > 0) & (best >= threshold)
        row_of = jnp.where(matches, usable.argmax(axis=0).astype(jnp.int32), row_of)
        distance_of = jnp.where(matches, best, distance_of)
    return row_of, distance_of

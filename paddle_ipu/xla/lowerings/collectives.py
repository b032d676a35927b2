"""What one replica gets of the values of all, where the replicas of a step run in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError, popart_exception
from paddle_ipu.popart.collectives import COMM_GROUP, OPERATOR, replica_grouping, shard_length
from paddle_ipu.popart.enums import CollectiveOperator
from paddle_ipu.xla.lowerings.arrays import Inputs
from paddle_ipu.xla.lowerings.registry import (
    INSTANCE_AXIS,
    REPLICA_AXIS,
    Attributes,
    LoweringContext,
    lowering,
)

Reduction = Callable[[jax.Array], jax.Array]

_REDUCTIONS: dict[CollectiveOperator, Reduction] = {
    CollectiveOperator.Add: lambda x: jnp.sum(x, axis=0, dtype=x.dtype),
    CollectiveOperator.Mean: lambda x: jnp.mean(x, axis=0).astype(x.dtype),
    CollectiveOperator.Mul: lambda x: jnp.prod(x, axis=0, dtype=x.dtype),
    CollectiveOperator.Min: lambda x: jnp.min(x, axis=0),
    CollectiveOperator.Max: lambda x: jnp.max(x, axis=0),
    CollectiveOperator.LogicalAnd: lambda x: jnp.all(x, axis=0).astype(x.dtype),
    CollectiveOperator.LogicalOr: lambda x: jnp.any(x, axis=0).astype(x.dtype),
    CollectiveOperator.SquareAdd: lambda x: jnp.sum(x * x, axis=0, dtype=x.dtype),
}


@lowering("ai.graphcore", "ReplicatedAllReduce")
def replicated_all_reduce(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """The group's values put together; every member of a group gets the same, but with Local.

    Like PopART's it has no derivative: for the loss, what comes out is a constant.
    """
    x = lax.stop_gradient(jnp.asarray(inputs[0]))
    operator = CollectiveOperator(int(attributes.get(OPERATOR, 0)))
    if operator is CollectiveOperator.Local:
        return x
    return _REDUCTIONS[operator](_of_group(context, x, attributes))


@lowering("ai.graphcore", "ReplicatedReduceScatter")
def replicated_reduce_scatter(
    context: LoweringContext, inputs: Inputs, attributes: Attributes
) -> jax.Array:
    """Each member's part of what the group's values give together, flat.

    With Local it is a part of the replica's own value. The gradient of that is what all members
    have of theirs; of another operator PopART has none.
    """
    x = jnp.asarray(inputs[0]).reshape(-1)
    size = _members(context, attributes.get(COMM_GROUP, ())).shape[1]
    length = shard_length(x.size, size)
    operator = CollectiveOperator(int(attributes.get(OPERATOR, 0)))
    if operator is not CollectiveOperator.Local:
        x = _REDUCTIONS[operator](_of_group(context, lax.stop_gradient(x), attributes))
    place = jnp.argmax(_own_group(context, attributes) == _number(context))

    def part(whole: jax.Array) -> jax.Array:
        padded = jnp.pad(whole, (0, length * size - whole.size))
        return lax.dynamic_slice(padded, (place * length,), (length,))

    if operator is not CollectiveOperator.Local or size == 1:
        return part(x)
    count = x.size

    @jax.custom_vjp
    def local(whole: jax.Array) -> jax.Array:
        return part(whole)

    def forward(whole: jax.Array) -> tuple[jax.Array, None]:
        return part(whole), None

    def backward(_: None, gradient: jax.Array) -> tuple[jax.Array]:
        return (_of_group(context, gradient, attributes).reshape(-1)[:count],)

    local.defvjp(forward, backward)
    return local(x)


def _number(context: LoweringContext) -> jax.Array:
    """The replica's number among those of all processes."""
    number = jnp.asarray(0)
    if context.replicas > 1:
        number = lax.axis_index(REPLICA_AXIS)
    if context.instances > 1:
        number += lax.axis_index(INSTANCE_AXIS) * context.replicas
    return number


def _own_group(context: LoweringContext, attributes: Attributes) -> jax.Array:
    """The numbers of the replicas in the group, in order."""
    return jnp.asarray(_members(context, attributes.get(COMM_GROUP, ())))[_number(context)]


def _of_group(context: LoweringContext, x: jax.Array, attributes: Attributes) -> jax.Array:
    """The values of the group's replicas, [size of the group, ...]."""
    if context.replicas * context.instances == 1:
        return x[None]
    own, values = _own_group(context, attributes), x[None]
    if context.replicas > 1:
        values = lax.all_gather(x, REPLICA_AXIS)
    if context.instances > 1:
        values = lax.all_gather(values, INSTANCE_AXIS, tiled=True)
    return values[own]


def _members(context: LoweringContext, group: Sequence[int]) -> np.ndarray[Any, Any]:
    """The replicas of each replica's group, [replicas, size of a group].

    Raises:
        LoweringError: the size does not divide the replicas.
    """
    replicas = context.replicas * context.instances
    try:
        grouping = replica_grouping(group, replicas)
    except popart_exception as error:
        raise LoweringError(
            f"{context.op_type} ({context.name}) has groups of {group[1]} replicas, which do not "
            f"divide the {replicas} replicas of the session."
        ) from error
    return np.array([grouping.getReplicasAt(grouping.getGroupAt(n)) for n in range(replicas)])

"""What one replica gets of the values of all, where the replicas of a step run in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError, popart_exception
from paddle_ipu.popart.enums import CollectiveOperator, CommGroupType
from paddle_ipu.popart.options import CommGroup
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
    operator = CollectiveOperator(int(attributes.get("__collectiveOperator", 0)))
    if operator is CollectiveOperator.Local:
        return x
    if context.replicas * context.instances == 1:
        return _REDUCTIONS[operator](x[None])
    members = _members(context, attributes.get("__collectiveCommGroup", ()))
    values, number = x[None], jnp.asarray(0)
    if context.replicas > 1:
        values, number = lax.all_gather(x, REPLICA_AXIS), lax.axis_index(REPLICA_AXIS)
    if context.instances > 1:
        values = lax.all_gather(values, INSTANCE_AXIS, tiled=True)
        number += lax.axis_index(INSTANCE_AXIS) * context.replicas
    own = jnp.asarray(members)[number]
    return _REDUCTIONS[operator](values[own])


def _members(context: LoweringContext, group: Sequence[int]) -> np.ndarray[Any, Any]:
    """The replicas of each replica's group, [replicas, size of a group].

    Raises:
        LoweringError: the size does not divide the replicas.
    """
    replicas = context.replicas * context.instances
    kind, size = group or (CommGroupType.All, 0)
    domain = CommGroup(CommGroupType(int(kind)), int(size))
    try:
        grouping = domain.toReplicaGrouping(replicas)
    except popart_exception as error:
        raise LoweringError(
            f"{context.op_type} ({context.name}) has groups of {size} replicas, which do not "
            f"divide the {replicas} replicas of the session."
        ) from error
    return np.array([grouping.getReplicasAt(grouping.getGroupAt(n)) for n in range(replicas)])

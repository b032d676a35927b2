"""What replicas of a group make together, and how long their parts of it are."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.popart.enums import CommGroupType
from paddle_ipu.popart.options import CommGroup
from paddle_ipu.popart.replica_grouping import ReplicaGrouping

OPERATOR, COMM_GROUP = "__collectiveOperator", "__collectiveCommGroup"
REDUCE_SCATTER = "ReplicatedReduceScatter"
COLLECTIVES = frozenset({"ReplicatedAllReduce", REDUCE_SCATTER})
"""Operators whose replicas wait for one another."""


def replica_grouping(group: Sequence[int], replicas: int) -> ReplicaGrouping:
    """The groups of a collective operator.

    Args:
        group: the attribute, [type, size]; nothing for all replicas.
        replicas: of the session, in all processes.

    Raises:
        popart_exception: the size does not divide the replicas.
    """
    kind, size = group or (CommGroupType.All, 0)
    return CommGroup(CommGroupType(int(kind)), int(size)).toReplicaGrouping(replicas)


def shard_length(elements: int, size: int) -> int:
    """Elements of one replica's shard; the last one is filled up with zeros."""
    return -(-elements // size)

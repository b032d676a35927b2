"""What replicas of a group make together, and the shapes that depend on how many there are."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.annotations import COMM_GROUP
from paddle_ipu.popart.enums import CollectiveOperator, CommGroupType
from paddle_ipu.popart.graph_types import fill_types
from paddle_ipu.popart.options import CommGroup
from paddle_ipu.popart.replica_grouping import ReplicaGrouping
from paddle_ipu.popart.schema import debug_name, schema_of_node

OPERATOR = "__collectiveOperator"
_SHARDS = "ReplicatedReduceScatter"
COLLECTIVES = frozenset({"ReplicatedAllReduce", _SHARDS})
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


def type_shards(graph: ir.Graph, replicas: int) -> None:
    """Types what reduce-scatters make, which no builder knows, and all that follows from it.

    Args:
        graph: a session's; it is changed.
        replicas: of the session, in all processes.

    Raises:
        popart_exception: groups that do not divide the replicas, a reduce-scatter in a subgraph,
            or shapes that do not fit.
    """
    for block in graph.subgraphs():
        for node in block:
            if node.op_type == _SHARDS and block is not graph:
                raise popart_exception(
                    f"{debug_name(node)} stands in a subgraph, where its shape, which depends on "
                    "the replicas of the session, is not known. Put it into the main graph."
                )
    found = False
    for node in graph:
        schema = schema_of_node(node)
        if node.op_type != _SHARDS:
            if found and schema is not None:
                fill_types(node, schema)
            continue
        found = True
        group = _group(node)
        try:
            size = replica_grouping(group, replicas).getGroupSize()
        except popart_exception as error:
            raise popart_exception(
                f"{debug_name(node)} has groups of {group[1]} replicas, which do not divide the "
                f"{replicas} replicas of the session. {error}"
            ) from error
        x = node.inputs[0]
        assert x is not None and x.shape is not None
        elements = 1
        for dim in x.shape.numpy():
            elements *= int(dim)
        node.outputs[0].type = x.type
        node.outputs[0].shape = ir.Shape([shard_length(elements, size)])


def check_shards(graph: ir.Graph, differentiated: Collection[str]) -> None:
    """Checks that no gradient goes through a reduce-scatter that has none.

    Args:
        differentiated: tensors that have a gradient.

    Raises:
        popart_exception: one reduces what it scatters.
    """
    for node in graph:
        if node.op_type != _SHARDS or node.outputs[0].name not in differentiated:
            continue
        written = node.attributes.get(OPERATOR)
        operator = CollectiveOperator(0 if written is None else written.as_int())
        if operator is not CollectiveOperator.Local:
            raise popart_exception(
                "ReplicatedReduceScatterOp: grad op is only implemented when "
                f"CollectiveOperator==CollectiveOperator::Local. {debug_name(node)} is on the path "
                "to the loss; detach what it reads"
            )


def _group(node: ir.Node) -> Sequence[int]:
    attribute = node.attributes.get(COMM_GROUP)
    return () if attribute is None else attribute.as_ints()

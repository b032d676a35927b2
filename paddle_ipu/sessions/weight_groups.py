"""Which replicas share which weights, by the settings that a model has of its weights."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from paddle_ipu.errors import NotSupported, popart_internal_exception
from paddle_ipu.popart.enums import (
    CommGroupType,
    ReplicatedTensorSharding,
    VariableRetrievalMode,
)
from paddle_ipu.popart.options import SessionOptions, TensorLocation
from paddle_ipu.popart.program import size_of
from paddle_ipu.popart.variable_settings import VariableSettings, settings_of
from paddle_ipu.xla.step.replica_values import ReplicaValues


def replica_values(
    model: ir.Model, options: SessionOptions, replicas: int, instances: int, training: bool
) -> dict[str, ReplicaValues]:
    """Weights of which groups of replicas have values of their own, or every replica returns its.

    Args:
        model: of the session, its tensors typed as on a replica.
        options: of the session.
        replicas: those of this process.
        instances: processes that share the replicas.
        training: whether the session trains.

    Raises:
        NotSupported: such a weight, and several processes.
        popart_internal_exception: such a weight, sharded over replicas that are no group of it.
    """
    found = {}
    for name, value in model.graph.initializers.items():
        settings = settings_of(model.metadata_props, name)
        reads_all = settings.getRetrievalMode() is VariableRetrievalMode.AllReplicas
        grouping = settings.getReplicaGrouping(replicas * instances)
        if grouping.getNumGroups() == 1 and not (reads_all and replicas * instances > 1):
            continue
        if instances > 1:
            raise NotSupported(
                f"The weight '{name}' has {settings!r}, and {instances} processes share the "
                "replicas: groups of replicas with values of their own, and reads of every "
                "replica's, are there within one process. Run all replicas in one"
            )
        if grouping.getNumGroups() > 1:
            _check_sharding(value, settings, options, replicas, training)
        groups = tuple(grouping.getGroupAt(replica) for replica in range(replicas))
        found[name] = ReplicaValues(groups, reads_all)
    return found


def _check_sharding(
    weight: ir.Value,
    settings: VariableSettings,
    options: SessionOptions,
    replicas: int,
    training: bool,
) -> None:
    """popart_internal_exception where replicas hold shards of values that they do not share."""
    own = settings.getReplicaGrouping(replicas)
    if settings.getCommGroupType() is CommGroupType.Ungrouped:
        # PopART leaves these whole.
        return
    for option, location in _locations(weight, options, training).items():
        if location.replicatedTensorSharding is ReplicatedTensorSharding.Off:
            continue
        shards = location.shardingDomain.toReplicaGrouping(replicas)
        if shards != own:
            raise popart_internal_exception(
                "Could not return a supported ReplicaGrouping transpose of "
                f"{shards} within the super-set: {own}. {option} shards the weight "
                f"'{weight.name}', or its optimizer state, over other replicas than those that "
                "share its values by its VariableSettings. Give its shardingDomain the weight's "
                "CommGroup, or switch replicatedTensorSharding off"
            )


def _locations(
    weight: ir.Value, options: SessionOptions, training: bool
) -> Mapping[str, TensorLocation]:
    """What says where a weight and its optimizer state are: option -> location."""
    locations = {}
    name, size = str(weight.name), size_of(weight)
    for kind in ("weight", "optimizerState", "accumulator") if training else ("weight",):
        settings = getattr(options, f"{kind}TensorLocationSettings")
        if size >= settings.minElementsForReplicatedTensorSharding:
            locations[f"SessionOptions.{kind}TensorLocationSettings"] = settings.location
    if name in options.tensorLocationSettingsOverride:
        own = options.tensorLocationSettingsOverride[name]
        locations["SessionOptions.tensorLocationSettingsOverride"] = own
    return locations

"""PopDist's Python API under the name that scripts import; ``paddle_ipu.distributed.popdist``.

Where Graphcore's SDK is enabled, its own module of this name comes first.
"""

from __future__ import annotations

from paddle_ipu.distributed.popdist import (
    allGather,
    allReduce,
    barrier,
    checkNumIpusPerReplica,
    execute_on_instances,
    getDeviceId,
    getInstanceIndex,
    getLocalInstanceIndex,
    getNumInstances,
    getNumIpusPerReplica,
    getNumLocalReplicas,
    getNumTotalReplicas,
    getReplicaIndexOffset,
    init,
    isBackendInitialized,
    isPopdistEnvSet,
)

__all__ = [
    "allGather",
    "allReduce",
    "barrier",
    "checkNumIpusPerReplica",
    "execute_on_instances",
    "getDeviceId",
    "getInstanceIndex",
    "getLocalInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "isBackendInitialized",
    "isPopdistEnvSet",
]

"""``popdist.popart``: PopART's session options and device of one instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle_ipu.distributed import popdist
from paddle_ipu.popart.enums import DeviceConnectionType
from paddle_ipu.popart.options import SessionOptions

if TYPE_CHECKING:
    from paddle_ipu.sessions.devices import DeviceInfo


def configureSessionOptions(options: SessionOptions) -> None:
    """Sets a session's replication options for this instance's share of the replicas.

    Args:
        options: ``popart.SessionOptions``; its replication settings are overwritten.
    """
    local, total = popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()
    options.enableReplicatedGraphs = local > 1
    options.replicatedGraphCount = local
    options.enableDistributedReplicatedGraphs = total > local
    options.globalReplicaOffset = popdist.getReplicaIndexOffset()
    options.globalReplicationFactor = total


def getDevice(
    connectionType: DeviceConnectionType = DeviceConnectionType.Always, ipusPerReplica: int = 0
) -> DeviceInfo:
    """The device of this instance, with the IPUs of all its replicas.

    Args:
        connectionType: when to attach; an IPU Model is always there.
        ipusPerReplica: IPUs of a replica; 0 asks ``poprun``.
    """
    from paddle_ipu.sessions.devices import DeviceManager

    ipus = ipusPerReplica or popdist.getNumIpusPerReplica()
    return DeviceManager().createIpuModelDevice(
        {"numIPUs": popdist.getNumLocalReplicas() * ipus, "tilesPerIPU": 1472}
    )

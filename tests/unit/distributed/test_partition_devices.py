"""PopART's devices on the IPUs that a V-IPU partition or ``poprun`` gives a process."""

from __future__ import annotations

import os
from typing import Any

import pytest

from paddle_ipu.distributed import popdist
from paddle_ipu.errors import BackendUnavailableError, VipuError, popart_exception
from paddle_ipu.instances import attachment
from paddle_ipu.instances.vipu_client import VipuClient
from paddle_ipu.sessions.devices import DeviceManager

OTHER = {"name": "p", "gcd": 0, "pid": 7, "host": "far", "place": "far", "started": 5,
         "command": "train.py", "user": "me"}  # fmt: skip


@pytest.fixture
def partition(client: VipuClient, monkeypatch: pytest.MonkeyPatch) -> VipuClient:
    """A service with a partition of 8 IPUs, which this process is told of."""
    client.call("create", name="p", size=8)
    monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "p")
    monkeypatch.setenv("IPUOF_VIPU_API_PORT", str(client.port))
    for name, empty in (("_held", {}), ("_lost", {}), ("_targets", {})):
        monkeypatch.setattr(attachment, name, empty)
    return client


def held(client: VipuClient) -> list[tuple[int, int, int]]:
    """(process, first, IPUs) of all who have some."""
    attached: dict[str, list[dict[str, Any]]] = client.call("partition", name="p")["attached"]
    return [(p["pid"], p["first"], p["ipus"]) for found in attached.values() for p in found]


def test_devices_of_a_partition(partition: VipuClient) -> None:
    manager, me = DeviceManager(), os.getpid()
    assert [len(manager.enumerateDevices(numIpus=n)) for n in (1, 8, 16)] == [8, 1, 0]
    partition.call("attach", ipus=2, **OTHER)
    device = manager.acquireAvailableDevice(2)
    other = manager.acquireDeviceById(5)
    assert (device.driverIds, other.driverIds) == ([2, 3], [5])
    assert held(partition) == [(7, 0, 2), (me, 2, 2), (me, 5, 1)]
    with pytest.raises(popart_exception, match="^Failed to acquire device with 4 IPUs.") as caught:
        manager.acquireAvailableDevice(4)
    assert str(caught.value.__cause__) == "another device of this process has IPUs of 4 to 7"
    other.detach()
    assert held(partition) == [(7, 0, 2), (me, 2, 2)]
    del device
    assert held(partition) == [(7, 0, 2)]
    with pytest.raises(popart_exception, match="^Failed to acquire device with 8 IPUs.") as caught:
        manager.acquireAvailableDevice(8)
    assert "in use by PID 7 (train.py) on far" in str(caught.value.__cause__)


def test_programs_and_devices_of_one_process(partition: VipuClient) -> None:
    """Programs keep their IPUs to the end of the process, and share them with its devices."""
    manager, me = DeviceManager(), os.getpid()
    assert attachment.attach(2) == 0
    one = manager.acquireAvailableDevice(1)
    assert (one.driverIds, held(partition)) == ([0], [(me, 0, 2)])
    four = manager.acquireDeviceById(13)
    assert (four.driverIds, held(partition)) == ([4, 5, 6, 7], [(me, 0, 2), (me, 4, 4)])
    # What programs have may grow, and a device keeps its own.
    assert attachment.attach(4) == 0
    assert held(partition) == [(me, 4, 4), (me, 0, 4)]
    one.detach()
    four.detach()
    assert held(partition) == [(me, 0, 4)]


def test_a_partition_that_is_gone(partition: VipuClient) -> None:
    device = DeviceManager().acquireAvailableDevice(1)
    partition.call("release", name="p", gcd=0, pid=os.getpid(), place=attachment.place())
    partition.call("remove", name="p")
    device.detach()
    with pytest.raises(
        BackendUnavailableError, match="Can't see the IPUs of the partition: partition p not found"
    ):
        DeviceManager().enumerateDevices()


def test_wrong_numbers_of_ipus(partition: VipuClient) -> None:
    with pytest.raises(VipuError, match="GCD 0 of partition p has no 2 IPUs at 3"):
        partition.call("attach", ipus=2, first=3, **OTHER)
    with pytest.raises(VipuError, match="GCD 0 of partition p has no 4 IPUs at 8"):
        partition.call("attach", ipus=4, first=8, **OTHER)


def test_poprun_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight replicas of two IPUs are on a machine of 16, of which this instance has a quarter."""
    for name in ("IPUOF_VIPU_API_PARTITION_ID", "IPUOF_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("TOTAL_REPLICAS", 8), ("LOCAL_REPLICAS", 2), ("IPUS_PER_REPLICA", 2)):
        monkeypatch.setenv(f"POPDIST_NUM_{name}", str(value))
    monkeypatch.setenv("POPDIST_REPLICA_INDEX_OFFSET", "4")
    manager = DeviceManager()
    assert len(manager.enumerateDevices()) == 16
    device = manager.acquireDeviceById(popdist.getDeviceId())
    assert (device.numIpus, device.driverIds) == (4, [8, 9, 10, 11])
    device.detach()

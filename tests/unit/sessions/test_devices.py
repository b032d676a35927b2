"""Devices that are made; test_simulated_ipus.py has those that are found."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu.errors import OptionError, popart_exception
from paddle_ipu.popart.enums import DeviceConnectionType, DeviceType
from paddle_ipu.sessions.devices import DeviceManager


@pytest.fixture
def manager() -> DeviceManager:
    return DeviceManager()


def test_an_ipu_model(manager: DeviceManager) -> None:
    device = manager.createIpuModelDevice({})
    assert (device.type, device.numIpus, device.tilesPerIPU) == (DeviceType.IpuModel, 1, 4)
    assert (device.version, device.ipuVersion, device.id) == ("ipu2", "ipu2", 0)
    assert (device.numWorkerContexts, device.driverIds) == (6, [])
    options = {"numIPUs": 2, "tilesPerIPU": "1216", "compileIPUCode": False, "ipuVersion": "ipu1"}
    two = manager.createIpuModelDevice(options)
    assert (two.numIpus, two.tilesPerIpu, two.options["compileIPUCode"]) == (2, 1216, "false")
    assert repr(two) == (
        "Device Type:ipu-model Connection Type:always Id:0 Version:ipu1 NumIPUs:2 "
        "NumTilesPerIPU:1216 DeviceIds: {}"
    )


def test_other_devices(manager: DeviceManager) -> None:
    cpu = manager.createCpuDevice()
    assert (cpu.type, cpu.numIpus, cpu.numWorkerContexts) == (DeviceType.Cpu, 1, 1)
    assert (cpu.version, cpu.ipuVersion) == ("<unknown-cpu>", "cpu")
    sim = manager.createSimDevice({"numIPUs": 2})
    assert (sim.type, sim.version, sim.ipuVersion) == (DeviceType.Sim, "<unknown-sim>", "ipu2")
    offline = manager.createOfflineIPUDevice({"numIPUs": 4, "syncPattern": "full"})
    assert (offline.type, offline.numIpus, offline.tilesPerIPU) == (DeviceType.OfflineIpu, 4, 1472)
    assert offline.connectionType is DeviceConnectionType.Never
    assert (offline.version, offline.ipuVersion, offline.driverIds) == (
        "<offline-ipu>",
        "ipu2",
        [0],
    )
    with pytest.raises(popart_exception, match="^Cannot attach to offline device$"):
        offline.attach()
    with pytest.raises(popart_exception, match="^Cannot attach to offline device$"):
        offline.tryAttachUntilTimeout()
    with pytest.raises(popart_exception, match="^Cannot detach from offline device$"):
        offline.detach()
    copy = manager.createOfflineIpuFromDeviceInfo(manager.createIpuModelDevice({"numIPUs": 2}))
    assert (copy.type, copy.numIpus) == (DeviceType.OfflineIpu, 2)
    pod = manager.createOfflineIpuFromSystemString("bow-pod16", 0)
    assert (pod.type, pod.numIpus, pod.tilesPerIPU) == (DeviceType.OfflineIpu, 16, 1472)
    card = manager.createOfflineIpuFromSystemString("C600", 1)
    assert (card.numIpus, card.ipuVersion) == (1, "ipu21")
    with pytest.raises(popart_exception, match="^system POD4 has 4 IPUs, 8 asked for$"):
        manager.createOfflineIpuFromSystemString("POD4", 8)
    with pytest.raises(OptionError, match="^unknown machine 'pond': expected one of"):
        manager.createOfflineIpuFromSystemString("pond", 1)


def test_a_device_is_a_context(manager: DeviceManager) -> None:
    with manager.createIpuModelDevice({}) as device:
        assert device.tryAttachUntilTimeout()
        assert device.isAttached
    assert not device.isAttached


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"numIpus": 1},
            r"^Invalid option `numIpus' passed to DevicexManager::createHostDevice for device type "
            r"ipu-model. Valid options are \[numIPUs, tilesPerIPU, compileIPUCode, ipuVersion\]$",
        ),
        ({"numIPUs": 0}, "Option numIPUs is '0', expected a positive number"),
        ({"tilesPerIPU": "x"}, "Option tilesPerIPU is 'x', expected a positive number"),
        ({"ipuVersion": "ipu9"}, "Unknown ipuVersion 'ipu9', expected ipu1, ipu2, ipu21"),
    ],
)
def test_wrong_options(manager: DeviceManager, options: dict[str, Any], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        manager.createIpuModelDevice(options)

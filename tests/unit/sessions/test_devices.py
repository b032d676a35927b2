"""Devices: what can be made here and how hardware is refused."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu.errors import popart_exception
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
    assert manager.createSimDevice({"numIPUs": 2}).type is DeviceType.Sim
    offline = manager.createOfflineIPUDevice({"numIPUs": 4, "syncPattern": "full"})
    assert (offline.type, offline.numIpus, offline.tilesPerIPU) == (DeviceType.OfflineIpu, 4, 1472)
    assert offline.connectionType is DeviceConnectionType.Never
    assert not offline.attach()
    copy = manager.createOfflineIpuFromDeviceInfo(manager.createIpuModelDevice({"numIPUs": 2}))
    assert (copy.type, copy.numIpus) == (DeviceType.OfflineIpu, 2)


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


def test_there_is_no_hardware(manager: DeviceManager) -> None:
    assert manager.enumerateDevices() == []
    assert manager.tryAcquireAvailableDevice(2) is None
    assert manager.tryAcquireDeviceById(3) is None
    with pytest.raises(
        popart_exception, match="^Failed to acquire device with 2 IPUs. Ensure that"
    ):
        manager.acquireAvailableDevice(2)
    with pytest.raises(
        popart_exception, match="^Failed to acquire device with id '3'. Ensure it is"
    ):
        manager.acquireDeviceById(3)
    with pytest.raises(
        popart_exception,
        match="^You have attempted to acquire 3 IPUs. The number of IPUs requested must be a power",
    ):
        manager.tryAcquireAvailableDevice(3)
    never = DeviceConnectionType.Never
    with pytest.raises(
        popart_exception, match="when connectionType is DeviceConnectionType::Never"
    ):
        manager.acquireAvailableDevice(connectionType=never)
    with pytest.raises(
        popart_exception, match="when connectionType is DeviceConnectionType::Never"
    ):
        manager.acquireDeviceById(0, connectionType=never)
    manager.setOnDemandAttachTimeout(3)
    with pytest.raises(popart_exception, match="attachTimeout is -1, expected 0 or more seconds"):
        manager.setOnDemandAttachTimeout(-1)

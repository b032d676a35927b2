"""Simulated IPUs: found, acquired, attached, used by sessions and released."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import (
    BackendUnavailableError,
    OptionError,
    popart_exception,
    popart_runtime_error,
    poplar_exception,
)
from paddle_ipu.instances.device_blocks import device_blocks
from paddle_ipu.popart.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from paddle_ipu.sessions.devices import DeviceInfo, DeviceManager
from tests.unit.sessions.session_programs import B, Linear, W, X, flow

ON_DEMAND = DeviceConnectionType.OnDemand


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a machine, a partition or ``poprun``."""
    for name in ("POPLAR_TARGET_OPTIONS", "IPUOF_VIPU_API_PARTITION_ID", "IPUOF_CONFIG_PATH",
                 "POPDIST_NUM_TOTAL_REPLICAS"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manager() -> Iterator[DeviceManager]:
    yield DeviceManager()
    DeviceManager().setOnDemandAttachTimeout(0)


def session_on(device: DeviceInfo) -> popart.InferenceSession:
    program = Linear()
    return popart.InferenceSession(program.builder.model, flow(1, {program.out: "All"}), device)


def output_of(session: popart.InferenceSession) -> Any:
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    (out,) = anchors.values()
    return out


def test_devices_of_a_machine() -> None:
    assert device_blocks(4) == [
        range(1), range(1, 2), range(2, 3), range(3, 4), range(2), range(2, 4), range(4)
    ]  # fmt: skip
    # A machine file may describe any number.
    assert device_blocks(3) == [range(1), range(1, 2), range(2, 3), range(2)]


def test_what_is_found(manager: DeviceManager) -> None:
    found = {n: manager.enumerateDevices(numIpus=n) for n in (1, 2, 4, 8, 16)}
    assert {n: len(devices) for n, devices in found.items()} == {1: 16, 2: 8, 4: 4, 8: 2, 16: 1}
    assert [device.id for n in found for device in found[n]] == list(range(31))
    assert found[4][1].driverIds == [4, 5, 6, 7]
    assert manager.enumerateDevices(numIpus=3) == manager.enumerateDevices(numIpus=32) == []
    assert manager.enumerateDevices(deviceType=DeviceType.IpuModel) == []
    (all16,) = manager.enumerateDevices(SyncPattern.ReplicaAndLadder, 16, tilesPerIPU=1216)
    assert (all16.tilesPerIPU, all16.tilesPerIpu, all16.numWorkerContexts) == (1216, 1216, 6)
    assert (all16.isAttached, all16.version) == (False, "<unknown-ipu-unattached>")
    with pytest.raises(popart_exception, match="tilesPerIPU is 1473, but an IPU of machine POD16"):
        manager.enumerateDevices(tilesPerIPU=1473)


@pytest.mark.parametrize(
    ("machine", "ipus", "version"), [("Bow-Pod64", 64, "ipu2"), ("C600", 1, "ipu21")]
)
def test_the_machine_of_the_options(
    manager: DeviceManager, monkeypatch: pytest.MonkeyPatch, machine: str, ipus: int, version: str
) -> None:
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", f'{{"machine": "{machine}"}}')
    devices = manager.enumerateDevices()
    assert (len(devices), devices[0].ipuVersion) == (ipus, version)


def test_a_machine_that_is_none(manager: DeviceManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", '{"machine": "pond"}')
    with pytest.raises(OptionError, match="unknown machine 'pond'"):
        manager.acquireAvailableDevice()


def test_an_acquired_device(manager: DeviceManager) -> None:
    device = manager.acquireAvailableDevice(2)
    assert (device.type, device.connectionType) == (DeviceType.Ipu, DeviceConnectionType.Always)
    assert (device.id, device.driverIds, device.numIpus) == (16, [0, 1], 2)
    assert (device.tilesPerIPU, device.ipuVersion) == (1472, "ipu2")
    assert device.isAttached
    assert device.attach()
    assert repr(device) == (
        "Device Type:ipu Connection Type:always Id:16 Version:3.4.0 NumIPUs:2 NumTilesPerIPU:1472 "
        "DeviceIds: {0,1}"
    )
    device.detach()
    device.detach()
    assert not device.isAttached
    assert "Version:<unknown-ipu-unattached>" in repr(device)


def test_ipus_in_use_are_passed_over(manager: DeviceManager) -> None:
    one = manager.acquireAvailableDevice(1)
    two = manager.acquireAvailableDevice(2)
    assert (one.driverIds, two.driverIds) == ([0], [2, 3])
    assert manager.tryAcquireAvailableDevice(16) is None
    with pytest.raises(
        popart_exception,
        match=r"^Failed to acquire device with 16 IPUs. Ensure that there are sufficient IPUs "
        r"available. If you have enabled the Poplar SDK you can check device availability with "
        r"the `gc-monitor` command-line utility.$",
    ) as caught:
        manager.acquireAvailableDevice(16)
    assert str(caught.value.__cause__) == "another device of this process has IPUs of 0 to 15"
    one.detach()
    two.detach()
    with manager.acquireAvailableDevice(16) as everything:
        assert everything.isAttached
        assert manager.tryAcquireAvailableDevice(1) is None
        # Attached or not, a device is listed.
        assert len(manager.enumerateDevices()) == 16
    assert not everything.isAttached


def test_the_collector_is_asked_once_for_devices_that_nobody_has(
    manager: DeviceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    with manager.acquireAvailableDevice(16):
        monkeypatch.setattr(gc, "collect", lambda: asked.append(1))
        assert manager.tryAcquireAvailableDevice(1) is None
        assert len(asked) == 1
        manager.setOnDemandAttachTimeout(1)
        waiting = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
        assert not waiting.tryAttachUntilTimeout()
        assert len(asked) == 2


def test_a_device_that_nobody_has_is_detached(manager: DeviceManager) -> None:
    manager.acquireAvailableDevice(16)
    device = manager.acquireAvailableDevice(16)
    # Collected only with the objects that refer to one another.
    circle: list[Any] = [device]
    circle.append(circle)
    del device, circle
    assert manager.acquireAvailableDevice(16).isAttached


def test_a_device_by_its_id(manager: DeviceManager) -> None:
    device = manager.acquireDeviceById(17)
    assert (device.id, device.driverIds, device.isAttached) == (17, [2, 3], True)
    assert manager.tryAcquireDeviceById(3) is None
    with pytest.raises(
        popart_exception, match="^Failed to acquire device with id '3'. Ensure it is available."
    ) as caught:
        manager.acquireDeviceById(3)
    assert isinstance(caught.value.__cause__, BackendUnavailableError)
    with pytest.raises(poplar_exception, match="^No such device set id: '31'$"):
        manager.tryAcquireDeviceById(31)
    on_demand = manager.acquireDeviceById(3, connectionType=ON_DEMAND)
    assert (on_demand.connectionType, on_demand.isAttached) == (ON_DEMAND, False)
    assert not on_demand.attach()


def test_which_of_several(manager: DeviceManager) -> None:
    """Random ones come in one order, as PopART shuffles with a fixed seed."""
    criterion = DeviceSelectionCriterion.Random
    first = manager.acquireAvailableDevice(1, selectionCriterion=criterion)
    second = manager.acquireAvailableDevice(1, selectionCriterion=criterion)
    assert second.id != first.id
    first.detach()
    with manager.acquireAvailableDevice(1, selectionCriterion=criterion) as again:
        assert again.id == first.id != 0


def test_wrong_requests(manager: DeviceManager) -> None:
    with pytest.raises(
        popart_exception,
        match="^You have attempted to acquire 3 IPUs. The number of IPUs requested must be a power",
    ):
        manager.tryAcquireAvailableDevice(3)
    assert manager.tryAcquireAvailableDevice(0) is None
    never = DeviceConnectionType.Never
    for acquire in (manager.acquireAvailableDevice, manager.tryAcquireAvailableDevice):
        with pytest.raises(popart_exception, match="when connectionType is DeviceConnectionType::"):
            acquire(connectionType=never)
    for by_id in (manager.acquireDeviceById, manager.tryAcquireDeviceById):
        with pytest.raises(popart_exception, match="when connectionType is DeviceConnectionType::"):
            by_id(0, connectionType=never)
    with pytest.raises(popart_exception, match="attachTimeout is -1, expected 0 or more seconds"):
        manager.setOnDemandAttachTimeout(-1)


def test_waiting_for_a_device(manager: DeviceManager) -> None:
    held = manager.acquireAvailableDevice(16)
    impatient = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    assert not impatient.tryAttachUntilTimeout()
    # All objects of the class are one manager.
    DeviceManager().setOnDemandAttachTimeout(1)
    waiting = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    begin = time.monotonic()
    assert not waiting.tryAttachUntilTimeout()
    assert time.monotonic() - begin >= 1
    manager.setOnDemandAttachTimeout(60)
    patient = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    threading.Timer(0.2, held.detach).start()
    assert patient.tryAttachUntilTimeout()
    patient.detach()


def test_sessions_one_after_another(manager: DeviceManager) -> None:
    for _ in range(2):
        with manager.acquireAvailableDevice(1) as device:
            session = session_on(device)
            session.prepareDevice()
            np.testing.assert_allclose(output_of(session), X @ W + B, rtol=1e-6)
            assert device.id == 0


def test_a_session_attaches_on_demand(manager: DeviceManager) -> None:
    device = manager.acquireAvailableDevice(1, connectionType=ON_DEMAND)
    session = session_on(device)
    session.prepareDevice(loadEngine=False)
    assert not device.isAttached
    np.testing.assert_allclose(output_of(session), X @ W + B, rtol=1e-6)
    assert device.isAttached
    other = session_on(manager.acquireDeviceById(0, connectionType=ON_DEMAND))
    with pytest.raises(popart_runtime_error, match="^Failed to attach to device$") as caught:
        other.prepareDevice()
    assert str(caught.value.__cause__) == "another device of this process has IPUs of 0 to 0"
    device.detach()
    other.loadEngineAndConnectStreams()
    np.testing.assert_allclose(output_of(other), X @ W + B, rtol=1e-6)


def test_what_the_log_says(manager: DeviceManager, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "popart")
    session = session_on(manager.createIpuModelDevice({}))
    session.prepareDevice(loadEngine=False)
    assert caplog.messages == ["Starting compilation", "Graph compiled"]
    session.loadEngineAndConnectStreams()
    assert caplog.messages[2:] == ["Engine loaded"]


def test_a_detached_device_runs_nothing(manager: DeviceManager) -> None:
    device = manager.acquireAvailableDevice(1)
    session = session_on(device)
    session.prepareDevice()
    device.detach()
    for call in (session.weightsFromHost, session.weightsToHost, lambda: output_of(session)):
        with pytest.raises(popart_runtime_error, match="session, id 0, is not attached. Attach it"):
            call()
    assert device.attach()
    np.testing.assert_allclose(output_of(session), X @ W + B, rtol=1e-6)


def test_an_offline_device_runs_nothing(manager: DeviceManager) -> None:
    with manager.acquireAvailableDevice(1) as device:
        session = session_on(manager.createOfflineIpuFromDeviceInfo(device))
    with pytest.raises(
        popart_runtime_error, match="^Trying to load an engine on an offline device$"
    ):
        session.prepareDevice()
    session = session_on(manager.createOfflineIPUDevice({}))
    session.prepareDevice(loadEngine=False)
    with pytest.raises(
        popart_runtime_error, match="^Offline IPU device is not configured for execution$"
    ):
        output_of(session)

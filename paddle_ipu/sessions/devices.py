"""Devices: the IPU Model, the CPU, offline targets, and IPUs that are found and attached.

Those are simulated; what runs on a device is computed alike on all kinds of it.
"""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Mapping
from typing import Any

from paddle_ipu.cost_model.machines import Processor, machine_named
from paddle_ipu.errors import BackendUnavailableError, popart_exception, poplar_exception
from paddle_ipu.instances.device_blocks import device_blocks
from paddle_ipu.popart.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from paddle_ipu.popart.names import versionNumber
from paddle_ipu.sessions import simulated_ipus

_TYPE_NAMES = {
    DeviceType.IpuModel: "ipu-model",
    DeviceType.Cpu: "cpu",
    DeviceType.Ipu: "ipu",
    DeviceType.OfflineIpu: "offline-ipu",
    DeviceType.Sim: "sim",
}
_TILES = {"ipu1": 1216, "ipu2": 1472, "ipu21": 1472}
_ARCHITECTURES = {"C600": "ipu21"}
"""By processor; that of others is ``ipu2``."""
_FEW_TILES = 4
_OPTIONS = {
    DeviceType.IpuModel: ("numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion"),
    DeviceType.Sim: ("numIPUs", "tilesPerIPU"),
    DeviceType.OfflineIpu: ("numIPUs", "tilesPerIPU", "ipuVersion", "syncPattern", "gatewayMode"),
}
_CONNECTION_NAMES = {
    DeviceConnectionType.Always: "always",
    DeviceConnectionType.OnDemand: "on-demand",
    DeviceConnectionType.Never: "never",
}
_WORKER_CONTEXTS = 6
_POLL = 1.0
"""Seconds between two attempts to attach."""
_SHUFFLE_SEED = 1


class DeviceInfo:
    """A device; as a context manager it detaches on exit."""

    _connection = DeviceConnectionType.Always
    refusal: BackendUnavailableError | None = None
    """Why the last `attach` failed; PopART has none."""

    def __init__(
        self,
        type: DeviceType,
        *,
        num_ipus: int = 1,
        tiles_per_ipu: int = _FEW_TILES,
        version: str = "",
        ipu_version: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._type = type
        self._num_ipus = num_ipus
        self._tiles = tiles_per_ipu
        self._version = version
        self._ipu_version = ipu_version or version
        self._is_attached = False
        self.options = dict(options or {})

    @property
    def type(self) -> DeviceType:
        """What kind of device it is."""
        return self._type

    @property
    def connectionType(self) -> DeviceConnectionType:
        """When the device is attached."""
        return self._connection

    @property
    def version(self) -> str:
        """For a model its IPU version, for attached IPUs their driver's, else ``<unknown-...>``."""
        return self._version

    @property
    def ipuVersion(self) -> str:
        """The architecture: ``ipu1``, ``ipu2``, ``ipu21``, or ``cpu``."""
        return self._ipu_version

    @property
    def id(self) -> int:
        """The device's number, as ``gc-info -l`` has it; 0 for all that are not found there."""
        return 0

    @property
    def numIpus(self) -> int:
        """The number of IPUs."""
        return self._num_ipus

    @property
    def tilesPerIPU(self) -> int:
        """Tiles of each IPU."""
        return self._tiles

    @property
    def tilesPerIpu(self) -> int:
        """Tiles of each IPU."""
        return self._tiles

    @property
    def driverIds(self) -> list[int]:
        """Numbers of the IPUs that the driver gives; empty for a model."""
        return []

    @property
    def isAttached(self) -> bool:
        """Whether the device is attached."""
        return self._is_attached

    @property
    def numWorkerContexts(self) -> int:
        """Worker threads of a tile."""
        return 1 if self._type is DeviceType.Cpu else _WORKER_CONTEXTS

    def attach(self) -> bool:
        """Attaches; returns whether the device is attached now.

        Raises:
            popart_exception: an offline device.
        """
        self._is_attached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Attaches, as soon as it can within the time of ``setOnDemandAttachTimeout``.

        Returns:
            Whether the device is attached.

        Raises:
            popart_exception: an offline device.
        """
        return self.attach()

    def detach(self) -> None:
        """Detaches.

        Raises:
            popart_exception: an offline device.
        """
        self._is_attached = False

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return (
            f"Device Type:{_TYPE_NAMES[self._type]} Connection Type:"
            f"{_CONNECTION_NAMES[self.connectionType]} Id:{self.id} Version:{self.version} "
            f"NumIPUs:{self._num_ipus} NumTilesPerIPU:{self._tiles} "
            f"DeviceIds: {{{','.join(map(str, self.driverIds))}}}"
        )


class OfflineDevice(DeviceInfo):
    """A target to compile for."""

    _connection = DeviceConnectionType.Never

    def __init__(self, num_ipus: int, tiles_per_ipu: int, ipu_version: str) -> None:
        super().__init__(
            DeviceType.OfflineIpu,
            num_ipus=num_ipus,
            tiles_per_ipu=tiles_per_ipu,
            version="<offline-ipu>",
            ipu_version=ipu_version,
        )

    @property
    def driverIds(self) -> list[int]:
        """One number, 0."""
        return [0]

    def attach(self) -> bool:
        """Fails with a popart_exception."""
        raise popart_exception("Cannot attach to offline device")

    def detach(self) -> None:
        """Fails with a popart_exception."""
        raise popart_exception("Cannot detach from offline device")


class SimulatedIpus(DeviceInfo):
    """IPUs of this process's machine, which one device at a time can have.

    It is detached when nobody refers to it any more.

    Args:
        id: number of the device.
        block: numbers of its IPUs.
        tiles_per_ipu: tiles of each that it uses.
        ipu_version: their architecture.
        connection: when they are attached.
        timeout: seconds for which `tryAttachUntilTimeout` tries.
    """

    def __init__(
        self,
        id: int,
        block: range,
        tiles_per_ipu: int,
        ipu_version: str,
        connection: DeviceConnectionType,
        timeout: int,
    ) -> None:
        super().__init__(
            DeviceType.Ipu,
            num_ipus=len(block),
            tiles_per_ipu=tiles_per_ipu,
            ipu_version=ipu_version,
        )
        self._id = id
        self._block = block
        self._connection = connection
        self._timeout = timeout
        self._release: weakref.finalize[[range], SimulatedIpus] | None = None

    @property
    def id(self) -> int:
        """The device's number, as ``gc-info -l`` has it."""
        return self._id

    @property
    def driverIds(self) -> list[int]:
        """Numbers of its IPUs."""
        return list(self._block)

    @property
    def version(self) -> str:
        """The driver's version, which only an attached device knows."""
        if not self._is_attached:
            return "<unknown-ipu-unattached>"
        return ".".join(map(str, versionNumber()))

    def attach(self) -> bool:
        """Attaches; returns whether the device is attached now, else ``refusal`` says why not."""
        return self.attached()

    def attached(self, collect: bool = True) -> bool:
        """As `attach`, without asking Python's collector for lost devices where not `collect`."""
        if not self._is_attached:
            self.refusal = None
            try:
                simulated_ipus.attach(self._block, collect)
            except BackendUnavailableError as error:
                self.refusal = error
                return False
            self._release = weakref.finalize(self, simulated_ipus.detach, self._block)
            self._is_attached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Attaches, as soon as it can within the time of ``setOnDemandAttachTimeout``."""
        end = time.monotonic() + self._timeout
        collect = True
        while not self.attached(collect):
            collect = False
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL, left))
        return True

    def detach(self) -> None:
        """Detaches; other devices can then have the IPUs."""
        self._is_attached = False
        if self._release is not None:
            self._release()
            self._release = None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(kind: DeviceType, options: Mapping[str, Any]) -> dict[str, str]:
    valid = _OPTIONS[kind]
    for key in options:
        if key not in valid:
            raise popart_exception(
                f"Invalid option `{key}' passed to DevicexManager::createHostDevice for device "
                f"type {_TYPE_NAMES[kind]}. Valid options are [{', '.join(valid)}]"
            )
    return {key: _text(value) for key, value in options.items()}


def _count(options: Mapping[str, str], key: str, default: int) -> int:
    text = options.get(key, str(default))
    if not text.isdigit() or int(text) < 1:
        raise popart_exception(f"Option {key} is '{text}', expected a positive number")
    return int(text)


def _architecture(processor: Processor) -> str:
    return _ARCHITECTURES.get(processor.name, "ipu2")


def _check_connection(connection: DeviceConnectionType) -> None:
    if connection is DeviceConnectionType.Never:
        raise popart_exception(
            "Trying to acquire a hardware device when connectionType is DeviceConnectionType::Never"
        )


class DeviceManager:
    """Makes devices, and finds the simulated IPUs of this process; hardware is the SDK's.

    All objects of this class are one manager, as in PopART.
    """

    _attach_timeout = 0

    def createCpuDevice(self) -> DeviceInfo:
        """The host's processor."""
        return DeviceInfo(
            DeviceType.Cpu, tiles_per_ipu=1, version="<unknown-cpu>", ipu_version="cpu"
        )

    def createIpuModelDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """An IPU Model; keys numIPUs, tilesPerIPU, compileIPUCode, ipuVersion."""
        return self._device(DeviceType.IpuModel, options, _FEW_TILES)

    def createSimDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """A simulated device; keys numIPUs, tilesPerIPU."""
        return self._device(DeviceType.Sim, options, _FEW_TILES, "<unknown-sim>")

    def createOfflineIPUDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """A target to compile for, which cannot run.

        Args:
            opts: keys numIPUs, tilesPerIPU, ipuVersion, syncPattern, gatewayMode.
        """
        tiles = _TILES.get(str(opts.get("ipuVersion")), _TILES["ipu2"])
        like = self._device(DeviceType.OfflineIpu, opts, tiles)
        return self.createOfflineIpuFromDeviceInfo(like)

    def _device(
        self, type: DeviceType, options: Mapping[str, Any], tiles: int, version: str = ""
    ) -> DeviceInfo:
        texts = _options(type, options)
        ipu_version = texts.get("ipuVersion", "ipu2")
        if ipu_version not in _TILES and not ipu_version.startswith("ipu:"):
            raise popart_exception(
                f"Unknown ipuVersion '{ipu_version}', expected {', '.join(_TILES)} or ipu:<file>"
            )
        return DeviceInfo(
            type,
            num_ipus=_count(texts, "numIPUs", 1),
            tiles_per_ipu=_count(texts, "tilesPerIPU", tiles),
            version=version or ipu_version,
            ipu_version=ipu_version,
            options=texts,
        )

    def createOfflineIpuFromDeviceInfo(self, deviceInfo: DeviceInfo) -> DeviceInfo:
        """An offline target like another device."""
        return OfflineDevice(deviceInfo.numIpus, deviceInfo.tilesPerIPU, deviceInfo.ipuVersion)

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        """An offline target of a system of docs/machines.md, such as ``POD16``.

        Args:
            system: its name.
            numIpus: IPUs of the target; 0 for all that the system has.

        Raises:
            OptionError: no such system.
            popart_exception: it has fewer IPUs.
        """
        machine = machine_named(system)
        if not 0 <= numIpus <= machine.ipus:
            raise popart_exception(
                f"system {machine.name} has {machine.ipus} IPUs, {numIpus} asked for"
            )
        processor = machine.processor
        return OfflineDevice(numIpus or machine.ipus, processor.tiles, _architecture(processor))

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """The devices of `numIpus` simulated IPUs, attached or not.

        Args:
            pattern: how IPUs wait for one another; the IPU Model computes the same with all.
            numIpus: IPUs of each device.
            deviceType: only ``Ipu`` is found, others are made.
            connectionType: of the devices.
            tilesPerIPU: tiles of each IPU that the devices use; 0 for all.

        Raises:
            popart_exception: the IPUs have fewer tiles.
            BackendUnavailableError: the V-IPU partition that the environment names cannot be seen.
        """
        if deviceType is not DeviceType.Ipu:
            return []
        found = self._found(connectionType, tilesPerIPU)
        return [device for device in found if device.numIpus == numIpus]

    def _found(self, connection: DeviceConnectionType, tiles: int) -> list[SimulatedIpus]:
        """The devices of any number of IPUs, by their ids."""
        visible = simulated_ipus.visible_ipus()
        processor = visible.machine.processor
        if not 0 <= tiles <= processor.tiles:
            raise popart_exception(
                f"tilesPerIPU is {tiles}, but an IPU of machine {visible.machine.name} has "
                f"{processor.tiles} tiles"
            )
        return [
            SimulatedIpus(
                number, block, tiles or processor.tiles, _architecture(processor), connection,
                DeviceManager._attach_timeout,
            )
            for number, block in enumerate(device_blocks(visible.count))
        ]  # fmt: skip

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo | None:
        """A device of `numIpus` simulated IPUs, attached if `connectionType` is ``Always``.

        Args:
            numIpus: IPUs of the device, a power of two.
            tilesPerIpu: tiles of each IPU that it uses; 0 for all.
            pattern: how IPUs wait for one another; the IPU Model computes the same with all.
            connectionType: ``OnDemand`` for a device that ``prepareDevice`` attaches.
            selectionCriterion: which of several; ``Random`` shuffles alike in every call.

        Returns:
            None where no such device is free.

        Raises:
            popart_exception: the number of IPUs is no power of two, the IPUs have fewer tiles, or
                `connectionType` is ``Never``.
            BackendUnavailableError: the V-IPU partition that the environment names cannot be seen.
        """
        return self._acquired(numIpus, tilesPerIpu, connectionType, selectionCriterion)[0]

    def _acquired(
        self,
        ipus: int,
        tiles: int,
        connection: DeviceConnectionType,
        criterion: DeviceSelectionCriterion,
    ) -> tuple[DeviceInfo | None, BackendUnavailableError | None]:
        """The device, and why the last one that was tried is not free."""
        if ipus > 0 and ipus & (ipus - 1):
            raise popart_exception(
                f"You have attempted to acquire {ipus} IPUs. The number of IPUs requested must "
                "be a power of two"
            )
        _check_connection(connection)
        devices = [device for device in self._found(connection, tiles) if device.numIpus == ipus]
        if criterion is DeviceSelectionCriterion.Random:
            random.Random(_SHUFFLE_SEED).shuffle(devices)
        # What the collector frees for the first is free for the others, too.
        for place, device in enumerate(devices):
            if connection is DeviceConnectionType.OnDemand or device.attached(collect=not place):
                return device, None
        return None, devices[-1].refusal if devices else None

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """A device as of `tryAcquireAvailableDevice`; popart_exception where none is free."""
        device, reason = self._acquired(numIpus, tilesPerIpu, connectionType, selectionCriterion)
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with {numIpus} IPUs. Ensure that there are sufficient "
                "IPUs available. If you have enabled the Poplar SDK you can check device "
                "availability with the `gc-monitor` command-line utility."
            ) from reason
        return device

    def tryAcquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo | None:
        """A certain device, attached if `connectionType` is ``Always``.

        Args:
            id: its number, as ``enumerateDevices`` and ``gc-info -l`` have it.
            pattern: how IPUs wait for one another; the IPU Model computes the same with all.
            connectionType: ``OnDemand`` for a device that ``prepareDevice`` attaches.

        Returns:
            None where it is not free.

        Raises:
            poplar_exception: there is no device of that number.
            popart_exception: `connectionType` is ``Never``.
            BackendUnavailableError: the V-IPU partition that the environment names cannot be seen.
        """
        return self._acquired_by_id(id, connectionType)[0]

    def _acquired_by_id(
        self, id: int, connection: DeviceConnectionType
    ) -> tuple[DeviceInfo | None, BackendUnavailableError | None]:
        _check_connection(connection)
        for device in self._found(connection, 0):
            if device.id == id:
                if connection is DeviceConnectionType.OnDemand or device.attach():
                    return device, None
                return None, device.refusal
        raise poplar_exception(f"No such device set id: '{id}'")

    def acquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """A device as of `tryAcquireDeviceById`; popart_exception where it is not free."""
        device, reason = self._acquired_by_id(id, connectionType)
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with id '{id}'. Ensure it is available. If you have "
                "enabled the Poplar SDK you can check device availability with the `gc-monitor` "
                "command-line utility."
            ) from reason
        return device

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """How long devices that are found from now on wait to be attached on demand.

        Args:
            attachTimeout: in seconds, 0 or more.
        """
        if attachTimeout < 0:
            raise popart_exception(f"attachTimeout is {attachTimeout}, expected 0 or more seconds")
        DeviceManager._attach_timeout = attachTimeout

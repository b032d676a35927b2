"""Devices: the IPU Model, the CPU and offline targets; hardware is Graphcore's SDK's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)

_TYPE_NAMES = {
    DeviceType.IpuModel: "ipu-model",
    DeviceType.Cpu: "cpu",
    DeviceType.Ipu: "ipu",
    DeviceType.OfflineIpu: "offline-ipu",
    DeviceType.Sim: "sim",
}
_TILES = {"ipu1": 1216, "ipu2": 1472, "ipu21": 1472}
_FEW_TILES = 4
_OPTIONS = {
    DeviceType.IpuModel: ("numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion"),
    DeviceType.Sim: ("numIPUs", "tilesPerIPU"),
    DeviceType.OfflineIpu: ("numIPUs", "tilesPerIPU", "ipuVersion", "syncPattern", "gatewayMode"),
}
_WORKER_CONTEXTS = 6


class DeviceInfo:
    """A device; as a context manager it detaches on exit."""

    def __init__(
        self,
        type: DeviceType,
        *,
        num_ipus: int = 1,
        tiles_per_ipu: int = _FEW_TILES,
        version: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._type = type
        self._num_ipus = num_ipus
        self._tiles = tiles_per_ipu
        self._version = version
        self._attached = False
        self.options = dict(options or {})

    @property
    def type(self) -> DeviceType:
        """What kind of device it is."""
        return self._type

    @property
    def connectionType(self) -> DeviceConnectionType:
        """When the device is attached."""
        offline = self._type is DeviceType.OfflineIpu
        return DeviceConnectionType.Never if offline else DeviceConnectionType.Always

    @property
    def version(self) -> str:
        """The version string; for a model, its IPU version."""
        return self._version

    @property
    def ipuVersion(self) -> str:
        """``ipu1``, ``ipu2`` or ``ipu21``."""
        return self._version

    @property
    def id(self) -> int:
        """The device's number; 0 for everything but hardware."""
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
        """Ids of the driver; empty without hardware."""
        return []

    @property
    def isAttached(self) -> bool:
        """Whether the device is attached."""
        return self._attached

    @property
    def numWorkerContexts(self) -> int:
        """Worker threads of a tile."""
        return 1 if self._type is DeviceType.Cpu else _WORKER_CONTEXTS

    def attach(self) -> bool:
        """Attaches; offline devices cannot be attached."""
        self._attached = self._type is not DeviceType.OfflineIpu
        return self._attached

    def tryAttachUntilTimeout(self) -> bool:
        """Attaches; nothing here has to be waited for."""
        return self.attach()

    def detach(self) -> None:
        """Detaches."""
        self._attached = False

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return (
            f"Device Type:{_TYPE_NAMES[self._type]} Connection Type:"
            f"{self.connectionType.name.lower()} Id:{self.id} Version:{self._version} "
            f"NumIPUs:{self._num_ipus} NumTilesPerIPU:{self._tiles} DeviceIds: {{}}"
        )


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


def _check_connection(connection: DeviceConnectionType) -> None:
    if connection is DeviceConnectionType.Never:
        raise popart_exception(
            "Trying to acquire a hardware device when connectionType is DeviceConnectionType::Never"
        )


class DeviceManager:
    """Makes devices. Hardware is only reached through Graphcore's SDK, so none is found here."""

    def createCpuDevice(self) -> DeviceInfo:
        """The host's processor."""
        return DeviceInfo(DeviceType.Cpu, tiles_per_ipu=1)

    def createIpuModelDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """An IPU Model; keys numIPUs, tilesPerIPU, compileIPUCode, ipuVersion."""
        return self._device(DeviceType.IpuModel, options, _FEW_TILES)

    def createSimDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """A simulated device; keys numIPUs, tilesPerIPU."""
        return self._device(DeviceType.Sim, options, _FEW_TILES)

    def createOfflineIPUDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """A target to compile for, which cannot run.

        Args:
            opts: keys numIPUs, tilesPerIPU, ipuVersion, syncPattern, gatewayMode.
        """
        tiles = _TILES.get(str(opts.get("ipuVersion")), _TILES["ipu2"])
        return self._device(DeviceType.OfflineIpu, opts, tiles)

    def _device(self, type: DeviceType, options: Mapping[str, Any], tiles: int) -> DeviceInfo:
        texts = _options(type, options)
        version = texts.get("ipuVersion", "ipu2")
        if version not in _TILES and not version.startswith("ipu:"):
            raise popart_exception(
                f"Unknown ipuVersion '{version}', expected {', '.join(_TILES)} or ipu:<file>"
            )
        return DeviceInfo(
            type,
            num_ipus=_count(texts, "numIPUs", 1),
            tiles_per_ipu=_count(texts, "tilesPerIPU", tiles),
            version=version,
            options=texts,
        )

    def createOfflineIpuFromDeviceInfo(self, deviceInfo: DeviceInfo) -> DeviceInfo:
        """An offline target like another device."""
        return DeviceInfo(
            DeviceType.OfflineIpu,
            num_ipus=deviceInfo.numIpus,
            tiles_per_ipu=deviceInfo.tilesPerIPU,
            version=deviceInfo.version,
        )

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """Hardware devices that can be acquired: none."""
        return []

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo | None:
        """None, as no hardware is found; a wrong number of IPUs raises."""
        if numIpus < 1 or numIpus & (numIpus - 1):
            raise popart_exception(
                f"You have attempted to acquire {numIpus} IPUs. The number of IPUs requested must "
                "be a power of two"
            )
        _check_connection(connectionType)
        return None

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """Fails: no hardware is found."""
        device = self.tryAcquireAvailableDevice(
            numIpus, tilesPerIpu, pattern, connectionType, selectionCriterion
        )
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with {numIpus} IPUs. Ensure that there are sufficient "
                "IPUs available. If you have enabled the Poplar SDK you can check device "
                "availability with the `gc-monitor` command-line utility."
            )
        return device

    def tryAcquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo | None:
        """None, as no hardware is found."""
        _check_connection(connectionType)
        return None

    def acquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """Fails: no hardware is found."""
        device = self.tryAcquireDeviceById(id, pattern, connectionType)
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with id '{id}'. Ensure it is available. If you have "
                "enabled the Poplar SDK you can check device availability with the `gc-monitor` "
                "command-line utility."
            )
        return device

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """How long to wait for hardware; nothing here has to be waited for."""
        if attachTimeout < 0:
            raise popart_exception(f"attachTimeout is {attachTimeout}, expected 0 or more seconds")

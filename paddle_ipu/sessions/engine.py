"""Whether a session can run: it is prepared, its engine loaded, and its device there."""

from __future__ import annotations

import logging

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.popart.enums import DeviceConnectionType, DeviceType
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.sessions.devices import DeviceInfo

_LOGGER = logging.getLogger("popart.devicex")

_NO_ENGINE = (
    "Trying to load an engine but no compiled engine. Did you forget to call prepareDevice()?"
)

_CALLS = {
    "run": "run(const IStepIO &)",
    "modelToHost": "weightsToHost(const std::map<TensorId, MutableVoidData> &)",
}
"""PopART's names of what a session calls, where they are not the session's own."""


class SessionEngine:
    """The engine of a session, which sets the attributes without a value."""

    _options: SessionOptions
    _device: DeviceInfo
    _prepared = False
    _is_loaded = False

    def loadEngineAndConnectStreams(self) -> None:
        """Attaches a device that is attached on demand; a compiled program is loaded by itself.

        Raises:
            popart_runtime_error: not prepared, an offline device, or IPUs that are in use or
                detached.
        """
        connection = self._device.connectionType
        if connection is DeviceConnectionType.Never:
            raise popart_runtime_error("Trying to load an engine on an offline device")
        if not self._prepared:
            raise popart_runtime_error(_NO_ENGINE)
        if connection is DeviceConnectionType.OnDemand and not self._device.tryAttachUntilTimeout():
            raise popart_runtime_error("Failed to attach to device") from self._device.refusal
        self._is_loaded = True
        self._require_attached()
        _LOGGER.info("Engine loaded")

    def _require_prepared(self, what: str) -> None:
        if not self._prepared:
            if not self._options.compileEngine:
                raise popart_runtime_error(f"{_NO_ENGINE} SessionOptions.compileEngine is False.")
            raise popart_runtime_error(
                "Devicex::prepare() must be called before Devicex::"
                f"{_CALLS.get(what, f'{what}()')} is called."
            )

    def _require_device(self, what: str) -> None:
        """Checks that the session is prepared and its device there; loads the engine if need be."""
        self._require_prepared(what)
        if self._device.connectionType is DeviceConnectionType.Never:
            raise popart_runtime_error("Offline IPU device is not configured for execution")
        if not self._is_loaded:
            self.loadEngineAndConnectStreams()
        self._require_attached()

    def _require_attached(self) -> None:
        device = self._device
        if device.type is DeviceType.Ipu and not device.isAttached:
            raise popart_runtime_error(
                f"The device of this session, id {device.id}, is not attached. Attach it again, or "
                "detach it after the last call that needs it"
            )

"""Which copy of a program's weights is the newest, and who copies it where.

A parameter has a copy in the Scope and one on the device of every program that was compiled with
it. Optimizer state has the same copies; large state is released from the Scope while a device has
it, as for Adam it is twice as large as the weights.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

import numpy as np

from paddle_ipu.errors import BackendUnavailableError
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.weights.state_binding import StateBinding
from paddle_ipu.runtime.weights.state_upload import (
    Kind,
    StateUpload,
    is_worth_releasing,
    kind_of,
)

Array = np.ndarray[Any, Any]
_Live = TypeVar("_Live")


class DeviceArrays(Protocol):
    """Weights and optimizer state of a session, by tensor id."""

    def upload(self, arrays: Mapping[str, Array]) -> None:
        """Copies arrays to the device; the others stay as they are."""

    def fetch(self, tensors: Collection[str] | None = None) -> None:
        """Takes a snapshot of these, None for all, that :meth:`read` copies from."""

    def read(self, tensor: str, into: Array) -> None:
        """Copies one tensor of the snapshot into an array."""

    def has_64_bits(self, tensor: str) -> bool:
        """Whether it is of 64-bit integers on the device."""


class DeviceCopy(Enum):
    """A device's copy of a program's variables, compared with all other copies."""

    SAME = auto()
    """The Scope has the same values."""
    NEWEST = auto()
    """A run has changed it, or is about to."""
    OUTDATED = auto()
    """Another device's is NEWEST; if none is, the Scope's values are newer."""
    UPLOADING = auto()
    """OUTDATED, with an upload under way, or interrupted."""


_BEHIND = frozenset({DeviceCopy.OUTDATED, DeviceCopy.UPLOADING})


class WeightOwner:
    """The owner of one program's variables: it alone copies them between Scope and device.

    *Sharing programs* are the live ones with any of its variables in the same Scope. Of these at
    most one is NEWEST. Each event is a method:

    ===================  =====================  ========================  =======================
    event                SAME                   NEWEST                    OUTDATED, UPLOADING
    ===================  =====================  ========================  =======================
    before_run,          SAME                   NEWEST                    sharing: sync_to_host;
    changes nothing                                                       upload -> SAME
    before_run,          sharing -> OUTDATED;   NEWEST                    sharing: sync_to_host;
    changes variables    -> NEWEST                                        upload; as SAME
    sync_to_host         released only; SAME    sharing -> OUTDATED;      released only; stays
                                                download -> SAME
    weights_to_host      download, if a run     as sync_to_host           sharing: sync_to_host;
                         changes any; SAME                                released only; OUTDATED
    weights_from_host    sharing -> OUTDATED; upload -> SAME, from every state
    scope_was_written    -> OUTDATED, from every state: the device's changes are discarded
    run_lost_weights     -> OUTDATED, from every state; released -> lost
    set_scope            sharing in the new Scope: sync_to_host, ->       if a sharing program is
                         OUTDATED; -> NEWEST                              NEWEST: sync_to_host,
                                                                          upload, as SAME; else
                                                                          stays
    compiled             SAME with the Scope that the program was compiled from; OUTDATED if a
                         sharing program is NEWEST
    close                as sync_to_host, and then no sharing program any more
    ===================  =====================  ========================  =======================

    *Upload* copies the Scope's variables to the device, *download* all of the device's to the
    Scope, *released only* those that the Scope lacks. An optimizer's variable is in one of three
    states: *kept* by the Scope; *released*, once it was uploaded and is large, until a download
    or a value written to the Scope; *lost*, if a failed run took it while it was released. Before
    an upload sharing programs download what they have released of it; what is lost, and is not in
    the Scope again, is refused then.

    A state changes to OUTDATED before a copy begins and to SAME after it ended, so that an
    exception in between leaves the newer copy known as such. Ctrl-C raises one anywhere.

    Args:
        scope: holds the variables.
        device: the other copy of them.
        weights: parameter -> weight tensor.
        states: variable of optimizer state -> what the device has for it.
        changes: whether a run changes any of them.
    """

    def __init__(
        self,
        scope: Any,
        device: DeviceArrays,
        weights: Mapping[str, str],
        states: Mapping[str, StateBinding],
        *,
        changes: bool,
    ) -> None:
        self.scope = scope
        self.changes = changes
        self.weights = dict(weights)
        self.variables = frozenset({*weights, *states})
        self._device = device
        self._states = dict(states)
        self._copy = DeviceCopy.SAME
        # Shape and dtype of what the Scope released.
        self._released: dict[str, Kind] = {}
        self._lost: tuple[str, ...] = ()
        self._has_layer = False
        _live.add(self)

    def compiled(self, early: StateUpload) -> None:
        """The device has the weights that the program was compiled with; uploads optimizer state.

        Args:
            early: what of the state is on the device already.
        """
        self._released = early.handed_over()
        if self._newest_elsewhere():
            self._copy = DeviceCopy.OUTDATED
        self._download_released_of_sharing()
        self._upload_states()

    # -- runs ----------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether a run may begin at once and changes nothing."""
        return self._copy is DeviceCopy.SAME and not self.changes

    def before_run(self) -> None:
        """Has the device hold the newest values for a run, which may change them.

        Raises:
            BackendUnavailableError: optimizer state was lost, and is not in the Scope again.
        """
        if self._copy is DeviceCopy.NEWEST:
            return
        if self._copy in _BEHIND:
            self._sync_sharing()
            self._upload()
        if self.changes:
            self._outdate_sharing()
            self._copy = DeviceCopy.NEWEST
            # Another thread's upload may have ended in between.
            self._outdate_sharing()

    def run_lost_weights(self) -> None:
        """A run failed and took the device's copy with it: the Scope's values are used again."""
        self._copy = DeviceCopy.OUTDATED
        self._lost = tuple(self._released)
        self._released.clear()

    # -- the Scope -----------------------------------------------------------------------------

    def scope_was_written(self) -> None:
        """Somebody wrote newer values to the Scope; the next run uploads them."""
        self._copy = DeviceCopy.OUTDATED

    def sync_to_host(self) -> None:
        """Has the Scope hold what is newer on this device, or nowhere else."""
        if self._copy is DeviceCopy.NEWEST:
            self._download_all()
        else:
            self._download_released()

    def weights_to_host(self) -> None:
        """Has the Scope hold the newest values, of sharing programs' optimizer state too.

        A program that changes nothing downloads nothing, except to a Scope of :meth:`set_scope`.
        """
        if self._copy in _BEHIND:
            self._sync_sharing()
        if self._copy is DeviceCopy.SAME and self.changes:
            self._download_all()
        else:
            self.sync_to_host()
        self._download_released_of_sharing()

    def weights_from_host(self) -> None:
        """Uploads the Scope's values; sharing programs do so before their next run.

        Raises:
            BackendUnavailableError: optimizer state was lost, and is not in the Scope again.
        """
        self._outdate_sharing()
        self._upload()

    def set_scope(self, scope: Any) -> None:
        """Changes the Scope, which is given the device's values by the next download."""
        if self._copy in _BEHIND and self._newest_elsewhere():
            self._sync_sharing()
            self._upload()
        if self._released:
            # The old Scope gets back what it released.
            self.sync_to_host()
        for other in owners(scope, self.variables):
            if other is not self:
                other.sync_to_host()
                other._copy = DeviceCopy.OUTDATED
        self.scope = scope
        if self._copy not in _BEHIND:
            self._copy = DeviceCopy.NEWEST

    def close(self) -> None:
        """The device is about to be gone: the Scope gets what is newer, or nowhere else."""
        self.sync_to_host()
        _live.discard(self)

    # -- a layer of dynamic mode ---------------------------------------------------------------

    def leave_weights_to_layer(self) -> None:
        """A layer's tensors are the Scope's weights; only optimizer state is synced to the Scope.

        The layer calls :meth:`upload_weights` and :meth:`download_weights`.
        """
        self._has_layer = True

    def upload_weights(self, names: Iterable[str]) -> None:
        """Uploads some weights, whatever the state of the device's copy."""
        self._device.upload(self._weights_for_device(names))

    def download_weights(self, names: Collection[str]) -> None:
        """Writes some weights to the Scope, in place; the device's copy stays in its state."""
        self._device.fetch([self.weights[name] for name in names])
        for name in names:
            found = self.scope.find_var(name).get_tensor()
            self._device.read(self.weights[name], scopes.writable(found))

    # -- sharing programs ----------------------------------------------------------------------

    def _sharing(self) -> list[WeightOwner]:
        return [other for other in owners(self.scope, self.variables) if other is not self]

    def _newest_elsewhere(self) -> bool:
        return any(other._copy is DeviceCopy.NEWEST for other in self._sharing())

    def _outdate_sharing(self) -> None:
        for other in self._sharing():
            other._copy = DeviceCopy.OUTDATED

    def _sync_sharing(self) -> None:
        for other in self._sharing():
            if other._copy is DeviceCopy.NEWEST:
                other.sync_to_host()

    def _download_released_of_sharing(self) -> None:
        for other in self._sharing():
            if not other._released.keys().isdisjoint(self._states):
                other.sync_to_host()

    # -- copies --------------------------------------------------------------------------------

    def _upload(self) -> None:
        self._copy = DeviceCopy.OUTDATED
        self._download_released_of_sharing()
        self._require_state()
        self._copy = DeviceCopy.UPLOADING
        self._device.upload(self._weights_for_device(self.weights))
        self._upload_states()
        # Another thread's run may have made it OUTDATED meanwhile, or begun before the upload.
        if self._copy is DeviceCopy.UPLOADING:
            behind = self._newest_elsewhere()
            self._copy = DeviceCopy.OUTDATED if behind else DeviceCopy.SAME

    def _require_state(self) -> None:
        lost = [name for name in self._lost if scopes.tensor(self.scope, name) is None]
        if lost:
            raise BackendUnavailableError(
                f"a run that failed took the optimizer's state with it ({', '.join(lost[:3])}"
                f"{', ...' if len(lost) > 3 else ''}). Run the startup program, load a checkpoint "
                "with paddle.static.load, and run again."
            )
        self._lost = ()

    def _weights_for_device(self, names: Iterable[str]) -> dict[str, Array]:
        arrays = {}
        for name, array in scopes.read(self.scope, names).items():
            tensor = self.weights[name]
            wide = array.dtype == np.int64 and self._device.has_64_bits(tensor)
            arrays[tensor] = scopes.narrowed(name, array, wide)
        return arrays

    def _upload_states(self) -> None:
        """Uploads the Scope's optimizer state, and releases what is large."""
        # One at a time, each released before the next: two copies of all may not fit.
        small = {}
        for name, binding in self._states.items():
            found = scopes.tensor(self.scope, name)
            if found is None:
                continue
            array = scopes.view(found)
            on_device = binding.to_device(array, self._scope_array)
            if on_device is None:
                continue
            if not is_worth_releasing(array):
                small[binding.tensor] = on_device
                continue
            self._device.upload({binding.tensor: on_device})
            self._released[name] = kind_of(array)
            del array, on_device
            found._clear()
        self._device.upload(small)

    def _download_all(self) -> None:
        sharing = self._sharing()
        if self._copy is DeviceCopy.NEWEST:
            self._outdate_sharing()
        self._device.fetch()
        # Weights first: some state is computed from them.
        for name in dict.fromkeys((*(() if self._has_layer else self.weights), *self._states)):
            variable = self.scope.find_var(name)
            if variable is None:
                continue
            found = variable.get_tensor()
            released_by = [owner for owner in (self, *sharing) if name in owner._released]
            if found._is_initialized():
                self._download(name, found, kind_of(scopes.view(found)))
            elif released_by:
                self._download(name, found, released_by[0]._released[name])
            for owner in released_by:
                del owner._released[name]
        if self._copy is DeviceCopy.NEWEST:
            self._copy = DeviceCopy.SAME

    def _download_released(self) -> None:
        if not self._released:
            return
        self._device.fetch()
        for name, kind in list(self._released.items()):
            variable = self.scope.find_var(name)
            if variable is None:
                continue
            found = variable.get_tensor()
            # Otherwise somebody wrote a newer value.
            if not found._is_initialized():
                self._download(name, found, kind)
            del self._released[name]

    def _download(self, name: str, found: Any, kind: Kind) -> None:
        """Copies one variable of the snapshot to its tensor in the Scope."""
        # One at a time: a second copy of a whole model may not fit.
        shape, dtype = kind
        binding = self._states.get(name)
        if binding is None:
            array = np.empty(shape, dtype)
            self._device.read(self.weights[name], array)
        else:
            array = binding.buffer(shape)
            self._device.read(binding.tensor, array)
            # Counts of the optimizer are whole numbers in the Scope only.
            array = binding.to_scope(array, self._scope_array).astype(dtype, copy=False)
        scopes.write(found, array.reshape(shape))

    def _scope_array(self, name: str) -> Array:
        return scopes.view(scopes.tensor(self.scope, name))


_live: weakref.WeakSet[WeightOwner] = weakref.WeakSet()


def members(live: weakref.WeakSet[_Live]) -> list[_Live]:
    """What is in a set that other threads change; without a lock, as finalizers call it too."""
    while True:
        try:
            return list(live)
        except RuntimeError:
            # Another thread compiled a program meanwhile.
            continue


def owners(scope: Any = None, names: Collection[str] | None = None) -> list[WeightOwner]:
    """Of the live programs.

    Args:
        scope: of those of this Scope, None for all.
        names: of those that have any of these variables, None for all.
    """
    return [
        owner
        for owner in members(_live)
        if (scope is None or owner.scope is scope)
        and (names is None or not owner.variables.isdisjoint(names))
    ]


def sync_to_host(scope: Any = None, names: Collection[str] | None = None) -> None:
    """Has Scopes hold what is newer on devices, or nowhere else; arguments as :func:`owners`."""
    for owner in owners(scope, names):
        owner.sync_to_host()


def restore_released() -> None:
    """Has Scopes hold the optimizer state again that they released."""
    for owner in owners():
        if owner._released:
            owner.sync_to_host()

"""The live sessions: a compiled program's device, and its weights to and from the Scope."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from paddle_ipu.errors import BackendUnavailableError, NotSupported
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime import target_selection
from paddle_ipu.runtime.weights.state_binding import StateBinding
from paddle_ipu.runtime.weights.state_upload import StateUpload, is_worth_releasing

Array = np.ndarray[Any, Any]

_live: weakref.WeakSet[IpuBackend]
_last: weakref.ref[IpuBackend] | None = None


class _Beside(threading.local):
    """How many blocks of :func:`last_program_stays` a thread is in."""

    depth = 0


_beside = _Beside()

_turn = 0
"""Counts how often a device got ahead of its Scope."""


class IpuBackend:
    """The device side of one compiled program.

    ``paddle.base.core.IpuBackend.get_instance()`` gives an object that speaks for the program
    compiled last; a program's own backend is its ``_backend``.
    """

    def __init__(self, strategy: Any = None) -> None:
        self._strategy = strategy
        self._scope: Any = None
        self._popart: Any = None
        self._session: Any = None
        self._device: Any = None
        self._builder: Any = None
        self._why_gone = "nothing was compiled with it"
        self._before_it_goes: list[Callable[[], object]] = []
        # Somebody else keeps the Scope's weights; only state is written there.
        self._state_only = False
        self._weights: Mapping[str, str] = {}
        self._states: Mapping[str, StateBinding] = {}
        self._changes = False
        self._stale = False
        # The `_turn` in which the device last got ahead of the Scope; 0 while it is not.
        self._ahead = 0
        # The `_turn` up to which what other programs trained is on this device.
        self._seen = 0
        # Optimizer state that the Scope was relieved of, shape and dtype by name: for Adam it is
        # twice as large as the weights. `weights_to_host` brings it back, and so does whatever
        # reads the Scope through Paddle's API (`paddle.static.save`, another program's run).
        self._released: dict[str, tuple[tuple[int, ...], Any]] = {}
        # Of these, what a run that failed took with it.
        self._lost: tuple[str, ...] = ()

    @staticmethod
    def get_instance() -> LastBackend:
        """An object that speaks for the program compiled last."""
        return LastBackend()

    # -- used by the compiler and the executor -------------------------------------------------

    def attach(
        self,
        popart: Any,
        session: Any,
        device: Any,
        builder: Any,
        scope: Any,
        weights: Mapping[str, str],
        states: Mapping[str, StateBinding],
        *,
        changes: bool,
        compiled: bool = True,
        early: StateUpload | None = None,
    ) -> None:
        """Takes a prepared session and puts the scope's values on its device.

        Args:
            popart: the module the session is of.
            session: prepared, weights not uploaded yet.
            device: what the session runs on.
            builder: the builder that holds its program.
            scope: where weights are read from and written to.
            weights: parameter name -> weight tensor.
            states: variables of optimizer state -> what the device has for them.
            changes: a run changes weights: it trains them, or the program writes to them.
            compiled: the session can run; else its device is given nothing.
            early: what of the state is on the device already.
        """
        global _last
        self._changes = changes and compiled
        self._popart, self._builder = popart, builder
        self._session, self._device = session, device
        self._scope, self._weights, self._states = scope, dict(weights), dict(states)
        if compiled:
            # The program's initialisers are the scope's weights.
            session.weightsFromHost()
            if early is not None:
                self._released = early.handed_over()
            self._have_states_given_back()
            self._states_from_host()
        _live.add(self)
        if not _beside.depth:
            _last = weakref.ref(self)

    @property
    def session(self) -> Any:
        """The live session, for a run: the device is ahead of the scope then if it changes weights.

        Raises:
            BackendUnavailableError: the backend was reset or detached.
        """
        self._require_session()
        if self._seen != _turn:
            self._take_what_others_trained()
        if self._stale:
            self._take_the_scopes()
        if self._changes:
            self._ahead = self._seen = _next_turn()
        return self._session

    @property
    def session_as_is(self) -> Any:
        """The live session, for looking at it: weights are not exchanged with the scope.

        Raises:
            BackendUnavailableError: the backend was reset or detached.
        """
        self._require_session()
        return self._session

    def _sharing(self) -> list[IpuBackend]:
        """The other backends with weights of this one in the same Scope."""
        return [
            other
            for other in live_backends()
            if other is not self
            and other._scope is self._scope
            and not self._weights.keys().isdisjoint(other._weights)
        ]

    def _take_what_others_trained(self) -> None:
        """Programs that share variables in one Scope share their values, as on the CPU.

        What another writes to the Scope makes this one stale.
        """
        newer = [other for other in self._sharing() if other.ahead > self._seen]
        for other in sorted(newer, key=lambda backend: backend.ahead):
            other.update_scope()
        self._seen = _turn

    def _have_states_given_back(self) -> None:
        """Puts into the Scope what others hold of this one's optimizer state."""
        for other in self._sharing():
            if not other._released.keys().isdisjoint(self._states):
                # Weights that it writes are newer than those this program was compiled with.
                self._stale = self._stale or other.ahead > 0
                other.update_scope()

    def _require_session(self) -> None:
        if self._session is None:
            raise BackendUnavailableError(
                f"this compiled program has no device: {self._why_gone}. Compile the program again."
            )

    @property
    def evaluates(self) -> bool:
        """True while the strategy has ``runtime_options.enable_eval``, which any run may change."""
        if self._strategy is None:
            return False
        return bool(self._strategy.get_option("runtime_options.enable_eval")["value"])

    def loss_scale(self, variable: str) -> float:
        """The scale that automatic loss scaling has come to, which `variable` keeps."""
        self.update_scope()
        return float(scopes.read(self._scope, [variable])[variable][0])

    @property
    def changes(self) -> bool:
        """Whether a run changes weights or other variables."""
        return self._changes

    @property
    def is_current(self) -> bool:
        """True while runs change no weights and the next one finds its weights on the device."""
        return not (self._changes or self._stale or self._seen != _turn)

    @property
    def is_attached(self) -> bool:
        """True from :meth:`attach` until the backend is reset or detached."""
        return self._session is not None

    def mark_stale(self) -> None:
        """Says that the scope holds newer weights than the device; the next run takes them."""
        self._stale = True

    def mark_lost(self) -> None:
        """Says that a failed run took the device's weights with it; the next has the Scope's."""
        self._stale, self._ahead = True, 0
        self._lost = tuple(self._released)
        self._released.clear()

    def weights_from_host(self) -> None:
        """Puts the scope's weights and optimizer state on the device.

        Other programs with variables of it take them with their next run.

        Raises:
            BackendUnavailableError: a run that failed took optimizer state with it that the scope
                has not.
        """
        for other in self._sharing():
            other.mark_stale()
        self._take_the_scopes()

    def _take_the_scopes(self) -> None:
        # Until all is there the Scope stays the newer side, whatever comes between.
        self._stale, self._ahead = True, 0
        self._have_states_given_back()
        self._require_state()
        weights = scopes.read(self._scope, self._weights)
        self._send(self._on_device(weights))
        self._states_from_host()
        self._stale = False

    def _require_state(self) -> None:
        lost = [name for name in self._lost if scopes.tensor(self._scope, name) is None]
        if lost:
            raise BackendUnavailableError(
                f"a run that failed took the optimizer's state with it ({', '.join(lost[:3])}"
                f"{', ...' if len(lost) > 3 else ''}). Run the startup program, load a checkpoint "
                "with paddle.static.load, and run again."
            )
        self._lost = ()

    def _states_from_host(self) -> None:
        # Large ones one at a time, each let go before the next: two copies of all may not fit.
        small = {}
        for name, binding in self._states.items():
            found = scopes.tensor(self._scope, name)
            if found is None:
                continue
            array = scopes.view(found)
            sent = binding.sent(array, self._variable)
            if sent is None:
                continue
            if not is_worth_releasing(array):
                small[binding.tensor] = sent
                continue
            self._send({binding.tensor: sent})
            self._released[name] = (array.shape, array.dtype)
            del array, sent
            found._clear()
        self._send(small)

    def _variable(self, name: str) -> Array:
        return scopes.view(scopes.tensor(self._scope, name))

    def _send(self, arrays: Mapping[str, Array]) -> None:
        self._session.writeWeights(self._popart.PyWeightsIO(arrays))
        self._session.weightsFromHost()

    def __del__(self) -> None:
        if sys.is_finalizing() or self._session is None:
            return
        ours = target_selection.is_ours(self._popart)
        # Python ignores what a signal's handler raises here, and half of the weights would be lost.
        with self._session.uninterrupted() if ours else nullcontext():
            self._leave()

    def _leave(self) -> None:
        """Leaves in the Scope what was trained and what the Scope was relieved of.

        However a program ends: what it trained must not depend on when Python drops it.
        """
        if self._session is not None:
            self.update_scope()

    @property
    def ahead(self) -> int:
        """Grows with each time the device got ahead of the Scope; 0 while it is not."""
        return self._ahead

    @property
    def scope(self) -> Any:
        """Where the weights are read from and written to."""
        return self._scope

    @property
    def variables(self) -> set[str]:
        """Names of the weights and of the optimizer's state in the scope."""
        return {*self._weights, *self._states}

    @property
    def holds_state(self) -> bool:
        """True while optimizer state is on the device only."""
        return bool(self._released)

    # -- Paddle's interface --------------------------------------------------------------------

    def weights_to_host(self) -> None:
        """Writes weights and optimizer state from the device into the Scope.

        A program that changes none has none to write, but into a Scope of ``set_scope``.
        """
        self._require_session()
        if self._seen != _turn:
            self._take_what_others_trained()
        self._write(everything=self._changes or self._ahead > 0)
        self._have_states_given_back()

    def update_scope(self) -> None:
        """Does what ``weights_to_host`` does, as far as the device is ahead of the Scope."""
        self._require_session()
        self._write(everything=self._ahead > 0)

    def send_weights(self, names: Iterable[str]) -> None:
        """Puts some of the scope's weights on the device, which keeps the others and the state."""
        self._require_session()
        weights = scopes.read(self._scope, names)
        self._send(self._on_device(weights))

    def _on_device(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """PopART tensor -> the value of a weight in the type that it has on the device."""
        found = {}
        for name, array in weights.items():
            tensor = self._weights[name]
            wide = array.dtype == np.int64 and self.has_64_bits(tensor)
            found[tensor] = scopes.narrowed(name, array, wide)
        return found

    def has_64_bits(self, tensor: str) -> bool:
        """Whether a PopART tensor has integers of 64 bits on the device, as on the hardware none
        has."""
        if not target_selection.is_ours(self._popart):
            return False
        return bool(self._session.getInfo(tensor).data_type() == "INT64")

    def keep_weights_out(self) -> None:
        """Leaves weights to :meth:`send_weights` and :meth:`receive_weights`: no other exchange.

        They are then in a Scope that shares them with somebody who writes them.
        """
        self._state_only = True

    def receive_weights(self, names: Collection[str]) -> None:
        """Writes some of the device's weights into the scope; the device stays ahead of it."""
        self._require_session()
        if target_selection.is_ours(self._popart):
            self._session.someWeightsToHost([self._weights[name] for name in names])
        else:
            self._session.weightsToHost()
        for name in names:
            received = scopes.writable(self._scope.find_var(name).get_tensor())
            self._session.readWeights(self._popart.PyWeightsIO({self._weights[name]: received}))

    def share_weights(self, other: IpuBackend) -> None:
        """Has both devices keep one copy of the weights that both programs only read.

        Args:
            other: of a program with the same parameters, in the same Scope.
        """
        self._require_session()
        if self._changes or other._changes or not target_selection.is_ours(self._popart):
            return
        pairs = {
            tensor: other._weights[name]
            for name, tensor in self._weights.items()
            if name in other._weights
        }
        self._session.shareWeights(other.session_as_is, pairs)

    def discard_changes(self) -> None:
        """Has the next run begin from the scope's weights, whatever the last one has changed."""
        self._stale, self._ahead = True, 0

    def _write(self, everything: bool) -> None:
        # Where it is stale, the scope is the newer side, and is given only what it lacks.
        everything = everything and not self._stale
        if not (everything or self._released):
            return
        sharing = self._sharing() if everything else []
        if self._ahead:
            for other in sharing:
                other.mark_stale()
        session = self._session
        session.weightsToHost()
        # One at a time: a second copy of a whole model may not fit.
        # Weights come first: some state is told from them.
        weights = {name: StateBinding(tensor) for name, tensor in self._weights.items()}
        bindings = {**({} if self._state_only else weights), **self._states}
        for name, binding in bindings.items():
            if not everything and name not in self._released:
                continue
            variable = self._scope.find_var(name)
            if variable is None:
                continue
            found = variable.get_tensor()
            holders = [one for one in (self, *sharing) if name in one._released]
            if found._is_initialized():
                if not everything:
                    # Another program wrote it since.
                    del self._released[name]
                    continue
                array = np.empty_like(scopes.view(found))
            elif holders:
                array = np.empty(*holders[0]._released[name])
            else:
                continue
            received = binding.received(array.shape) if name in self._states else array
            session.readWeights(self._popart.PyWeightsIO({binding.tensor: received}))
            if name in self._states:
                # Counts of the optimizer are whole numbers in the scope only.
                received = binding.kept(received, self._variable).astype(array.dtype, copy=False)
            scopes.write(found, received.reshape(array.shape))
            for holder in holders:
                del holder._released[name]
        # It is the newer side until all is written, whatever comes between.
        self._ahead = 0

    def detach(self) -> None:
        """Gives the device back; the compiled program cannot run any more.

        What it trained is in the Scope then.
        """
        self._drop("its device was detached")

    def reset(self) -> None:
        """Drops session and device; the compiled program cannot run any more.

        What it trained is in the Scope then.
        """
        self._drop("it was reset")

    def before_it_goes(self, act: Callable[[], object]) -> None:
        """Has ``act()`` called, with others, before a reset or detachment takes the device."""
        self._before_it_goes.append(act)

    def _drop(self, why: str) -> None:
        if self._session is not None:
            for act in self._before_it_goes:
                act()
            self._leave()
            self._device.detach()
        self._session, self._device, self._builder = None, None, None
        self._why_gone = why

    def set_scope(self, scope: Any) -> None:
        """Changes the Scope that weights are written to."""
        if self._released:
            # What the old Scope was relieved of is its own again.
            self.update_scope()
        self._scope = scope
        self._ahead = _next_turn()

    def set_ipu_strategy(self, strategy: Any) -> None:
        """Takes the strategy the program was compiled with, which it has already.

        Args:
            strategy: a ``paddle.static.IpuStrategy`` or its core object.

        Raises:
            NotSupported: it is another one.
        """
        if getattr(strategy, "_ipu_strategy", strategy) is not self._strategy:
            raise NotSupported(
                "IpuBackend.set_ipu_strategy cannot change a compiled program: pass the strategy "
                "to IpuCompiledProgram(program, ipu_strategy=...) and compile."
            )

    def save_model_proto(self, path: str | os.PathLike[str]) -> None:
        """Writes the PopART program as an ONNX file; after training with the trained weights."""
        self.weights_to_host()
        self._builder.saveModelProto(os.fspath(path))


class LastBackend:
    """What ``IpuBackend.get_instance()`` returns: the program compiled last, whichever it is.

    ``reset`` and ``detach`` are for all live programs, as one process had one session upstream.
    """

    def _backend(self) -> IpuBackend:
        backend = None if _last is None else _last()
        if backend is None:
            raise BackendUnavailableError(
                "no compiled program is alive: compile one with IpuCompiledProgram first, and keep "
                "the object that compile returned."
            )
        return backend

    def weights_to_host(self) -> None:
        """Writes weights and optimizer state into the Scope."""
        self._backend().weights_to_host()

    def set_scope(self, scope: Any) -> None:
        """Changes the Scope that weights are written to."""
        self._backend().set_scope(scope)

    def set_ipu_strategy(self, strategy: Any) -> None:
        """Takes the strategy that program was compiled with, refuses another."""
        self._backend().set_ipu_strategy(strategy)

    def save_model_proto(self, path: str | os.PathLike[str]) -> None:
        """Writes the PopART program as an ONNX file."""
        self._backend().save_model_proto(path)

    def detach(self) -> None:
        """Detaches every live program."""
        for backend in _all():
            backend.detach()

    def reset(self) -> None:
        """Resets every live program."""
        for backend in _all():
            backend.reset()


_live = weakref.WeakSet()


def _all() -> list[IpuBackend]:
    """Every backend. No lock: a finaliser calls this too, wherever it comes between."""
    while True:
        try:
            return list(_live)
        except RuntimeError:
            # Another thread compiled a program meanwhile.
            continue


def _next_turn() -> int:
    global _turn
    _turn += 1
    return _turn


@contextmanager
def last_program_stays() -> Iterator[None]:
    """Has ``IpuBackend.get_instance()`` not speak for what this thread compiles in the block."""
    _beside.depth += 1
    try:
        yield
    finally:
        _beside.depth -= 1


def restore_state() -> None:
    """Brings optimizer state that is on devices only back to their Scopes."""
    for backend in _all():
        if backend.holds_state:
            backend.update_scope()


def live_backends() -> list[IpuBackend]:
    """The backends of every compiled program that is alive and not reset."""
    return [backend for backend in _all() if backend.is_attached]


def has_other_owner(scope: Any, names: Collection[str]) -> bool:
    """Whether a live program has any of these variables of the scope on its device."""
    return any(b.scope is scope and not b.variables.isdisjoint(names) for b in live_backends())


def update_scopes() -> None:
    """Writes what devices hold newer than their Scopes; the program run last has the last word."""
    for backend in sorted(live_backends(), key=lambda backend: backend.ahead):
        backend.update_scope()

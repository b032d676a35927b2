"""A compiled program's session and device, by the interface of Paddle's ``IpuBackend``."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from paddle_ipu.errors import BackendUnavailableError, NotSupported
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime import target_selection
from paddle_ipu.runtime.weights.owner import WeightOwner, members
from paddle_ipu.runtime.weights.state_binding import StateBinding
from paddle_ipu.runtime.weights.state_upload import StateUpload

Array = np.ndarray[Any, Any]


class _Blocks(threading.local):
    """How many blocks of :func:`last_program_stays` a thread is in."""

    depth = 0


_blocks = _Blocks()
_last: weakref.ref[IpuBackend] | None = None


class IpuBackend:
    """The session and the device of one compiled program.

    ``paddle.base.core.IpuBackend.get_instance()`` gives an object that stands for the program
    compiled last; a program's own is its ``backend``.
    """

    def __init__(self, strategy: Any = None) -> None:
        self._strategy = strategy
        self._popart: Any = None
        self._session: Any = None
        self._device: Any = None
        self._builder: Any = None
        self._owner: WeightOwner | None = None
        self._why_unavailable = "nothing was compiled with it"
        self._on_close: list[Callable[[], object]] = []

    @staticmethod
    def get_instance() -> LastBackend:
        """An object that stands for the program compiled last."""
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
        early: StateUpload | None,
    ) -> None:
        """Takes a prepared session and uploads the Scope's values.

        Args:
            popart: the module the session is of.
            session: prepared, weights not uploaded yet.
            device: what the session runs on.
            builder: the builder that holds its program.
            scope: where weights are read from and written to.
            weights: parameter name -> weight tensor.
            states: variables of optimizer state -> what the device has for them.
            changes: a run changes weights: it trains them, or the program writes to them.
            early: the state that is on the device already; None if the session is not compiled,
                and nothing is uploaded.
        """
        global _last
        arrays = _SessionArrays(popart, session)
        is_compiled = early is not None
        self._owner = WeightOwner(scope, arrays, weights, states, changes=changes and is_compiled)
        self._popart, self._builder = popart, builder
        self._session, self._device = session, device
        if early is not None:
            # The program's initialisers are the Scope's weights.
            session.weightsFromHost()
            self._owner.compiled(early)
        _live.add(self)
        if not _blocks.depth:
            _last = weakref.ref(self)

    @property
    def is_attached(self) -> bool:
        """True from :meth:`attach` until the backend is reset or detached."""
        return self._session is not None

    @property
    def session(self) -> Any:
        """The live session; a run of it begins with ``owner.before_run``.

        Raises:
            BackendUnavailableError: the backend was reset or detached.
        """
        self.require_attached()
        return self._session

    @property
    def owner(self) -> WeightOwner:
        """What copies the program's weights between Scope and device.

        Raises:
            BackendUnavailableError: the backend was reset or detached.
        """
        self.require_attached()
        assert self._owner is not None
        return self._owner

    def require_attached(self) -> None:
        """Raises BackendUnavailableError, which says why, where there is no session."""
        if self._session is None:
            raise BackendUnavailableError(
                f"this compiled program has no device: {self._why_unavailable}. Compile the "
                "program again."
            )

    @property
    def evaluates(self) -> bool:
        """True while the strategy has ``runtime_options.enable_eval``, which any run may change."""
        if self._strategy is None:
            return False
        return bool(self._strategy.get_option("runtime_options.enable_eval")["value"])

    def loss_scale(self, variable: str) -> float:
        """The scale that automatic loss scaling has come to, which `variable` keeps."""
        owner = self.owner
        owner.sync_to_host()
        return float(scopes.read(owner.scope, [variable])[variable][0])

    def has_64_bits(self, tensor: str) -> bool:
        """Whether a PopART tensor has integers of 64 bits, as it may on the IPU Model only."""
        return _SessionArrays(self._popart, self.session).has_64_bits(tensor)

    def uninterrupted(self) -> AbstractContextManager[Any]:
        """A block that Python's handlers of SIGINT and SIGTERM wait for the end of."""
        if not target_selection.is_ours(self._popart):
            return nullcontext()
        found: AbstractContextManager[Any] = self.session.uninterrupted()
        return found

    def share_weights(self, other: IpuBackend) -> None:
        """Has both devices keep one copy of the weights that both programs only read.

        Args:
            other: of a program with the same parameters, in the same Scope.
        """
        own, others = self.owner, other.owner
        if own.changes or others.changes or not target_selection.is_ours(self._popart):
            return
        pairs = {
            tensor: others.weights[name]
            for name, tensor in own.weights.items()
            if name in others.weights
        }
        self.session.shareWeights(other.session, pairs)

    def on_close(self, act: Callable[[], object]) -> None:
        """Has ``act()`` called, after others, before a reset or detachment closes the device."""
        self._on_close.append(act)

    # At the end of Python, `sys` is gone from this module before the last objects are.
    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if _is_finalizing() or self._session is None:
            return
        # Python ignores what a signal's handler raises here, and half of the weights would be lost.
        with self.uninterrupted():
            self.owner.close()

    # -- Paddle's interface --------------------------------------------------------------------

    def weights_to_host(self) -> None:
        """Writes weights and optimizer state from the device into the Scope.

        A program that changes none has none to write, but into a Scope of ``set_scope``.
        """
        self.owner.weights_to_host()

    def weights_from_host(self) -> None:
        """Uploads the Scope's weights and optimizer state.

        Other programs with variables of it upload them before their next run.

        Raises:
            BackendUnavailableError: a run that failed took optimizer state with it that the Scope
                has not.
        """
        self.owner.weights_from_host()

    def detach(self) -> None:
        """Gives the device back; the compiled program cannot run any more.

        What it trained is in the Scope then.
        """
        self._close("its device was detached")

    def reset(self) -> None:
        """Drops session and device; the compiled program cannot run any more.

        What it trained is in the Scope then.
        """
        self._close("it was reset")

    def _close(self, why: str) -> None:
        if self._session is not None:
            for act in self._on_close:
                act()
            self.owner.close()
            self._device.detach()
        self._session, self._device, self._builder, self._owner = None, None, None, None
        self._why_unavailable = why

    def set_scope(self, scope: Any) -> None:
        """Changes the Scope that weights are written to."""
        self.owner.set_scope(scope)

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


class _SessionArrays:
    """A session's weights and optimizer state, for their owner."""

    def __init__(self, popart: Any, session: Any) -> None:
        self._popart = popart
        self._session = session
        self._is_ours = target_selection.is_ours(popart)

    def upload(self, arrays: Mapping[str, Array]) -> None:
        self._session.writeWeights(self._popart.PyWeightsIO(arrays))
        self._session.weightsFromHost()

    def fetch(self, tensors: Collection[str] | None = None) -> None:
        if tensors is not None and self._is_ours:
            self._session.someWeightsToHost(tensors)
        else:
            self._session.weightsToHost()

    def read(self, tensor: str, into: Array) -> None:
        self._session.readWeights(self._popart.PyWeightsIO({tensor: into}))

    def has_64_bits(self, tensor: str) -> bool:
        return self._is_ours and bool(self._session.getInfo(tensor).data_type() == "INT64")


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
        for backend in members(_live):
            backend.detach()

    def reset(self) -> None:
        """Resets every live program."""
        for backend in members(_live):
            backend.reset()


_live: weakref.WeakSet[IpuBackend] = weakref.WeakSet()


@contextmanager
def last_program_stays() -> Iterator[None]:
    """Has ``IpuBackend.get_instance()`` not stand for what this thread compiles in the block."""
    _blocks.depth += 1
    try:
        yield
    finally:
        _blocks.depth -= 1

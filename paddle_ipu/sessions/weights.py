"""A session's weights and optimizer state, on the host and on the device.

The host's values are those of the model, until ``weightsToHost`` or ``writeWeights`` replaces them,
and ``weightsFromHost`` uploads them. A second copy of a model may not fit, so two kinds of host
values are released: those of ``writeWeights``, once they are on the device, and those that
``weightsToHost`` fetched, once they were read and the next run begins.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.enums import SyntheticDataMode
from paddle_ipu.popart.external_data import Place, moved, places_beside, places_of
from paddle_ipu.popart.graph_types import write_model
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.program import load_model, model_with, states_beside
from paddle_ipu.popart.stepio import PyWeightsIO, require_fit
from paddle_ipu.popart.wide_integers import narrowed
from paddle_ipu.sessions.engine import SessionEngine

if TYPE_CHECKING:
    from paddle_ipu.xla.step.executable import Executable

Array = np.ndarray[Any, Any]


class SessionWeights(SessionEngine):
    """Weights and state of a session, which sets the attributes without a value."""

    _model: ir.Model
    _graph: ir.Graph
    _options: SessionOptions
    _loss: str | None
    _executable: Executable

    def __init__(self) -> None:
        self._host: dict[str, npt.ArrayLike] = {
            name: value.const_value.numpy()
            for name, value in self._graph.initializers.items()
            if value.const_value is not None
        }
        self._places = places_of(self._graph)
        # Names of host values: equal to the device's; of the last snapshot, and of these those
        # copied out of the device's memory and those read; replaced by writeWeights.
        self._same_on_device: set[str] = set()
        self._fetched: set[str] = set()
        self._copied: set[str] = set()
        self._read: set[str] = set()
        self._written: set[str] = set()
        # State that the host has had; other state has its initial value there.
        self._known_state: set[str] = set()
        self._uploaded = False
        self._release_lock = threading.Lock()

    def weightsFromHost(self) -> None:
        """Uploads the host's weights and optimizer state to the device."""
        self._require_device("weightsFromHost")
        executable = self._executable
        kinds = executable.program.weights
        names = [name for name in self._host if name not in self._same_on_device]
        states = [name for name in names if name not in kinds and executable.has_state(name)]
        executable.upload(
            {n: self._host_array(n, *executable.program.given(n)) for n in names if n in kinds},
            {n: self._host_array(n, *executable.state_kind(n)) for n in states},
        )
        self._known_state.update(states)
        executable.reset_state(keep=self._known_state)
        self._same_on_device.update(names)
        for name in () if self._synthetic else self._written:
            del self._host[name]
        self._written = set()
        self._uploaded = True

    def sendState(self, name: str, array: Array) -> None:
        """Uploads optimizer state at once, even before the step is compiled; PopART has none.

        ``weightsFromHost`` then leaves it there.

        Args:
            name: of the state tensor.
            array: as many elements as it has, of its dtype.

        Raises:
            popart_runtime_error: no such state, or an array of another size or type.
        """
        if not self._executable.has_state(name):
            raise popart_runtime_error(f"sendState, no optimizer state '{name}'")
        shape, dtype = self._executable.state_kind(name)
        require_fit("send", name, array, shape, np.dtype(dtype))
        self._executable.upload({}, {name: array.reshape(shape)})
        self._known_state.add(name)

    def sentState(self, name: str) -> Array:
        """State that :meth:`sendState` sent, as long as no run has begun."""
        return np.asarray(self._executable.state[name])

    def _changed_by_runs(self) -> set[str]:
        program, names = self._executable.program, self._executable.state_names
        trained = () if program.updater is None else (*program.updater.weights, *names)
        return {*trained, *program.writes}

    def _host_array(self, name: str, shape: tuple[int, ...], dtype: str) -> Array:
        initializer = self._graph.initializers.get(name)
        return narrowed(self._given(name), dtype, initializer).reshape(shape)

    def _given(self, name: str) -> Array:
        """A host's array as it is uploaded and saved, of a snapshot too."""
        array = np.asarray(self._host[name])
        return self._executable.given(name, array) if name in self._fetched else array

    def weightsToHost(self) -> None:
        """Takes a snapshot of weights and optimizer state for ``readWeights``.

        Raises:
            popart_runtime_error: the device has no weights yet.
        """
        self._require_device("weightsToHost")
        self._require_weights("weightsToHost")
        executable = self._executable
        executable.upload_initial_state()
        snapshot = {**executable.host_weights, **executable.state}
        # What was trained on synthetic data does not leave the device.
        kept = self._host if self._synthetic else {}
        self._host.update({name: array for name, array in snapshot.items() if name not in kept})
        self._fetched = set(snapshot)
        self._copied = set()
        self._same_on_device = set(snapshot)
        self._known_state.update(executable.state)
        self._read, self._written = set(), set()

    def someWeightsToHost(self, names: Collection[str]) -> None:
        """``weightsToHost`` for some weights, which ``readWeights`` then reads; PopART has none.

        With the optimizer's state, a snapshot is three times as large.

        Args:
            names: of the weights.

        Raises:
            popart_runtime_error: the device has no weights yet.
        """
        self._require_device("weightsToHost")
        self._require_weights("weightsToHost")
        weights = self._executable.host_weights
        if not self._synthetic:
            self._host.update({name: weights[name] for name in names})
        self._fetched.update(names)
        self._same_on_device.update(names)
        self._copied.difference_update(names)
        self._read.difference_update(names)
        self._written.difference_update(names)

    def hasLostWeights(self) -> bool:
        """Whether a run that failed took the device's weights with it; PopART has none."""
        return bool(self._executable.has_lost_weights)

    def shareWeights(self, other: SessionWeights, names: Mapping[str, str]) -> None:
        """Takes another session's arrays for weights of the same shape and type; PopART has none.

        Args:
            other: prepared, with its weights on the device; its runs do not change them.
            names: weight of this session -> weight of the other one.
        """
        self._require_weights("shareWeights")
        other._require_weights("shareWeights")
        self._executable.share(other._executable, names)

    def _require_weights(self, what: str) -> None:
        if self._uploaded:
            return
        if self._loss is not None and self._graph.initializers:
            raise popart_runtime_error(
                f"Must call weightsFromHost before {what} as the model has initializers and the "
                "session has been created in training mode"
            )
        self.weightsFromHost()

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copies the snapshot into the arrays of a ``PyWeightsIO``.

        The next ``run`` drops what was read; call ``weightsToHost`` to read it again.

        Raises:
            popart_runtime_error: no such tensor in a snapshot, or an array of another size or type.
        """
        for name, array in weightsIo.weights.items():
            if name not in self._fetched:
                raise popart_runtime_error(
                    f"readWeights, no tensor '{name}' in tensors; call weightsToHost first"
                )
            source = np.asarray(self._host[name])
            require_fit("read", name, array, source.shape, source.dtype)
            np.copyto(array, source.reshape(array.shape), casting="same_kind")
            self._read.add(name)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Replaces the host's values; ``weightsFromHost`` then uploads them.

        The arrays are kept by reference until then.

        Raises:
            popart_exception: an inference session with ``constantWeights``.
            popart_runtime_error: no such tensor, or an array of another size or type.
        """
        self._refuse_constant_weights("writeWeights")
        for name, array in weightsIo.weights.items():
            self._replace(name, array)
            self._written.add(name)

    def resetHostWeights(
        self,
        modelProtoOrFilename: bytes | str,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Replaces the host's values by a model's; ``weightsFromHost`` is needed before a run.

        Args:
            modelProtoOrFilename: a serialised model, or the name of a file.
            ignoreWeightsInModelWithoutCorrespondingHostWeight: skip tensors that this session does
                not have.

        Raises:
            popart_exception: an inference session with ``constantWeights``.
            popart_runtime_error: a tensor that this session does not have, or of another type.
        """
        self._refuse_constant_weights("resetHostWeights")
        model = load_model(modelProtoOrFilename, None, self._options.getGlobalReplicationFactor())
        for name, value in model.graph.initializers.items():
            known = name in self._executable.program.weights or self._executable.has_state(name)
            if not known and ignoreWeightsInModelWithoutCorrespondingHostWeight:
                continue
            assert value.const_value is not None
            self._replace(name, value.const_value.numpy())
            self._written.discard(name)
        self._uploaded = False

    def _refuse_constant_weights(self, what: str) -> None:
        if self._loss is None and self._options.constantWeights:
            raise popart_exception(
                f"Cannot call {what} when constantWeights is set. Set "
                "SessionOptions.constantWeights to False to change the weights of an inference "
                "session"
            )

    def _replace(self, name: str, array: Array) -> None:
        program, has_state = self._executable.program, self._executable.has_state(name)
        if name not in program.weights and not has_state:
            raise popart_runtime_error(f"resetWeights, no tensor '{name}' in tensors")
        shape, dtype = self._executable.state_kind(name) if has_state else program.given(name)
        require_fit("reset", name, array, shape, np.dtype(dtype))
        self._host[name] = array
        self._same_on_device.discard(name)
        self._fetched.discard(name)

    def modelToHost(self, filename: str) -> None:
        """Writes the program with the device's weights and optimizer state as an ONNX file.

        It takes a snapshot as ``weightsToHost`` does, which ``weightsFromHost`` uploads again.
        Weights that this process moved to a file of their own are rewritten there, and optimizer
        state is beside them; those that are too many for one file go to ``<filename>.data``.

        Raises:
            popart_exception: the weights' own file is not where the model says, as a relative name
                in another working folder.
        """
        self._require_device("modelToHost")
        self._require_weights("modelToHost")
        self.weightsToHost()
        arrays = {name: self._given(name) for name in self._fetched}
        write_model(model_with(self._model, arrays, self._own_places(arrays)), filename)

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Has ``modelToHost`` write weights of one file to another, which begins as a copy.

        Args:
            fromLocation: the file as the model names it, by ``saveInitializersExternally`` or an
                earlier call.
            toLocation: the new file.

        Raises:
            popart_runtime_error: no such file, none of the model's weights in it, or there is one
                at the new place.
            popart_exception: there is no folder for the new file.
            OSError: it cannot be written.
        """
        self._places.update(moved(self._places, fromLocation, toLocation))

    def _own_places(self, arrays: Mapping[str, npt.ArrayLike]) -> dict[str, Place]:
        """Where tensors are that this process keeps in files; state goes beside its weights."""
        states = states_beside(self._graph, [n for n in arrays if n not in self._places])
        sizes = {name: np.asarray(arrays[name]).nbytes for name in states}
        self._places.update(places_beside(self._places, states, sizes))
        return {name: place for name, place in self._places.items() if place.is_own}

    def _release_host_copies(self) -> None:
        """Releases or copies a snapshot before a run, which reuses the memory it refers to."""
        if not self._fetched and self._executable.leaves_weights:
            return
        with self._release_lock:
            for name in list(self._fetched):
                if name in self._read and not self._synthetic:
                    del self._host[name]
                    self._fetched.discard(name)
                elif name not in self._copied:
                    self._host[name] = np.array(self._host[name])
                    self._copied.add(name)
        self._same_on_device -= self._changed_by_runs()

    @cached_property
    def _synthetic(self) -> bool:
        return self._options.syntheticDataMode is not SyntheticDataMode.Off

"""A session's compiled program and variables in a file of their own.

The file is an ``executable_file.py``: its description says what the program is, and its bytes are
the compiled steps and the variables, one after another. A program that is read from such a file is
the session's own: another one is refused.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.enums import DeviceType
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.sessions.program_description import Description, describe, differences
from paddle_ipu.sessions.weights import Array, SessionWeights
from paddle_ipu.xla.step import executable_file

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOGGER = logging.getLogger("popart.session")

_EXECUTABLE, _VARIABLES = "executable.popef", "variables.popef"
_SAVED_ON = (DeviceType.Ipu, DeviceType.OfflineIpu)
_OTHER_FORM = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of a description that is none of this version."""


class _Blocks:
    """Pieces of a file's bytes, one after another."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self._end = 0

    def add(self, piece: bytes | memoryview) -> tuple[int, int]:
        """Appends a piece; returns where it begins and ends."""
        begin, self._end = self._end, self._end + len(piece)
        self.pieces.append(piece)
        return begin, self._end


class _SavedEntries:
    """The compiled steps of a file, as the executable cache has them."""

    def __init__(self, rows: Iterable[Any], content: memoryview) -> None:
        self._entries = {
            str(key): (dict(description), bytes(content[begin:end]))
            for key, description, begin, end in rows
        }

    def load(self, key: str) -> tuple[Mapping[str, Any], bytes] | None:
        """An entry's description and content; None where there is none."""
        return self._entries.get(key)

    def remove(self, key: str) -> None:
        """Forgets an entry; the file stays as it is."""
        self._entries.pop(key, None)


class SessionExecutables(SessionWeights):
    """Executables of a session, which sets the attributes without a value."""

    dataFlow: DataFlow
    _optimizer: Optimizer | PaddleOptimizer | None
    _loaded_from: str | None = None

    def saveExecutable(
        self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True
    ) -> None:
        """Saves the compiled program for ``loadExecutable`` of a session of the same program.

        Only this user, and root, can read the file.

        Args:
            path: of a file, or of a folder, where it is ``executable.popef``. It is written anew.
            savePopartMetadata: what the program is; a session loads no file without it.
            saveVariables: also the values of weights and optimizer state, those of the device once
                they are there. Weights that are constants are always in it.

        Raises:
            popart_exception: on a CPU or an IPU Model, as with PopART; a program that no other
                process could run, as one that calls Python; a file that cannot be written.
            popart_runtime_error: not prepared.
        """
        self.require_saving()
        self._require_executable()
        options, blocks = self._options, _Blocks()
        entries = self._executable.saved(bool(options.createImplicitPipeliningFwdOnlyProgram))
        rows = [
            (key, description, *blocks.add(content))
            for key, (description, content) in entries.items()
        ]
        are_constant = self._loss is None and bool(options.constantWeights)
        self._write(
            _path(path, _EXECUTABLE),
            {
                "program": self._description() if savePopartMetadata else None,
                "entries": rows,
                "arrays": self._packed_variables(blocks) if saveVariables or are_constant else [],
            },
            blocks,
        )

    def saveVariables(self, path: str) -> None:
        """Saves the values of weights and optimizer state, those of the device once there.

        Args:
            path: of a file, or of a folder, where it is ``variables.popef``. It is written anew.

        Raises:
            popart_exception: on a CPU or an IPU Model, as with PopART; a file that cannot be
                written.
            popart_runtime_error: not prepared.
        """
        self.require_saving()
        self._require_executable()
        blocks = _Blocks()
        arrays = self._packed_variables(blocks)
        self._write(
            _path(path, _VARIABLES), {"program": None, "entries": [], "arrays": arrays}, blocks
        )

    def loadExecutable(self, filename: str) -> None:
        """Takes the program of a file in place of compiling, and the variables in it.

        ``prepareDevice`` then compiles nothing, and ``weightsFromHost`` uploads the variables. What
        is in the file runs as machine code: it has to be this user's or root's, and nobody else
        may be able to write it.

        Args:
            filename: of a file that ``saveExecutable`` or ``compileAndExport`` wrote, for the same
                program, options and versions.

        Raises:
            popart_exception: no such file, one that is damaged or cannot be trusted, or one of
                another program; the message says what differs.
        """
        path = Path(os.path.expanduser(filename))
        try:
            found = executable_file.read(path, links=True)
        except FileNotFoundError:
            raise popart_exception(f"Could not open file {filename}") from None
        if isinstance(found, str):
            raise popart_exception(_refusal(filename, found, found.startswith("other users")))
        description, content = found
        if not description.get("entries"):
            raise popart_exception(
                f"The file does not contain poplar executable. {filename} has variables only"
            )
        if description.get("program") is None:
            raise popart_exception(
                f"The file does not contain popart metadata. {filename} was saved with "
                "savePopartMetadata=False"
            )
        _LOGGER.info("Loading serialized PopART executable from %s", filename)
        try:
            entries = _SavedEntries(description["entries"], content)
            arrays = _unpacked(description["arrays"], content)
        except _OTHER_FORM as error:
            raise popart_exception(
                _refusal(filename, f"what it says of itself is none of this version: {error}")
            ) from error
        if not self._executable.load_saved(entries):
            told = differences(description["program"], self._description())
            raise popart_exception(
                f"The executable in {filename} is not that of this session: "
                f"{'; '.join(told) or 'a constant, a subgraph or its code differs'}. Compile and "
                "save it again"
            )
        self._loaded_from = filename
        self._prepared = False
        for name, array in arrays.items():
            self._replace(name, array)
        self._uploaded = False

    def _description(self) -> Description:
        return describe(
            self._graph, self._executable.program, self.dataFlow, self._options, self._optimizer
        )

    def require_saving(self) -> None:
        """Raises popart_exception where PopART saves no executable."""
        kind = self._device.type
        if kind not in _SAVED_ON:
            raise popart_exception(
                f"Executables for device type {kind.name} cannot be saved. Take a device of "
                "DeviceManager.acquireAvailableDevice, or createOfflineIPUDevice"
            )

    def _require_executable(self) -> None:
        if not self._prepared or not self._options.compileEngine:
            raise popart_runtime_error(
                "There is no executatable. Try calling Session::prepareDevice first."
            )

    def _packed_variables(self, blocks: _Blocks) -> list[Any]:
        rows = []
        for name, array in self._variables().items():
            # A copy of large weights may not fit.
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            rows.append((name, array.dtype.name, array.shape, *blocks.add(data)))
        return rows

    def _variables(self) -> dict[str, Array]:
        """Weights and state: the device's where it has them, else the host's."""
        executable = self._executable
        if self._uploaded and not self._synthetic:
            executable.upload_initial_state()
            held = {**executable.host_weights, **executable.state}
            return {name: executable.given(name, np.asarray(a)) for name, a in held.items()}
        program = executable.program
        kinds = {name: program.given(name) for name in program.weights}
        for name in self._host:
            if executable.has_state(name):
                kinds[name] = executable.state_kind(name)
        return {n: self._host_array(n, *kinds[n]) for n in self._host if n in kinds}

    @staticmethod
    def _write(path: Path, description: Mapping[str, Any], blocks: _Blocks) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            executable_file.write(path, description, *blocks.pieces)
        except OSError as error:
            raise popart_exception(
                f"Unable to open file '{path}': {error.strerror or error}"
            ) from error


def _path(path: str, name: str) -> Path:
    given = Path(os.path.expanduser(path))
    return given / name if given.is_dir() else given


def _refusal(filename: str, why: str, is_open: bool = False) -> str:
    hint = f" Run chmod go-w {filename}" if is_open else ""
    return f"The executable in {filename} is not loaded: {why}.{hint}"


def _unpacked(rows: Iterable[Any], content: memoryview) -> dict[str, Array]:
    arrays = {}
    for name, dtype, shape, begin, end in rows:
        kind = np.dtype(str(dtype))
        dims = tuple(int(dim) for dim in shape)
        piece = content[begin:end]
        if len(piece) != prod(dims) * kind.itemsize:
            raise ValueError(f"the array of {name} has {len(piece)} bytes")
        arrays[str(name)] = np.frombuffer(piece, kind).reshape(dims)
    return arrays

"""Initializers in a file of their own, which the model refers to: protobuf ends at 2 GiB.

A model is data from anywhere, so it is not believed where its weights are: they are in its own
folder, or in a file that this process wrote for a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import external_data_helper

from paddle_ipu.errors import popart_exception, popart_runtime_error

_written: set[Path] = set()
"""Files to which this process moved weights, without links."""

_PLACE = "paddle_ipu.place"
"""Of an initializer that was read from a file of its own: its `Place`, in `Value.meta`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the data of an initializer is.

    Attributes:
        location: the file, as the model names it.
        path: the file, without links.
        offset: bytes in front of the data.
        length: bytes of the data.
    """

    location: str
    path: Path
    offset: int
    length: int

    @property
    def is_own(self) -> bool:
        """Whether this process moved weights to the file, and so may write it."""
        return self.path in _written

    def check(self, name: str) -> None:
        """popart_exception where the location leads to another file by now, or to none."""
        path = Path(self.location)
        if not path.is_file() or path.resolve() != self.path:
            raise popart_exception(
                f"Unrecognised file name '{self.location}' for externally stored tensor '{name}'. "
                "A relative name is looked for in the working folder"
            )


def save_externally(graph: ir.Graph, ids: Iterable[str], filename: str | Path) -> None:
    """Moves initializers, one after another, to a file that the graph then refers to.

    Args:
        graph: with the initializers.
        ids: of the initializers.
        filename: the file, which is written anew; it stands in the model as it is given.

    Raises:
        popart_exception: the folder is not there, or a tensor is no initializer, holds nothing or
            is in a file already. Nothing is written then.
        OSError: the file cannot be written.
    """
    path = Path(filename)
    if not path.parent.is_dir():
        raise popart_exception(
            f"Saving tensor data to file {filename}, but its parent directory does not exist"
        )
    tensors = [(name, _initializer(graph, name)) for name in ids]
    _written.add(path.resolve())
    offset = 0
    with path.open("wb") as file:
        for name, tensor in tensors:
            data = np.ascontiguousarray(tensor.numpy())
            file.write(data.tobytes())
            place = Place(str(filename), path.resolve(), offset, data.nbytes)
            graph.initializers[name].const_value = reference(name, tensor, place)
            offset += data.nbytes


def reference(name: str, tensor: ir.TensorProtocol, place: Place) -> ir.ExternalTensor:
    """What a model has in the place of a tensor whose data is in another file."""
    return ir.ExternalTensor(
        location=place.location,
        offset=place.offset,
        length=place.length,
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.numpy().shape),
        name=name,
        base_dir="",
    )


def places_of(graph: ir.Graph) -> dict[str, Place]:
    """Where the initializers are that have a file of their own."""
    places = {}
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            path, length = Path(tensor.path).resolve(), tensor.length or tensor.nbytes
            places[name] = Place(str(tensor.location), path, tensor.offset or 0, length)
        elif _PLACE in value.meta:
            places[name] = value.meta[_PLACE]
    return places


def places_beside(
    places: Mapping[str, Place], beside: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, Place]:
    """Places for new tensors, behind all that the files have.

    Args:
        places: of the tensors that are there.
        beside: new tensor -> the tensor in whose file it goes; others go nowhere.
        sizes: bytes of each new tensor.
    """
    ends: dict[Path, int] = {}
    new = {}
    for name in sorted(beside):
        place = places.get(beside[name])
        if place is not None and place.is_own:
            place.check(name)
            offset = ends.get(place.path, place.path.stat().st_size)
            ends[place.path] = offset + sizes[name]
            new[name] = Place(place.location, place.path, offset, sizes[name])
    return new


def rewrite(name: str, place: Place, array: np.ndarray[Any, Any]) -> None:
    """Puts new values where a tensor has its own.

    Raises:
        popart_exception: the location leads to another file by now, or to none.
    """
    place.check(name)
    with place.path.open("r+b") as file:
        file.seek(place.offset)
        file.write(np.ascontiguousarray(array).tobytes())


def moved(places: Mapping[str, Place], source: str, target: str) -> dict[str, Place]:
    """Copies the tensors of a file to a new one; gives the new places.

    Args:
        places: of the tensors, in the order of the new file.
        source: the file, as the model names it.
        target: the new file; it stands in the model as it is given.

    Raises:
        popart_runtime_error: there is no such file, no tensor in it, or one at the new place.
        OSError: the new file cannot be written.
    """
    start = f"Updating externally saved tensor location from file '{source}' to file '{target}'"
    path = Path(target)
    if path.exists():
        raise popart_runtime_error(f"{start}, but file '{target}' already exists")
    if not Path(source).exists():
        raise popart_runtime_error(f"{start}, but file '{source}' does not exist")
    chosen = {name: place for name, place in places.items() if place.location == source}
    if not chosen:
        raise popart_runtime_error(
            f"No ONNX model initializers have external location set to '{source}'"
        )
    if not path.parent.is_dir():
        raise popart_exception(
            f"Saving tensor data to file {target}, but its parent directory does not exist"
        )
    new, offset = {}, 0
    with path.open("xb") as file:
        for name, place in chosen.items():
            place.check(name)
            with place.path.open("rb") as old:
                old.seek(place.offset)
                file.write(old.read(place.length))
            new[name] = Place(target, path.resolve(), offset, place.length)
            offset += place.length
    _written.add(path.resolve())
    return new


def remember_places(graph: ir.Graph, places: Mapping[str, Place]) -> None:
    """Notes where the initializers of a graph came from."""
    for name, place in places.items():
        if name in graph.initializers:
            graph.initializers[name].meta[_PLACE] = place


def _initializer(graph: ir.Graph, name: str) -> ir.TensorProtocol:
    value = graph.initializers.get(name)
    if value is None or value.const_value is None:
        raise popart_exception(
            f"Tensor '{name}' is not an initializer of the model. Give ids of initialised inputs"
        )
    if isinstance(value.const_value, ir.ExternalTensor):
        raise popart_exception(
            f"Tensor '{name}' already has an external data_location: {value.const_value.location}"
        )
    if value.const_value.size == 0:
        raise popart_exception(f"Tensor '{name}' has no data to save externally")
    return value.const_value


def load_external(tensors: Iterable[onnx.TensorProto], folder: Path | None) -> dict[str, Place]:
    """Reads the data of tensors that have it in other files; gives where that is.

    Args:
        tensors: of a model.
        folder: of the model's file; None for a model that comes as bytes.

    Raises:
        ValueError, onnx.checker.ValidationError: a file is not there, too short, or is one that
            the model may not name.
    """
    places = {}
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry for entry in tensor.external_data}
            entry = entries.get("location")
            location = "" if entry is None else entry.value
            base = folder if entry is None else _folder_of(tensor.name, entry, folder)
            if entry is not None and base is not None:
                _refuse_links(tensor.name, base, entry.value)
            external_data_helper.load_external_data_for_tensor(tensor, str(base or ""))
            if entry is not None and base is not None:
                offset = int(entries["offset"].value) if "offset" in entries else 0
                path = (base / entry.value).resolve()
                places[tensor.name] = Place(location, path, offset, len(tensor.raw_data))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    return places


def _refuse_links(name: str, base: Path, location: str) -> None:
    """Raises ValueError where a part of the path is one; older releases of onnx follow it."""
    path = base
    for part in Path(location).parts:
        path /= part
        if path.is_symlink():
            raise ValueError(
                f"the data of tensor {name!r} should be stored in {path}, but it is a symbolic link"
            )


def _folder_of(name: str, entry: onnx.StringStringEntryProto, folder: Path | None) -> Path:
    """The folder of a tensor's file; the entry is made relative to it."""
    written = Path(entry.value).resolve()
    if written in _written:
        entry.value = written.name
        return written.parent
    if folder is None:
        raise ValueError(
            f"the data of tensor {name!r} is in {entry.value}, which this process did not write; "
            "a model that comes as bytes has no folder to look in. Give the name of its file"
        )
    if Path(entry.value).is_absolute() and written.is_relative_to(folder.resolve()):
        entry.value = str(written.relative_to(folder.resolve()))
    return folder

"""Initializers in a file of their own, which the model refers to: protobuf ends at 2 GiB.

A model is data from anywhere, so it is not believed where its weights are: they are in its own
folder, or in a file that this process wrote for a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import external_data_helper

from paddle_ipu.errors import popart_exception

_written: set[Path] = set()
"""Files to which this process moved weights, without links."""


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
            graph.initializers[name].const_value = ir.ExternalTensor(
                location=str(filename),
                offset=offset,
                length=data.nbytes,
                dtype=tensor.dtype,
                shape=ir.Shape(list(data.shape)),
                name=name,
                base_dir="",
            )
            offset += data.nbytes


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


def load_external(tensors: Iterable[onnx.TensorProto], folder: Path | None) -> None:
    """Reads the data of tensors that have it in other files.

    Args:
        tensors: of a model.
        folder: of the model's file; None for a model that comes as bytes.

    Raises:
        ValueError, onnx.checker.ValidationError: a file is not there, too short, or is one that
            the model may not name.
    """
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entry = next((e for e in tensor.external_data if e.key == "location"), None)
            place = folder if entry is None else _place(tensor.name, entry, folder)
            external_data_helper.load_external_data_for_tensor(tensor, str(place or ""))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def _place(name: str, entry: onnx.StringStringEntryProto, folder: Path | None) -> Path:
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

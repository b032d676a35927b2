"""Initializers in a file of their own, which the model refers to: protobuf ends at 2 GiB."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception


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

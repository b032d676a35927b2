"""Parameter files: `.pdparams` of Paddle, read, checked against a network, and written."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bert.files import DataError, writing

Arrays = dict[str, NDArray[Any]]

SUFFIX = ".pdparams"

# All that the pickle of a dict of arrays refers to; a file with more may run code of its own.
_NAMES = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is no array")
        return super().find_class(module, name)


def read_parameters(path: Path) -> Arrays:
    """The arrays of a `.pdparams` file by name; nothing in the file is run.

    Raises:
        DataError: the file is missing, damaged, or holds something else than named arrays.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise DataError(
            f"{path}: expected a checkpoint's parameters, but there is no such file; "
            f"a prefix stands for PREFIX{SUFFIX}"
        ) from error
    try:
        content = _ArraysOnly(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise DataError(
            f"{path}: expected parameters that paddle.static.save wrote, but the file is damaged "
            f"or of another kind ({len(data)} bytes): {error}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected arrays by name, got a {type(content).__name__}")
    arrays = {
        # Layers' state has pairs of a name and an array.
        str(key): np.asarray(value[1] if isinstance(value, tuple) and len(value) == 2 else value)
        for key, value in content.items()
        if not str(key).endswith("@@")
    }
    strange = next((name for name, value in arrays.items() if value.dtype == object), None)
    if strange is not None:
        raise DataError(f"{path}: expected arrays by name, but {strange!r} is none")
    return arrays


def write_parameters(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a `.pdparams` file as `paddle.static.save` does, whole or not at all."""
    with writing(path) as stream:
        pickle.dump(dict(arrays), stream, protocol=4)


def matching(
    arrays: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, list[int]],
    source: Path | str,
    optional: tuple[str, ...] = (),
) -> Arrays:
    """The parameters of ``shapes`` in ``arrays``, as float32; others in ``arrays`` are left out.

    Names that begin with one of ``optional`` may be missing, and are skipped where their shape is
    another: heads, which a stage trains anew.

    Raises:
        DataError: a parameter is missing, or has another shape; names it, expected and got.
    """
    matched: Arrays = {}
    missing = []
    for name, shape in shapes.items():
        is_optional = name.startswith(optional) if optional else False
        if name not in arrays:
            if not is_optional:
                missing.append(name)
            continue
        got = list(arrays[name].shape)
        if got != list(shape):
            if is_optional:
                continue
            raise DataError(
                f"{source}: parameter {name!r}: expected the shape {list(shape)} of this network, "
                f"got {got}; take the checkpoint of a network of the same sizes, or change "
                "--hidden_size, --vocab_size, --num_hidden_layers, --max_position_embeddings"
            )
        matched[name] = np.asarray(arrays[name], np.float32)
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        held = ", ".join(list(arrays)[:3]) or "nothing"
        raise DataError(
            f"{source}: expected the {len(shapes)} parameters of this network, {len(missing)} are "
            f"missing: {shown}; the file holds {len(arrays)}: {held}"
        )
    return matched

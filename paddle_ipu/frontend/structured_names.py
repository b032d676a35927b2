"""Reads the names that parameters have in a layer, which Paddle 2's ``jit.save`` writes.

``name.pdiparams.info`` is a pickle of ``{parameter: {"structured_name": name, ...}}``. It is opened
by an unpickler that finds no classes and no functions, so nothing in it can be run; what is not
such a dictionary of texts is taken for no names.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NoReturn

_LARGEST = 2**24
"""Bytes of a file that is read; a parameter has some hundred."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def read(parameters: Path | bytes) -> dict[str, str]:
    """Parameter -> its name in the layer's ``state_dict``; empty where the file is not there.

    Args:
        parameters: the file of parameters, which the one with the names is beside.
    """
    if isinstance(parameters, bytes):
        return {}
    path = parameters.with_name(f"{parameters.name}.info")
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return {}
        with path.open("rb") as file:
            content = _PlainUnpickler(file).load()
    except Exception:  # A damaged pickle raises anything; the model needs no names.
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        name: structured
        for name, entry in content.items()
        if isinstance(entry, dict) and isinstance(structured := entry.get("structured_name"), str)
    }

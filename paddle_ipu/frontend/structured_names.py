"""Reads the names that parameters have in a layer, which Paddle 2's ``jit.save`` writes.

``name.pdiparams.info`` is a pickle of ``{parameter: {"structured_name": name, ...}}``. It is opened
where all of its operations make dictionaries of texts, numbers and truth values, by an unpickler
that finds no classes and no functions: nothing in it can be run. What is not such a dictionary is
taken for no names.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import NoReturn

_LARGEST = 2**24
"""Bytes of a file that is read; a parameter has some hundred."""

_PLAIN = frozenset(
    {
        "PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "SETITEM", "SETITEMS", "BINUNICODE",
        "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING", "NONE", "NEWTRUE", "NEWFALSE",
        "BININT", "BININT1", "BININT2", "BINFLOAT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET",
        "LONG_BINGET",
    }
)  # fmt: skip
"""Operations of a pickle that are taken, Python 2's among them.

Others make what Python may not survive: the hash of a deeply nested tuple ends the process.
"""


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
        pickled = path.read_bytes()
        content = _PlainUnpickler(io.BytesIO(pickled)).load() if _is_plain(pickled) else None
    except Exception:  # A damaged pickle raises anything; the model needs no names.
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        name: structured
        for name, entry in content.items()
        if isinstance(entry, dict) and isinstance(structured := entry.get("structured_name"), str)
    }


def _is_plain(pickled: bytes) -> bool:
    """Whether a pickle makes dictionaries of plain values only, in memory of about its own size.

    Raises:
        ValueError: it is damaged.
    """
    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name not in _PLAIN:
            return False
        # The unpickler makes room for all places below one that is written to.
        if operation.name == "LONG_BINPUT" and int(argument or 0) > len(pickled):
            return False
    return True

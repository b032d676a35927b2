"""What somebody fed, and which feeds, in words: messages about feeds have none of NumPy's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

_KINDS: Mapping[str, str] = {"U": "strings", "S": "bytes", "M": "dates", "m": "spans of time"}
_ONE: Mapping[str, str] = {"str": "a string", "bytes": "bytes", "NoneType": "None"}
_MANY: Mapping[str, str] = {
    "str": "strings",
    "bytes": "bytes",
    "NoneType": "None",
    "dict": "dicts",
    **dict.fromkeys(("int", "float", "complex", "bool"), "numbers"),
}


def described(value: Any) -> str:
    """What `value` is, where it is no array of numbers: "a string", "a list of strings"."""
    if not isinstance(value, list | tuple | np.ndarray):
        kind = type(value).__name__
        return _ONE.get(kind, f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}")
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            return f"an array of {_KINDS.get(value.dtype.kind, 'records')}"
        return f"an array of Python objects: {_kinds(value.ravel().tolist())}"
    container = f"a {type(value).__name__}"
    if not _is_even(value):
        return f"{container} whose parts differ in length"
    return f"{container} of {_kinds(value)}"


def listed(names: Iterable[str], what: str, one: str, many: str) -> str:
    """ "feeds 'x', 'y' are missing", of any number of names.

    Args:
        what: what they name, in the singular.
        one: the verb, and more, for a single one.
        many: for several.
    """
    quoted = [repr(name) for name in names]
    several = len(quoted) > 1
    return f"{what}{'s' if several else ''} {', '.join(quoted)} {many if several else one}"


def _kinds(value: Any) -> str:
    kinds = dict.fromkeys(type(item).__name__ for item in _leaves(value))
    return " and ".join(dict.fromkeys(_MANY.get(kind, f"{kind} objects") for kind in kinds))


def _leaves(value: Any) -> Iterator[Any]:
    for item in value:
        if isinstance(item, list | tuple | np.ndarray) and np.ndim(item):
            yield from _leaves(item)
        else:
            yield item


def _is_even(value: Any) -> bool:
    """Whether lists within lists have one length each, as the axes of an array do."""
    parts = [item if isinstance(item, list | tuple) else None for item in value]
    if len({None if part is None else len(part) for part in parts}) > 1:
        return False
    return all(_is_even(part) for part in parts if part is not None)

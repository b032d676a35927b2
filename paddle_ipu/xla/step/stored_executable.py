"""An executable in an entry of the cache: JAX's own serialisation, and what it takes and gives.

What is stored is read after ``executable_file.py`` has checked owner and digest. JAX serialises by
pickle; beside it an entry is JSON.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax.experimental import serialize_executable

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.precision import integers

_LOG = logging.getLogger("paddle_ipu")

Form = list[list[str] | int | None]
"""What a step takes or gives, as JSON has it: names of arrays, 0 for one array, None for none."""

OTHER_FORM = (ValueError, LookupError, TypeError)
"""Errors of a description that is none of this version."""

_UNREADABLE = (*OTHER_FORM, pickle.UnpicklingError, EOFError, jax.errors.JaxRuntimeError)


class Entries(Protocol):
    """Where entries are found by their keys: a cache, or a file that was saved."""

    def load(self, key: str) -> tuple[Mapping[str, Any], bytes] | None:
        """An entry's description and content; None where there is none."""

    def remove(self, key: str) -> None:
        """Removes an entry that cannot be used."""


@dataclass(frozen=True, slots=True)
class StoredExecutable:
    """An executable that an entry gave.

    Attributes:
        compiled: JAX's compiled function.
        temporary_bytes: memory of a run beside arguments and results.
        content: JAX's serialisation, which cannot be made of it again.
        trees: of its arguments and its results.
    """

    compiled: jax.stages.Compiled
    temporary_bytes: int
    content: bytes
    trees: tuple[Any, Any]


def describe(temporary_bytes: int, lowered: jax.stages.Lowered) -> dict[str, Any]:
    """What an entry says beside JAX's serialisation.

    Args:
        temporary_bytes: memory of a run beside arguments and results.
        lowered: the traced step, with positional arguments only.
    """
    return {
        "temporary_bytes": temporary_bytes,
        "arguments": _form(lowered.args_info[0]),
        "results": form_of(lowered.out_tree),
        "in_64_bits": bool(jax.config.values["jax_enable_x64"]),
    }


def form_of(tree: Any) -> Form:
    """The form of a structure: of a tuple of dicts, arrays and None."""
    return _form(jax.tree.unflatten(tree, [0] * tree.num_leaves))


def tree_of(form: Form) -> Any:
    """The structure that has a form."""
    return jax.tree.structure(_values(form))


def _form(items: Sequence[Any]) -> Form:
    form: Form = []
    for item in items:
        form.append(list(item) if isinstance(item, dict) else None if item is None else 0)
    return form


def _values(form: Form) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(item, 0) if isinstance(item, list) else item for item in form)


def load(
    cache: Entries, key: str, trees: tuple[Any, Any], devices: Sequence[Any]
) -> StoredExecutable | None:
    """The executable of an entry; None where there is none that can be used.

    Args:
        cache: has the entry.
        key: the traced step's.
        trees: of the arguments and the results.
        devices: JAX's, on which it runs.
    """
    entry = cache.load(key)
    if entry is None:
        return None
    try:
        return _loaded(*entry, trees, devices)
    except _UNREADABLE as error:
        discard(cache, key, error)
        return None


def load_as_described(cache: Entries, key: str, devices: Sequence[Any]) -> StoredExecutable | None:
    """The executable of an entry with the arguments and results that the entry itself names.

    None where it cannot be used; the entry stays for those who know what it has to be.
    """
    entry = cache.load(key)
    if entry is None:
        return None
    description, content = entry
    try:
        arguments = jax.tree.structure((_values(description["arguments"]), {}))
        trees = arguments, tree_of(description["results"])
        with integers.allowed_if(bool(description["in_64_bits"])):
            return _loaded(description, content, trees, devices)
    except _UNREADABLE:
        return None


def _loaded(
    description: Mapping[str, Any], content: bytes, trees: tuple[Any, Any], devices: Sequence[Any]
) -> StoredExecutable:
    temporary = int(description["temporary_bytes"])
    # Kernels are known to XLA by name.
    library.version()
    compiled = serialize_executable.deserialize_and_load(content, *trees, execution_devices=devices)
    return StoredExecutable(compiled, temporary, content, trees)


def discard(cache: Entries, key: str, error: Exception) -> None:
    """Removes an entry that cannot be used."""
    _LOG.warning("The compiled program %s cannot be loaded and is compiled again: %s", key, error)
    with suppress(OSError):
        cache.remove(key)

"""``paddle-ipu cache``: what the executable cache holds, and whether it is sound."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from paddle_ipu.errors import CacheError
from paddle_ipu.options.cache_folder import CACHE_SIZE_VARIABLE, CACHE_VARIABLE, default_folder

if TYPE_CHECKING:
    from paddle_ipu.xla.step.executable_cache import ExecutableCache

NAME = "cache"
SUMMARY = "list, measure, verify or clear a folder of compiled programs"
EXIT_CODES = f"""\
actions:
  list    every entry: key, bytes, when it was used last, what it is
  size    bytes of all entries, and the bound that {CACHE_SIZE_VARIABLE} sets
  verify  read every entry and check owner, permissions and digest
  clear   remove every entry

examples:
  paddle-ipu cache list session_cache
  IPU_CACHE_PATH=~/ipu_cache paddle-ipu cache clear

exit codes:
  0  success
  1  verify found an entry that would not be used
  2  wrong arguments
  3  the folder does not exist or cannot be used
"""
_UNUSABLE = 3
_VARIABLES = (CACHE_VARIABLE, "POPXL_CACHE_DIR", "POPART_CACHE_DIR")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument("action", choices=tuple(_ACTIONS))
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        help=f"the cache_path; by default that of {', '.join(_VARIABLES)}, the first that is set, "
        "else the user's own, ~/.cache/paddle_ipu",
    )


def run(arguments: argparse.Namespace) -> int:
    """Does what was asked for; returns the exit code."""
    folders = (os.environ.get(name) for name in _VARIABLES)
    try:
        folder = arguments.folder or next(filter(None, folders), "") or str(default_folder())
        if not os.path.isdir(os.path.expanduser(folder)):
            raise CacheError(f"there is no folder {folder}")
        # Its package imports JAX.
        from paddle_ipu.xla.step.executable_cache import ExecutableCache

        return _ACTIONS[arguments.action](ExecutableCache(folder))
    except CacheError as error:
        print(f"paddle-ipu cache: {error}", file=sys.stderr)
        return _UNUSABLE


def _list(cache: ExecutableCache) -> int:
    for entry in cache.entries():
        used = datetime.datetime.fromtimestamp(entry.used).isoformat(" ", "seconds")
        result = cache.examine(entry.key)
        what = f"not used: {result}" if isinstance(result, str) else _kind(result[0])
        print(f"{entry.key[:16]}  {entry.size:>12,}  {used}  {what}")
    return 0


def _kind(description: Mapping[str, object]) -> str:
    for what, name in _LEAD_TO_EXECUTABLES.items():
        if name in description:
            return f"{what}, of executable {str(description[name])[:16]}"
    return "executable"


_LEAD_TO_EXECUTABLES = {"program": "step", "look of a program": "executable"}
"""Kinds of entries that lead to an executable -> what their descriptions call it."""


def _size(cache: ExecutableCache) -> int:
    entries = cache.entries()
    total = sum(entry.size for entry in entries)
    print(f"{total:,} bytes in {len(entries)} entries; the bound is {cache.limit:,} bytes")
    return 0


def _verify(cache: ExecutableCache) -> int:
    entries, bad = cache.entries(), 0
    for entry in entries:
        problem = cache.examine(entry.key)
        if isinstance(problem, str):
            bad += 1
            print(f"{entry.key}: {problem}")
    print(f"{len(entries) - bad} of {len(entries)} entries are sound")
    return 1 if bad else 0


def _clear(cache: ExecutableCache) -> int:
    print(f"{cache.clear()} entries removed")
    return 0


_ACTIONS: Mapping[str, Callable[[ExecutableCache], int]] = {
    "list": _list,
    "size": _size,
    "verify": _verify,
    "clear": _clear,
}

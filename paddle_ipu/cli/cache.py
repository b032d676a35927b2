"""``paddle-ipu cache``: what the executable cache holds, and whether it is sound."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from paddle_ipu.errors import CacheError
from paddle_ipu.options.table import CACHE_SIZE_VARIABLE

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
_VARIABLES = ("IPU_CACHE_PATH", "POPXL_CACHE_DIR", "POPART_CACHE_DIR")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument("action", choices=tuple(_ACTIONS))
    parser.add_argument(
        "folder",
        nargs="?",
        help=f"the cache_path; by default {', '.join(_VARIABLES)} or session_cache, the first "
        "that is set",
    )


def run(arguments: argparse.Namespace) -> int:
    """Does what was asked for; returns the exit code."""
    folders = (os.environ.get(name) for name in _VARIABLES)
    folder = arguments.folder or next(filter(None, folders), "session_cache")
    try:
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
    step = description.get("step")
    return "executable" if step is None else f"program, of executable {str(step)[:16]}"


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

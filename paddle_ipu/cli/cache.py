"""``paddle-ipu cache``: what the executable cache holds, and whether it is sound."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddle_ipu.cli.json_output import add_json, print_json
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
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Does what was asked for; returns the exit code."""
    folders = (os.environ.get(name) for name in _VARIABLES)
    try:
        folder = arguments.folder or next(filter(None, folders), "") or str(default_folder())
        if not os.path.isdir(os.path.expanduser(folder)):
            raise CacheError(f"there is no folder {folder}")
        # Its package imports JAX.
        from paddle_ipu.xla.step.executable_cache import ExecutableCache

        answer = _ACTIONS[arguments.action](ExecutableCache(folder))
    except CacheError as error:
        print(f"paddle-ipu cache: {error}", file=sys.stderr)
        return _UNUSABLE
    if arguments.json:
        print_json(answer.record)
    else:
        print("".join(f"{line}\n" for line in answer.lines), end="")
    return answer.code


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an action found.

    Attributes:
        record: for JSON.
        lines: for a terminal.
        code: the exit code.
    """

    record: Mapping[str, object]
    lines: Sequence[str]
    code: int = 0


def _list(cache: ExecutableCache) -> _Answer:
    records, lines = [], []
    for entry in cache.entries():
        used = datetime.datetime.fromtimestamp(entry.used).astimezone()
        result = cache.examine(entry.key)
        problem = result if isinstance(result, str) else None
        kind, executable = (None, None) if isinstance(result, str) else _kind(result[0])
        leads = "" if executable is None else f", of executable {executable[:16]}"
        what = f"{kind}{leads}" if problem is None else f"not used: {problem}"
        when = used.replace(tzinfo=None).isoformat(" ", "seconds")
        lines.append(f"{entry.key[:16]}  {entry.size:>12,}  {when}  {what}")
        records.append(
            {
                "key": entry.key,
                "bytes": entry.size,
                "used": used.isoformat(timespec="seconds"),
                "kind": kind,
                "executable": executable,
                "problem": problem,
            }
        )
    return _Answer({"entries": records}, lines)


def _kind(description: Mapping[str, object]) -> tuple[str, str | None]:
    """(the kind of an entry, the key of the executable that it leads to or None)."""
    for what, name in _LEAD_TO_EXECUTABLES.items():
        if name in description:
            return what, str(description[name])
    return "executable", None


_LEAD_TO_EXECUTABLES = {"program": "step", "look of a program": "executable"}
"""Kinds of entries that lead to an executable -> what their descriptions call it."""


def _size(cache: ExecutableCache) -> _Answer:
    entries = cache.entries()
    total = sum(entry.size for entry in entries)
    return _Answer(
        {"bytes": total, "entries": len(entries), "bound": cache.limit},
        [f"{total:,} bytes in {len(entries)} entries; the bound is {cache.limit:,} bytes"],
    )


def _verify(cache: ExecutableCache) -> _Answer:
    entries = cache.entries()
    found = {entry.key: cache.examine(entry.key) for entry in entries}
    bad = {key: problem for key, problem in found.items() if isinstance(problem, str)}
    sound = len(entries) - len(bad)
    unsound = [{"key": key, "problem": problem} for key, problem in bad.items()]
    return _Answer(
        {"entries": len(entries), "sound": sound, "unsound": unsound},
        [
            *(f"{key}: {problem}" for key, problem in bad.items()),
            f"{sound} of {len(entries)} entries are sound",
        ],
        1 if bad else 0,
    )


def _clear(cache: ExecutableCache) -> _Answer:
    removed = cache.clear()
    return _Answer({"removed": removed}, [f"{removed} entries removed"])


_ACTIONS: Mapping[str, Callable[[ExecutableCache], _Answer]] = {
    "list": _list,
    "size": _size,
    "verify": _verify,
    "clear": _clear,
}

"""Lists of hosts: ``h0,h1``, ``pod[1-4]``, ``host[0-2,4]``, and files with one on each line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddle_ipu.errors import LaunchError

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_MANY, _MOST = 4096, 65_536
"""Hosts of a range, and of a list."""
_SHOWN = 200


def host_list(text: str) -> list[str]:
    """The hosts that a text names, in order.

    Raises:
        LaunchError: it is no list of hosts, or names one twice.
    """
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return _hosts((f"--host {shown}", piece) for piece in _pieces(text))


def hosts_in_file(path: Path) -> list[str]:
    """The hosts in a file, one on each line; what follows a # is left out.

    Raises:
        LaunchError: it cannot be read, has none, or has something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise LaunchError(f"--hostfile {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise LaunchError(f"--hostfile {path} cannot be read: {error}") from None
    # A file for mpirun may say how many slots a host has.
    words = [line.partition("#")[0].split()[:1] for line in lines]
    if not any(words):
        raise LaunchError(f"--hostfile {path} names no host")
    return _hosts(
        (f"--hostfile {path}, line {number}", piece)
        for number, first in enumerate(words, 1)
        for word in first
        for piece in _pieces(word)
    )


def _hosts(pieces: Iterable[tuple[str, str]]) -> list[str]:
    """The hosts of (where it stands, ``pod[1-4]`` or a name)."""
    hosts: dict[str, None] = {}
    for where, piece in pieces:
        for host in _expanded(where, piece):
            if host in hosts:
                raise _wrong(where, f"{host} is named twice")
            if len(hosts) == _MOST:
                raise _wrong(where, f"there are more than {_MOST} hosts")
            hosts[host] = None
    return [*hosts]


def _expanded(where: str, piece: str) -> Iterator[str]:
    before, bracket, rest = piece.partition("[")
    ranges, closing, after = rest.partition("]")
    if bracket and not closing:
        raise _wrong(where, f"{piece[:_SHOWN]!r} is no host")
    for number in _numbers(where, ranges) if bracket else [""]:
        host = f"{before}{number}{after}"
        if not _HOST.fullmatch(host):
            raise _wrong(where, f"{host[:_SHOWN]!r} is no host")
        yield host


def _wrong(where: str, why: str) -> LaunchError:
    return LaunchError(f"{where}: {why}; write for instance h0,h1 or pod[1-4] or host[0-2,4]")


def _pieces(text: str) -> list[str]:
    """The text at its commas, but for those in brackets."""
    pieces, start, inside = [], 0, False
    for at, character in enumerate(text):
        if character in "[]":
            inside = character == "["
        elif character == "," and not inside:
            pieces.append(text[start:at])
            start = at + 1
    return [*pieces, text[start:]]


def _numbers(where: str, ranges: str) -> Iterator[str]:
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _wrong(where, f"[{ranges[:_SHOWN]}] is no range")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first) or int(last) - int(first) >= _MANY:
            raise _wrong(where, f"{part} is no range of up to {_MANY} hosts")
        # Leading zeros stay, as in pod[01-04].
        yield from (str(n).zfill(len(first)) for n in range(int(first), int(last) + 1))

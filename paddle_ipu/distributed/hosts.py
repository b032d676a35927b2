"""Lists of hosts: ``h0,h1``, ``pod[1-4]``, ``host[0-2,4]``, and files with one on each line."""

from __future__ import annotations

import re
from pathlib import Path

from paddle_ipu.errors import LaunchError

_PIECE = re.compile(r"([^\[\],]*)(?:\[([0-9,-]+)\])?([^\[\],]*)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MANY = 4096


def host_list(text: str) -> list[str]:
    """The hosts that a text names, in order.

    Raises:
        LaunchError: it is no list of hosts, or names one twice.
    """
    hosts: list[str] = []
    for piece in _pieces(text):
        match = _PIECE.fullmatch(piece)
        if match is None or not piece:
            raise LaunchError(_wrong(text, f"{piece!r} is no host"))
        before, ranges, after = match.groups()
        numbers = [""] if ranges is None else _numbers(text, ranges)
        hosts += [f"{before}{number}{after}" for number in numbers]
    for host in hosts:
        if hosts.count(host) > 1:
            raise LaunchError(_wrong(text, f"{host} is named twice"))
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", host):
            raise LaunchError(_wrong(text, f"{host!r} is no host"))
    return hosts


def _wrong(text: str, why: str) -> str:
    return f"--host {text}: {why}; write for instance h0,h1 or pod[1-4] or host[0-2,4]"


def _pieces(text: str) -> list[str]:
    """The text at its commas, but for those in brackets."""
    return re.split(r",(?![^\[]*\])", text)


def _numbers(text: str, ranges: str) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise LaunchError(_wrong(text, f"[{ranges}] is no range"))
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first) or int(last) - int(first) >= _MANY:
            raise LaunchError(_wrong(text, f"{part} is no range of up to {_MANY} hosts"))
        # Leading zeros stay, as in pod[01-04].
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found


def hosts_in_file(path: Path) -> list[str]:
    """The hosts in a file, one on each line; lines that begin with # are left out.

    Raises:
        LaunchError: it cannot be read, has none, or has something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise LaunchError(f"--hostfile {path} cannot be read: {error.strerror}") from None
    named = [line.split("#")[0].strip() for line in lines]
    # A file for mpirun may say how many slots a host has.
    hosts = [line.split()[0] for line in named if line]
    if not hosts:
        raise LaunchError(f"--hostfile {path} names no host")
    return host_list(",".join(hosts))

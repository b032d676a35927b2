"""Damage to a file's bytes, whatever its format: each edit is chosen by a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Edit = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
"""(content, generator, contents of other files of the kind) -> damaged content."""

_TELLING = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 9 + b"\x01", b"\0" * 8, b"\n", b"{", b"[")


def flip(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """A few bytes are others."""
    damaged = bytearray(content)
    for _ in range(choose.choice((1, 1, 1, 2, 4, 16)) if damaged else 0):
        at = choose.randrange(len(damaged))
        damaged[at] = choose.choice((damaged[at] ^ 1 << choose.randrange(8), choose.randrange(256)))
    return bytes(damaged)


def overwrite(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """Bytes that mean something to many formats are written over others."""
    at, piece = choose.randrange(len(content) + 1), choose.choice(_TELLING)
    return content[:at] + piece + content[at + len(piece) :]


def truncate(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """The end is missing."""
    return content[: choose.randrange(len(content) + 1)]


def cut(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """A piece is missing."""
    start, end = _piece(content, choose)
    return content[:start] + content[end:]


def duplicate(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """A piece stands there again, once or very often."""
    start, end = _piece(content, choose)
    times = choose.choice((1, 1, 2, min(1000, 200_000 // max(1, end - start))))
    return content[:end] + content[start:end] * times + content[end:]


def insert(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """Random bytes stand in between."""
    at = choose.randrange(len(content) + 1)
    return content[:at] + choose.randbytes(choose.choice((1, 2, 8, 64))) + content[at:]


def splice(content: bytes, choose: random.Random, others: Sequence[bytes]) -> bytes:
    """A piece of another file stands in the place of one."""
    other = choose.choice([*others, content])
    start, end = _piece(content, choose)
    first, last = _piece(other, choose)
    return content[:start] + other[first:last] + content[end:]


def _piece(content: bytes, choose: random.Random) -> tuple[int, int]:
    start = choose.randrange(len(content) + 1)
    longest = choose.choice((1, 4, 16, 64, 1024))
    return start, min(len(content), start + choose.randrange(longest + 1))


EDITS: Sequence[Edit] = (flip, flip, overwrite, truncate, cut, duplicate, insert, splice)

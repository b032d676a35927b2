"""The files that hold compiled programs: a digest, a description in JSON, and bytes.

What is in such a file runs as machine code, so nothing of it is read before two things hold: it
belongs to this user or to root, and nobody else can write it; and the digest in front is that of
what follows.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddle_ipu.operating_system import open_flags, users

_MAGIC = b"paddle_ipu 1\n"
_DIGEST = hashlib.sha256().digest_size

UNFINISHED = ".unfinished"
"""How the name of a file ends that is being written."""

Content = tuple[dict[str, Any], memoryview]
"""A file's description, and the bytes behind it."""


def read(path: Path, *, links: bool = False) -> Content | str:
    """What a file holds, or why it is not used.

    Args:
        path: the file.
        links: follow a symbolic link; what it leads to has to be trusted.

    Raises:
        FileNotFoundError: there is none.
    """
    flags = os.O_RDONLY | open_flags.NO_WAITING | open_flags.NOT_IN_PROGRAMS | open_flags.BINARY
    if not links:
        flags |= open_flags.NO_LINKS
    try:
        file = os.fdopen(os.open(path, flags), "rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    with file:
        known = os.fstat(file.fileno())
        if not stat.S_ISREG(known.st_mode):
            return "it is no ordinary file"
        if not users.is_this_user_or_root(known.st_uid):
            return f"it belongs to user {known.st_uid}"
        if users.others_write(known.st_mode):
            return "other users can write it"
        data = file.read()
    if not data.startswith(_MAGIC):
        return "it is of another kind or version"
    start = len(_MAGIC) + _DIGEST
    body = memoryview(data)[start:]
    if hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return "it is damaged, its digest is another"
    length = int.from_bytes(body[:8], "little")
    try:
        description = dict(json.loads(bytes(body[8 : 8 + length])))
    except (ValueError, LookupError, TypeError, RecursionError):
        return "what it says of itself is not what this version writes"
    return description, body[8 + length :]


def write(path: Path, description: Mapping[str, Any], *content: bytes | memoryview) -> None:
    """Writes a file, for this user only; it appears whole, by a rename.

    Args:
        path: the file.
        description: what JSON can hold.
        content: the bytes, in pieces.

    Raises:
        OSError: it cannot be written.
    """
    head = json.dumps(dict(description)).encode()
    body = (len(head).to_bytes(8, "little"), head, *content)
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    unfinished = path.parent / f"{secrets.token_hex(8)}{UNFINISHED}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= open_flags.NOT_IN_PROGRAMS | open_flags.BINARY
    try:
        with os.fdopen(os.open(unfinished, flags, 0o600), "wb") as file:
            file.write(_MAGIC + digest.digest())
            file.writelines(body)
        os.replace(unfinished, path)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()

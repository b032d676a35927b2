"""One run at a time in a folder: the second one is refused before it touches anything there."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.bert.files import DataError

LOCK_FILE = ".running"

# File systems without locks: there nothing is refused.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def only_run_in(folder: Path, option: str) -> Iterator[None]:
    """Hold ``folder``, made where it is missing, until the block ends or the process dies.

    The lock is the kernel's, on a file that is removed afterwards: what a killed run leaves of it
    stops nobody. ``option`` is the argument that named the folder.

    Raises:
        DataError: another run, on this machine or another one, holds it.
        OSError: the folder cannot be made or written.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    handle = _open_locked(path, folder, option)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _open_locked(path: Path, folder: Path, option: str) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise DataError(
                f"{option} {folder}: another run is at work in it, {holder}; "
                "wait until it has ended, or take another folder"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(handle)
                raise
            return handle
        # The run before may have removed the file after it was opened here.
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
        os.close(handle)

"""Locks of files among processes, which the system takes from a process that ends.

Unix has them by ``fcntl``, Windows by ``msvcrt``, for files alone. Where there is neither, locking
fails as on a file system that has no locks.
"""

from __future__ import annotations

import errno
import importlib
import os
import threading
import time
from pathlib import Path
from types import ModuleType

from paddle_ipu.operating_system import open_flags

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
"""Errors of file systems without locks of folders; NFS wants a file that is open for writing."""

_HELD = (errno.EACCES, errno.EAGAIN)
_POLL_SECONDS = 0.05
_LAST_BYTE = 2**31 - 2
"""The farthest that Windows's C library locks."""
_WHOLE = _LAST_BYTE + 1


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_FCNTL, _MSVCRT = _module("fcntl"), _module("msvcrt")
_PLACE = threading.Lock()
"""Windows locks where a descriptor stands, and all threads move it."""


def opened_folder(folder: Path) -> int | None:
    """A descriptor of a folder, to be locked; None where the system opens no folders.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return None
    return os.open(
        folder, os.O_RDONLY | os.O_DIRECTORY | open_flags.NO_LINKS | open_flags.NOT_IN_PROGRAMS
    )


def lock(descriptor: int, *, waits: bool) -> None:
    """Locks a file or folder as a whole, until the descriptor is closed.

    Args:
        descriptor: of the file, opened for writing, or of a folder.
        waits: for others that hold it.

    Raises:
        BlockingIOError: another descriptor has it locked, without `waits`.
        OSError: there are no locks of it.
    """
    if _FCNTL is not None:
        _FCNTL.flock(descriptor, _FCNTL.LOCK_EX | (0 if waits else _FCNTL.LOCK_NB))
        return
    while True:
        try:
            _lock_byte_of_windows(descriptor, _WHOLE)
        except BlockingIOError:
            if not waits:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return


def lock_byte(descriptor: int, place: int) -> None:
    """Locks one byte of a file, which need not be there, for this process and not for a thread.

    Args:
        descriptor: of the file, opened for writing; closing any of the file drops its locks.
        place: of the byte, below 2**60. On Windows the same for some places.

    Raises:
        BlockingIOError: another process has it locked.
        OSError: there are no locks of it.
    """
    if _FCNTL is None:
        _lock_byte_of_windows(descriptor, place % _LAST_BYTE)
        return
    try:
        _FCNTL.lockf(descriptor, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB, 1, place)
    except OSError as error:
        raise _as_held(error) from error


def unlock_byte(descriptor: int, place: int) -> None:
    """Unlocks what :func:`lock_byte` has locked.

    Raises:
        OSError: it is not locked, or there are no locks.
    """
    if _FCNTL is not None:
        _FCNTL.lockf(descriptor, _FCNTL.LOCK_UN, 1, place)
    elif _MSVCRT is not None:
        _at(descriptor, place % _LAST_BYTE, _MSVCRT, _MSVCRT.LK_UNLCK)


def _lock_byte_of_windows(descriptor: int, place: int) -> None:
    if _MSVCRT is None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    try:
        _at(descriptor, place, _MSVCRT, _MSVCRT.LK_NBLCK)
    except OSError as error:
        raise _as_held(error) from error


def _at(descriptor: int, place: int, msvcrt: ModuleType, mode: int) -> None:
    with _PLACE:
        os.lseek(descriptor, place, os.SEEK_SET)
        msvcrt.locking(descriptor, mode, 1)


def _as_held(error: OSError) -> OSError:
    if error.errno in _HELD:
        return BlockingIOError(error.errno, error.strerror)
    return error

"""Files that appear whole: written in a hidden folder beside their place, and renamed.

A process that is killed meanwhile leaves its folder. It held a lock on it, which the kernel takes
from a process that ends; so the next writer knows such a folder, and removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_RANDOM = "[a-z0-9_]{8}"
"""What ``tempfile`` puts behind a prefix."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
"""Errors of file systems without locks of folders; NFS wants a file that is open for writing."""


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """Where to write a file, and others beside it; they appear at the end of the ``with`` block.

    What was there before stays until then. Folders that writers of this user on this host left in
    the same place when they were killed are removed, where the file system has locks.

    Args:
        target: the file; it is renamed last.

    Yields:
        A path of the same name in a folder of its own.

    Raises:
        OSError: the folder cannot be made, or a file in it not be moved.
    """
    # Not every file system shows a lock to other hosts.
    prefix = f".paddle_ipu.{socket.gethostname()}."
    _remove_left_overs(target.parent, prefix)
    folder, lock = _locked_folder(target.parent, prefix)
    try:
        yield folder / target.name
        beside = [path for path in folder.iterdir() if path.name != target.name]
        for path in (*beside, folder / target.name):
            os.replace(path, target.parent / path.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_left_overs(parent: Path, prefix: str) -> None:
    name = re.compile(re.escape(prefix) + _RANDOM)
    with suppress(OSError):
        for folder in parent.iterdir():
            if name.fullmatch(folder.name):
                with suppress(OSError):
                    lock = _opened(folder)
                    try:
                        if os.fstat(lock).st_uid == os.geteuid():
                            _lock(lock, folder)
                            shutil.rmtree(folder, ignore_errors=True)
                    finally:
                        os.close(lock)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder, and its descriptor, which holds the lock.

    Raises:
        OSError: it cannot be made.
    """
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        try:
            lock = _opened(folder)
        except FileNotFoundError:
            # Another writer removed it as a left-over, as nothing was locked yet.
            continue
        try:
            _lock(lock, folder)
        except (BlockingIOError, FileNotFoundError):
            # Another writer is about to.
            os.close(lock)
            continue
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(lock)
                shutil.rmtree(folder, ignore_errors=True)
                raise
        return folder, lock


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(lock: int, folder: Path) -> None:
    """Locks a folder.

    Raises:
        BlockingIOError: another writer holds it.
        FileNotFoundError: its writer, or another one, has removed it.
        OSError: the file system has no locks.
    """
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.path.samestat(os.fstat(lock), os.stat(folder, follow_symlinks=False)):
        raise FileNotFoundError(folder)

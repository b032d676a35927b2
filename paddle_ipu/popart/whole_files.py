"""Files that appear whole: written in a hidden folder beside their place, and renamed.

A process that is killed meanwhile leaves its folder. It held a lock on it, which the kernel takes
from a process that ends; so the next writer knows such a folder, and removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paddle_ipu.operating_system import file_locks, users

_RANDOM = "[a-z0-9_]{8}"
"""What ``tempfile`` puts behind a prefix."""


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
        if lock is not None:
            os.close(lock)


def _remove_left_overs(parent: Path, prefix: str) -> None:
    name = re.compile(re.escape(prefix) + _RANDOM)
    with suppress(OSError):
        for folder in parent.iterdir():
            if name.fullmatch(folder.name):
                with suppress(OSError):
                    lock = file_locks.opened_folder(folder)
                    if lock is None:
                        continue
                    try:
                        if users.is_this_user(os.fstat(lock).st_uid):
                            _lock(lock, folder)
                            shutil.rmtree(folder, ignore_errors=True)
                    finally:
                        os.close(lock)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int | None]:
    """A new folder, and its descriptor, which holds the lock; None on Windows, which has none.

    Raises:
        OSError: it cannot be made.
    """
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        try:
            lock = file_locks.opened_folder(folder)
        except FileNotFoundError:
            # Another writer removed it as a left-over, as nothing was locked yet.
            continue
        if lock is None:
            return folder, None
        try:
            _lock(lock, folder)
        except (BlockingIOError, FileNotFoundError):
            # Another writer is about to.
            os.close(lock)
            continue
        except OSError as error:
            if error.errno not in file_locks.NO_LOCKS:
                os.close(lock)
                shutil.rmtree(folder, ignore_errors=True)
                raise
        return folder, lock


def _lock(lock: int, folder: Path) -> None:
    """Locks a folder.

    Raises:
        BlockingIOError: another writer holds it.
        FileNotFoundError: its writer, or another one, has removed it.
        OSError: the file system has no locks.
    """
    file_locks.lock(lock, waits=False)
    if not os.path.samestat(os.fstat(lock), os.stat(folder, follow_symlinks=False)):
        raise FileNotFoundError(folder)

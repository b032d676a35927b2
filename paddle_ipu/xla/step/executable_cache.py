"""The folder that keeps compiled programs for other processes: entries, digests, locks, bound.

What is in an entry is machine code: beside what ``executable_file.py`` asks of a file, the folder
has to belong to this user or to root, and nobody else may write it, and the key in the file is the
one that was asked for. An entry that fails is as good as none. Entries appear whole, and the ones
that were used least recently go when the folder is larger than its bound.

One process compiles while the others that want the same entry wait. Their locks are POSIX record
locks on one file, which the kernel takes from a process that ends.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.errors import CacheError
from paddle_ipu.operating_system import file_locks, open_flags, users
from paddle_ipu.options.cache_folder import CACHE_SIZE_VARIABLE
from paddle_ipu.xla.step import executable_file
from paddle_ipu.xla.step.executable_file import UNFINISHED

_LOG = logging.getLogger("paddle_ipu")

DEFAULT_SIZE = 5 * 2**30

_ENTRY, _LOCK = ".ipuexe", "lock"
_ABANDONED_SECONDS = 3600.0
_POLL_SECONDS = 0.05
_REPORT_AFTER_SECONDS = 1.0
_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}

_sizes: dict[Path, int] = {}
"""Folder -> bytes of its entries when this process last looked, and of what it has kept since."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one file of a cache is.

    Attributes:
        key: its key, hexadecimal; also the file's name.
        size: bytes of the file.
        used: when it was written or last loaded, in seconds since the epoch.
    """

    key: str
    size: int
    used: float


def size_limit() -> int:
    """How large a cache may be, in bytes, by :data:`CACHE_SIZE_VARIABLE`.

    Raises:
        CacheError: the variable holds something else than a size.
    """
    text = os.environ.get(CACHE_SIZE_VARIABLE, "").strip()
    if not text:
        return DEFAULT_SIZE
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B)?", text, re.IGNORECASE)
    if match is None:
        raise CacheError(
            f"{CACHE_SIZE_VARIABLE} is {text!r}, expected a number of bytes or one with a unit, "
            "such as 500MB or 5GB"
        )
    return int(float(match[1]) * _UNITS[(match[2] or "").upper()])


class ExecutableCache:
    """The entries in one folder.

    Args:
        folder: made where it does not exist, for this user only.

    Attributes:
        limit: bytes of all entries together, at most.

    A folder that cannot be written, be it root's, is used for what it holds; nothing new is kept.

    Raises:
        CacheError: the folder cannot be made, is empty and cannot be written, or others can write
            it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(os.path.expanduser(folder)))
        self.limit = size_limit()
        self._check_folder()

    # -- the folder ----------------------------------------------------------------------------

    def _check_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.stat()
        except OSError as error:
            raise CacheError(
                f"the cache of compiled programs cannot be at {self.folder}: {error.strerror}. "
                "Give another folder as cache_path, or turn enable_engine_caching off"
            ) from error
        if not users.is_this_user_or_root(status.st_uid):
            raise CacheError(
                f"the cache of compiled programs at {self.folder} belongs to user "
                f"{status.st_uid}, not to this one ({users.this_user()}): what is in it runs as "
                "machine code. Give a folder of your own as cache_path"
            )
        if users.others_write(status.st_mode):
            raise CacheError(
                f"the cache of compiled programs at {self.folder} can be written by other users "
                f"(mode {stat.S_IMODE(status.st_mode):o}): what is in it runs as machine code. Run "
                f"chmod go-w {self.folder}, or give another folder as cache_path"
            )
        self._is_writable = os.access(self.folder, os.W_OK | os.X_OK)
        if not self._is_writable and not self._is_filled():
            raise CacheError(
                f"the cache of compiled programs at {self.folder} cannot be written (mode "
                f"{stat.S_IMODE(status.st_mode):o}, or a file system that is read-only), and holds "
                f"no program. Run chmod u+rwx {self.folder}, or give another folder as cache_path"
            )

    def _is_filled(self) -> bool:
        return os.access(self.folder, os.R_OK | os.X_OK) and bool(self.entries())

    def _path(self, key: str) -> Path:
        return self.folder / (key + _ENTRY)

    def entries(self) -> list[Entry]:
        """Every entry, the one used last first."""
        entries = []
        for path in self.folder.glob("*" + _ENTRY):
            with suppress(FileNotFoundError):
                known = path.stat()
                entries.append(Entry(path.name.removesuffix(_ENTRY), known.st_size, known.st_mtime))
        return sorted(entries, key=lambda entry: (-entry.used, entry.key))

    # -- entries -------------------------------------------------------------------------------

    def load(self, key: str) -> tuple[Mapping[str, Any], bytes] | None:
        """The entry's description and content; None where there is none that can be trusted."""
        entry = self.examine(key)
        if isinstance(entry, str):
            if entry:
                _LOG.warning(
                    "The compiled program %s is not used: %s. It is compiled again.",
                    self._path(key),
                    entry,
                )
            return None
        with suppress(OSError):
            os.utime(self._path(key))
        return entry

    def examine(self, key: str) -> tuple[Mapping[str, Any], bytes] | str:
        """What :meth:`load` gives, or why it gives nothing; "" where there is no such entry."""
        try:
            found = executable_file.read(self._path(key))
        except FileNotFoundError:
            return ""
        if isinstance(found, str):
            return found
        head, content = found
        try:
            owner, description = head["key"], dict(head["description"])
        except (ValueError, LookupError, TypeError):
            return "what it says of itself is not what this version writes"
        if owner != key:
            return "it is the entry of another program"
        return description, bytes(content)

    def store(self, key: str, description: Mapping[str, Any], content: bytes) -> bool:
        """Writes an entry; False, and a warning, where the file system does not take it.

        Args:
            key: hexadecimal digits.
            description: what JSON can hold.
            content: the entry's bytes.
        """
        head = {"key": key, "description": description}
        try:
            executable_file.write(self._path(key), head, content)
            self._trim(key)
        except OSError as error:
            _LOG.warning(
                "A compiled program was not kept in %s: %s.", self.folder, error.strerror or error
            )
            return False
        return True

    def remove(self, key: str) -> None:
        """Removes an entry, if there is one."""
        with suppress(FileNotFoundError):
            self._path(key).unlink()

    def clear(self) -> int:
        """Removes every entry; gives how many there were.

        What another process is compiling meanwhile is kept when it is done.
        """
        entries = self.entries()
        for entry in entries:
            self.remove(entry.key)
        for path in self.folder.glob("*" + UNFINISHED):
            path.unlink(missing_ok=True)
        return len(entries)

    def _trim(self, newest: str) -> None:
        """Removes what was used least recently, down to the bound, and abandoned files.

        A folder may have many thousands of entries: this process looks through them when it first
        keeps something, and again when what it has kept since would be beyond the bound.

        Args:
            newest: the key of the entry that was just written, and stays.
        """
        known = _sizes.get(self.folder)
        if known is not None:
            known += self._path(newest).stat().st_size
            if known <= self.limit:
                _sizes[self.folder] = known
                return
        for path in self.folder.glob("*" + UNFINISHED):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
        total = 0
        for entry in self.entries():
            total += entry.size
            if total > self.limit and entry.key != newest:
                self.remove(entry.key)
                total -= entry.size
        _sizes[self.folder] = total

    # -- locks ---------------------------------------------------------------------------------

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Nobody else, thread or process, is in here with the same key.

        Where the file system has no locks, or no room for the file of them, processes do not wait
        for one another, nor where nothing can be written, which is what they would wait for.
        """
        lock_file = self._lock_file() if self._is_writable else None
        if lock_file is None:
            yield
            return
        # A byte of the lock file for each key; the offset is a signed number of 64 bits.
        place = int(hashlib.sha256(key.encode()).hexdigest()[:15], 16)
        with lock_file.thread_lock(place):
            locked = self._wait_for(lock_file, place)
            try:
                yield
            finally:
                if locked:
                    file_locks.unlock_byte(lock_file.descriptor, place)

    def _lock_file(self) -> _LockFile | None:
        path = self.folder / _LOCK
        try:
            return _LockFile.of(path)
        except OSError as error:
            _warn_unlocked(path, error)
            return None

    def _wait_for(self, lock_file: _LockFile, place: int) -> bool:
        start, reported = time.monotonic(), False
        while True:
            try:
                file_locks.lock_byte(lock_file.descriptor, place)
            except BlockingIOError:
                pass
            except OSError as error:
                _warn_unlocked(lock_file.path, error)
                return False
            else:
                return True
            if not reported and time.monotonic() - start > _REPORT_AFTER_SECONDS:
                _LOG.info("Waiting for another process that compiles the same program.")
                reported = True
            time.sleep(_POLL_SECONDS)


def _warn_unlocked(path: Path, error: OSError) -> None:
    _LOG.warning(
        "%s cannot be locked (%s): processes that want the same program compile it each for "
        "themselves.",
        path,
        error.strerror,
    )


class _LockFile:
    """A lock file, opened once a process: closing any descriptor of it would drop all its locks."""

    _known: dict[tuple[int, int], _LockFile] = {}
    _guard = threading.Lock()

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._threads: dict[int, tuple[threading.Lock, int]] = {}

    @classmethod
    def of(cls, path: Path) -> _LockFile:
        """The lock file at `path`, which is made where there is none.

        Raises:
            OSError: it cannot be made.
        """
        with cls._guard:
            try:
                known = path.stat()
            except FileNotFoundError:
                pass
            else:
                if (existing := cls._known.get((known.st_dev, known.st_ino))) is not None:
                    return existing
            flags = os.O_RDWR | os.O_CREAT | open_flags.NO_LINKS | open_flags.NOT_IN_PROGRAMS
            descriptor = os.open(path, flags, 0o600)
            known = os.fstat(descriptor)
            made = cls(path, descriptor)
            return cls._known.setdefault((known.st_dev, known.st_ino), made)

    @contextmanager
    def thread_lock(self, place: int) -> Iterator[None]:
        """Keeps other threads of this process out; record locks are the process's."""
        with self._guard:
            lock, users = self._threads.get(place, (threading.Lock(), 0))
            self._threads[place] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._threads[place]
                if users == 1:
                    del self._threads[place]
                else:
                    self._threads[place] = lock, users - 1

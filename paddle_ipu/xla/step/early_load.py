"""The executable that a program had last time, loaded while the program is still translated.

Which executable a program has is known when it is translated, and traced where need be. Mostly it
is the one that a program which looks like it had the last time, and loading that takes as long as
translating. So it is loaded meanwhile, in a thread, and taken if it turns out to be the one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import jax

from paddle_ipu.errors import CacheError
from paddle_ipu.xla import process
from paddle_ipu.xla.step.executable_cache import ExecutableCache
from paddle_ipu.xla.step.stored_executable import StoredExecutable, load_as_described
from paddle_ipu.xla.step.surroundings import digest_of_surroundings

_LOG = logging.getLogger("paddle_ipu")


class EarlyLoad:
    """Loads in a thread what the cache has for programs of one look.

    Args:
        folder: of the cache.
        likeness: a text that programs which look alike have in common.
    """

    def __init__(self, folder: str, likeness: str) -> None:
        process.check_fork()
        process.prepare()
        self._folder = folder
        self._likeness = likeness
        self._key = ""
        self._traced: Future[str] = Future()
        self._loaded: StoredExecutable | None = None
        self._is_done = threading.Event()
        self._is_closed = False
        threading.Thread(target=self._run, name="paddle_ipu loads").start()

    def _run(self) -> None:
        loaded = None
        try:
            self._key = digest_of_surroundings("looks like", self._likeness)
            cache = ExecutableCache(self._folder)
            hint = cache.load(self._key)
            traced = "" if hint is None else str(hint[0].get("executable", ""))
            self._traced.set_result(traced)
            if traced:
                loaded = load_as_described(cache, traced, jax.local_devices()[:1])
        except Exception as error:
            # Whoever compiles the program meets it again, and says it.
            _LOG.debug("No executable was loaded early: %r", error)
        finally:
            if not self._traced.done():
                self._traced.set_result("")
            self._loaded = loaded
            if self._is_closed:
                self._loaded = None
            self._is_done.set()

    def take(
        self, traced: str, trees: tuple[Any, Any], devices: Sequence[Any]
    ) -> StoredExecutable | None:
        """The executable of a traced step, if that is what was loaded; waits for its end.

        Args:
            traced: the key of the traced step.
            trees: of its arguments and results.
            devices: JAX's, on which it runs.
        """
        if self._traced.result() != traced or list(devices) != jax.local_devices()[:1]:
            return None
        self._is_done.wait()
        loaded = self._loaded
        return loaded if loaded is not None and loaded.trees == trees else None

    def close(self) -> None:
        """Drops what was loaded: it was taken, or is another program's."""
        self._is_closed = True
        self._loaded = None

    def remember(self, traced: str) -> None:
        """Has the next program of this look begin with the executable of a traced step."""
        if self._traced.result() == traced or not self._key:
            return
        try:
            ExecutableCache(self._folder).store(self._key, {"executable": traced}, b"")
        except CacheError as error:
            _LOG.debug("What a program looks like was not kept: %s", error)

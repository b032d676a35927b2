"""``paddle.utils.cpp_extension.load`` where a custom operator has a half for PopART.

The half for Paddle's CPU compiles as always. A source that includes headers of Graphcore's SDK is
left out where there is none. Processes that build the same operators do so one after the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from paddle_ipu import seam
from paddle_ipu.errors import BackendUnavailableError

_LOG = logging.getLogger("paddle_ipu")
_SDK_HEADER = re.compile(
    r'^\s*#\s*include\s*[<"](?P<header>(?:popart|popops|poplin|popnn|poputil|poprand|poplar)/[^>"]+)',
    re.MULTILINE,
)


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """``load`` that leaves out what needs Graphcore's headers, with a line that says so."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load(name: str, sources: Sequence[str], *args: Any, **keywords: Any) -> Any:
        given = signature.bind(name, sources, *args, **keywords).arguments
        with _alone(name, given.get("build_directory")):
            return original(name, _buildable(name, sources), *args, **keywords)

    return load


@contextlib.contextmanager
def _alone(name: str, folder: str | None) -> Iterator[None]:
    """Keeps other processes from building `name` in the same folder meanwhile.

    Paddle writes ``<name>_setup.py`` and builds in place, so that ranks of one job, which all load
    the operators of one script, would write into each other's files.
    """
    if folder is None:
        # Where Paddle builds; its own check before it makes the folder is a race.
        folder = os.environ.get("PADDLE_EXTENSION_DIR") or os.path.expanduser(
            os.path.join("~", ".cache", "paddle_extensions")
        )
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _buildable(name: str, sources: Sequence[str]) -> Sequence[str]:
    if seam.sdk_installed():
        return sources
    needs = {source: header for source in sources if (header := _sdk_header(source))}
    if not needs:
        return sources
    for source, header in needs.items():
        _LOG.warning(
            "%s: %s includes <%s> of Graphcore's SDK, which is not installed; it is left out.",
            name,
            os.path.basename(source),
            header,
        )
    kept = [source for source in sources if source not in needs]
    if not kept:
        raise BackendUnavailableError(
            f"cpp_extension.load({name!r}): every source includes headers of Graphcore's SDK, "
            "which is not installed. Give that of the CPU kernel (PD_BUILD_OP) too."
        )
    return kept


def _sdk_header(source: str) -> str | None:
    """The first header of the SDK that a source file includes, None without one."""
    try:
        with open(source, encoding="utf-8", errors="replace") as file:
            match = _SDK_HEADER.search(file.read())
    except OSError:
        # The compiler says what is wrong with it.
        return None
    return match["header"] if match else None

"""The folder of compiled programs that is this user's own, and the variables that are about it."""

from __future__ import annotations

import os
from pathlib import Path

from paddle_ipu.errors import CacheError

CACHE_VARIABLE = "IPU_CACHE_PATH"
"""Names the folder of compiled programs; empty, there is none unless the options name one."""

CACHE_SIZE_VARIABLE = "PADDLE_IPU_CACHE_SIZE"
"""How large the folder may be, in bytes or with a unit, as ``500MB``."""


def default_folder() -> Path:
    """Where programs are kept if nothing says where: in this user's folder of caches.

    Raises:
        CacheError: this user has no home folder.
    """
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    if not os.path.isabs(caches):
        caches = os.path.expanduser("~/.cache")
    if not os.path.isabs(caches):
        raise CacheError(
            "this user has no home folder for compiled programs; name a folder by "
            f"{CACHE_VARIABLE} or XDG_CACHE_HOME"
        )
    return Path(caches) / "paddle_ipu"

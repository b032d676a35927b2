"""The folder of compiled programs that is this user's own, and the variables that are about it."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "IPU_CACHE_PATH"
"""Names the folder of compiled programs; empty, there is none unless the options name one."""

CACHE_SIZE_VARIABLE = "PADDLE_IPU_CACHE_SIZE"
"""How large the folder may be, in bytes or with a unit, as ``500MB``."""


def default_folder() -> Path:
    """Where programs are kept if nothing says where: in this user's folder of caches."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    root = Path(caches) if os.path.isabs(caches) else Path("~/.cache").expanduser()
    return root / "paddle_ipu"

"""Checks that the packages of an example's extra are installed, before anything imports them."""

from __future__ import annotations

import importlib.util
import sys


def require(extra: str, *packages: str) -> None:
    """End the process with exit code 2, naming what is missing and the extra that brings it.

    An example calls this in its ``__init__.py``, which Python runs before the example's own files.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"this example needs {', '.join(missing)}, not installed in {sys.executable}; "
            f"install the project with the example's extra: pip install '.[{extra}]'",
            file=sys.stderr,
        )
        raise SystemExit(2)

"""Where this checkout is. Its folder may have any name, ``paddle_ipu`` too."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]

_OWN = tuple(ROOT / name for name in ("paddle_ipu", "ops", "passes"))


def is_of_the_package(path: str | Path) -> bool:
    """Whether a file is one of the package's, not of a test nor of an environment in here."""
    return any(Path(path).is_relative_to(folder) for folder in _OWN)

"""Says, once a process for each way into it, that something runs on the CPU and not on the IPU."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("paddle_ipu")

_told: set[str] = set()


def is_told(about: str) -> bool:
    """Whether it was said."""
    return about in _told


def tell(about: str, message: str) -> None:
    """Logs a warning, where none was logged yet of what it is about."""
    if about not in _told:
        _told.add(about)
        _LOG.warning(message)


def forget() -> None:
    """Has everything be said again."""
    _told.clear()

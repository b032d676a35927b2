"""Warns, once a process for each subject, of what runs on the CPU and not on the IPU."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("paddle_ipu")

_warned: set[str] = set()


def is_warned(subject: str) -> bool:
    """Whether a warning about the subject was logged."""
    return subject in _warned


def warn_once(subject: str, message: str) -> None:
    """Logs a warning, unless one about the subject was logged."""
    if subject not in _warned:
        _warned.add(subject)
        _LOG.warning(message)


def reset() -> None:
    """Has every subject be warned of again."""
    _warned.clear()

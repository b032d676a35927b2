"""``popart.getLogger``: PopART's names of log levels and of modules, on Python's `logging`."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import TextIO

_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
}
_OFF = logging.CRITICAL + 1
_PYTHON = logging.getLogger("popart.python")


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at that moment, which tests and notebooks replace."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def _is_shown(logger: logging.Logger) -> bool:
    """Whether a handler writes the logger's messages where somebody sees them at once."""
    seen: logging.Logger | None = logger
    while seen is not None:
        for handler in seen.handlers:
            if isinstance(handler, _StandardError):
                return True
            stream = getattr(handler, "stream", None)
            if stream in (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__) and stream:
                return True
        seen = seen.parent if seen.propagate else None
    return False


@dataclass(frozen=True, slots=True)
class Logger:
    """Sets the level of a module's messages, and logs some of the caller's own.

    Attributes:
        name: the module, such as ``session``, ``ir``, ``devicex`` or ``python``; ``all`` of them.
    """

    name: str = "all"

    def setLevel(self, level: str) -> None:
        """Which messages are shown.

        Args:
            level: TRACE, DEBUG, INFO, WARN, ERR, CRITICAL or OFF; anything else turns them off,
                as PopART does. They go to standard error, as PopART's do, unless a handler of
                the program's own shows them there or on standard output.
        """
        logger = logging.getLogger("popart" if self.name == "all" else f"popart.{self.name}")
        logger.setLevel(_LEVELS.get(level, _OFF))
        if not _is_shown(logger):
            logging.getLogger("popart").addHandler(_StandardError())

    def debug(self, info: str) -> None:
        """Logs a message of the caller's at DEBUG, under the module ``python``."""
        _PYTHON.debug("%s", info)

    def info(self, info: str) -> None:
        """The same at INFO."""
        _PYTHON.info("%s", info)

    def warn(self, info: str) -> None:
        """The same at WARN."""
        _PYTHON.warning("%s", info)

    def error(self, info: str) -> None:
        """The same at ERR."""
        _PYTHON.error("%s", info)

    def critical(self, info: str) -> None:
        """The same at CRITICAL."""
        _PYTHON.critical("%s", info)


def getLogger(name: str = "all") -> Logger:
    """The logger of a module."""
    return Logger(name)

"""``popart.getLogger``: PopART's names of log levels and of modules, on Python's `logging`."""

from __future__ import annotations

import logging
from dataclasses import dataclass

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
                as PopART does. Where nothing shows messages yet, they go to standard error.
        """
        logger = logging.getLogger("popart" if self.name == "all" else f"popart.{self.name}")
        logger.setLevel(_LEVELS.get(level, _OFF))
        if not logger.hasHandlers():
            logging.getLogger("popart").addHandler(logging.StreamHandler())

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

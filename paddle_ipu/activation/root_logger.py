"""The handler that Paddle's import leaves on Python's root logger.

Paddle names a logger of its own "root", which is the root logger since Python 3.9. A script that
calls ``logging.basicConfig`` after ``import paddle`` configures nothing then, and what it logs is
lost.
"""

from __future__ import annotations

import logging

_PADDLE_FORMAT = "[%(asctime)-15s] [%(levelname)8s] %(filename)s:%(lineno)s - %(message)s"
_removed: list[logging.Handler] = []


def release() -> None:
    """Takes Paddle's handler off the root logger, and no other."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        formatter = handler.formatter
        if formatter is not None and formatter._fmt == _PADDLE_FORMAT:
            root.removeHandler(handler)
            _removed.append(handler)


def restore() -> None:
    """Puts back what :func:`release` took."""
    root = logging.getLogger()
    while _removed:
        root.addHandler(_removed.pop())

"""When parameters and buffers of dynamic mode were last written, and by whom it was not noticed.

Between two calls of a layer the newest weights are in its tensors on the host; a program takes
from there what has been written since it last ran. Paddle counts what operators write in place, but
not what ``set_value``, initializers and optimizers write, so these tell here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from paddle_ipu.dygraph import registration

_turn = 0
_written: dict[str, int] = {}


def note(names: Iterable[str]) -> None:
    """Says that tensors of these names were written."""
    global _turn
    _turn += 1
    for name in names:
        _written[name] = _turn


def now() -> int:
    """The turn to ask :func:`since` with later."""
    return _turn


def since(turn: int, names: Iterable[str]) -> list[str]:
    """Those of the names that were written after `turn`."""
    if turn == _turn:
        return []
    return [name for name in names if _written.get(name, 0) > turn]


def writing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``set_value`` or ``copy_`` of ``paddle.Tensor`` that tells."""

    @functools.wraps(original)
    def write(self: Any, *args: Any, **keywords: Any) -> Any:
        result = original(self, *args, **keywords)
        if registration.current() is not None:
            note([self.name])
        return result

    return write


def initializing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Initializer.__call__`` that tells, where it fills a tensor that exists."""

    @functools.wraps(original)
    def initialize(self: Any, param: Any, *args: Any, **keywords: Any) -> Any:
        result = original(self, param, *args, **keywords)
        if registration.current() is not None and getattr(param, "name", None):
            note([param.name])
        return result

    return initialize

"""Versions of parameters and buffers of dynamic mode, of which Paddle counts only a part.

Between two calls of a layer the newest weights are in its tensors on the host; a program uploads
those that were written since its last run. Paddle counts what operators write in place, but not
what ``set_value``, initializers and optimizers write: these are noted here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from paddle_ipu.dygraph import registration

_version = 0
_versions: dict[str, int] = {}


def note(names: Iterable[str]) -> None:
    """Gives tensors that were written the next version.

    Args:
        names: of the tensors.
    """
    global _version
    _version += 1
    for name in names:
        _versions[name] = _version


def version() -> int:
    """The newest version that any tensor has."""
    return _version


def since(version: int, names: Iterable[str]) -> list[str]:
    """Those of the names whose tensors have a newer version."""
    if version == _version:
        return []
    return [name for name in names if _versions.get(name, 0) > version]


def writing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``set_value`` or ``copy_`` of ``paddle.Tensor``, noted."""

    @functools.wraps(original)
    def write(self: Any, *args: Any, **keywords: Any) -> Any:
        result = original(self, *args, **keywords)
        if registration.current() is not None:
            note([self.name])
        return result

    return write


def initializing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Initializer.__call__``, noted if it fills a tensor that exists."""

    @functools.wraps(original)
    def initialize(self: Any, param: Any, *args: Any, **keywords: Any) -> Any:
        result = original(self, param, *args, **keywords)
        if registration.current() is not None and getattr(param, "name", None):
            note([param.name])
        return result

    return initialize

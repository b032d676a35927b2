"""Which strategy to_static layers run with: the last one made, or registered, in dynamic mode."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from paddle.base.compiler import IpuDynamicPatcher

from paddle_ipu.options.strategy import Strategy

_registered: Strategy | None = None
_listeners: list[Callable[[], None]] = []

_NOT_COMPILED_IN = frozenset({"lr", "runtime_options.enable_eval"})
"""Options that may change without compiling again."""


def current() -> Strategy | None:
    """The registered ``paddle.static.IpuStrategy``, None while layers run on the CPU."""
    return _registered


def before_change(listener: Callable[[], None]) -> None:
    """Calls ``listener()`` before another strategy is registered, or none."""
    _listeners.append(listener)


def registering(original: object) -> staticmethod[[Strategy], None]:
    """``IpuDynamicPatcher.register_patch`` that has layers run on the IPU with a strategy.

    Stock Paddle wraps ``LRScheduler.step`` once more for every strategy; here the wrapper of the
    last one is removed first.
    """

    def register_patch(ipu_strategy: Strategy) -> None:
        global _registered
        _unregister()
        IpuDynamicPatcher.patch_lr_scheduler(ipu_strategy)
        _registered = ipu_strategy

    return staticmethod(register_patch)


def releasing(original: object) -> staticmethod[[], None]:
    """``IpuDynamicPatcher.release_patch`` that has layers run on the CPU again."""

    def release_patch() -> None:
        _unregister()

    return staticmethod(release_patch)


def _unregister() -> None:
    global _registered
    if _registered is not None:
        for listener in _listeners:
            listener()
    for owner, name, stock in reversed(IpuDynamicPatcher.patcher_cache):
        setattr(owner, name, stock)
    IpuDynamicPatcher.patcher_cache.clear()
    _registered = None


_generations: weakref.WeakKeyDictionary[Any, tuple[int, object]] = weakref.WeakKeyDictionary()


def generation(strategy: Strategy) -> int:
    """Counts the changes of a strategy after which programs have to be compiled again."""
    number, options = _generations.get(strategy, (0, None))
    if options is not None and not strategy.need_compile:
        return number
    strategy.need_compile = False
    now = _compiled_options(strategy)
    if now != options:
        number += 1
        _generations[strategy] = number, now
    return number


def _compiled_options(strategy: Strategy) -> tuple[object, ...]:
    values = strategy._ipu_strategy.snapshot()
    options = tuple(
        (name, repr(value)) for name, value in values.items() if name not in _NOT_COMPILED_IN
    )
    return (*options, repr(dict(values.patterns)), repr(dict(values.custom_ops)))

"""Which strategy to_static layers run with: the last one made, or registered, in dynamic mode."""

from __future__ import annotations

import weakref
from typing import Any

_registered: Any = None
_listeners: list[Any] = []

_NOT_COMPILED_IN = frozenset({"lr", "runtime_options.enable_eval"})
"""Options that may change without compiling again."""


def current() -> Any:
    """The registered ``paddle.static.IpuStrategy``, None while layers run on the CPU."""
    return _registered


def when_it_changes(listener: Any) -> None:
    """Has ``listener()`` called before another strategy is registered, or none."""
    _listeners.append(listener)


def registering(original: Any) -> Any:
    """``IpuDynamicPatcher.register_patch`` that has layers run on the IPU with a strategy.

    Stock Paddle wraps ``LRScheduler.step`` once more for every strategy; here the last one's
    wrapper is taken back first.
    """

    def register_patch(ipu_strategy: Any) -> None:
        global _registered
        from paddle.base.compiler import IpuDynamicPatcher

        _take_back()
        IpuDynamicPatcher.patch_lr_scheduler(ipu_strategy)
        _registered = ipu_strategy

    return staticmethod(register_patch)


def releasing(original: Any) -> Any:
    """``IpuDynamicPatcher.release_patch`` that has layers run on the CPU again."""

    def release_patch() -> None:
        _take_back()

    return staticmethod(release_patch)


def _take_back() -> None:
    global _registered
    from paddle.base.compiler import IpuDynamicPatcher

    if _registered is not None:
        for listener in _listeners:
            listener()
    for owner, name, stock in reversed(IpuDynamicPatcher.patcher_cache):
        setattr(owner, name, stock)
    IpuDynamicPatcher.patcher_cache.clear()
    _registered = None


_generations: weakref.WeakKeyDictionary[Any, tuple[int, Any]] = weakref.WeakKeyDictionary()


def generation(strategy: Any) -> int:
    """Counts the changes of a strategy that ask for programs to be compiled again."""
    number, options = _generations.get(strategy, (0, None))
    if options is not None and not strategy.need_compile:
        return number
    strategy.need_compile = False
    now = _compiled_options(strategy)
    if now != options:
        number += 1
        _generations[strategy] = number, now
    return number


def _compiled_options(strategy: Any) -> tuple[Any, ...]:
    values = strategy._ipu_strategy.snapshot()
    options = tuple(
        (name, repr(value)) for name, value in values.items() if name not in _NOT_COMPILED_IN
    )
    return (*options, repr(dict(values.patterns)), repr(dict(values.custom_ops)))

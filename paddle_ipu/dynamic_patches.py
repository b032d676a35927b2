"""What Paddle's ``IpuStrategy`` patches in dynamic mode, patched once however many there are.

Every strategy that is made in dynamic mode wraps ``LRScheduler.step`` again, around the wrapper of
the one before; after a thousand of them a step of the scheduler exceeds Python's recursion limit.
"""

from __future__ import annotations

import functools
from typing import Any


def registering_once(original: Any) -> Any:
    """``IpuDynamicPatcher.register_patch`` that takes back the last one's patches first."""
    register = getattr(original, "__func__", original)

    @functools.wraps(register)
    def register_patch(ipu_strategy: Any) -> None:
        from paddle.base.compiler import IpuDynamicPatcher

        for owner, name, stock in reversed(IpuDynamicPatcher.patcher_cache):
            setattr(owner, name, stock)
        IpuDynamicPatcher.patcher_cache.clear()
        register(ipu_strategy)

    return staticmethod(register_patch)

"""Forks a test's process, where the child must share what the test made."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """Runs it in a forked process, which ends with 0, or with 1 where the work raises.

    No garbage is collected there: what other tests left belongs to threads that a fork does not
    have. Python may collect before ``os.fork`` returns in the child, so that it is off before.

    Returns:
        the child's id.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        return child
    finally:
        if collects:
            gc.enable()

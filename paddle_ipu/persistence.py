"""Keeps ``paddle.static.save``, ``load`` and ``set_program_state`` true while weights are away.

After compilation the newest weights live on the device. A save first brings them into the Scope;
a load afterwards makes the next run take the Scope's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paddle_ipu.backend import live_backends, update_scopes


def saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with weights brought to the Scope before it reads them there."""

    @functools.wraps(original)
    def with_fresh_weights(*args: Any, **keywords: Any) -> Any:
        update_scopes()
        return original(*args, **keywords)

    return with_fresh_weights


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with devices told that the Scope holds other weights now."""

    @functools.wraps(original)
    def with_stale_devices(*args: Any, **keywords: Any) -> Any:
        # What is trained so far and not loaded must not be lost with the device's copy.
        update_scopes()
        try:
            return original(*args, **keywords)
        finally:
            # A load that fails half-way has written a part.
            for backend in live_backends():
                backend.mark_stale()

    return with_stale_devices

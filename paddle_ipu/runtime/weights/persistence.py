"""Keeps ``paddle.static.save``, ``load`` and ``set_program_state`` true while weights are away.

After compilation the newest weights live on the device. A save first brings them into the Scope;
a load afterwards makes the next run take the Scope's.

A checkpoint may hold its floats in another width than the program: Paddle 2.6 keeps the weights of
a model that was cast to half after `minimize` in float32, and casts those of the same model without
an optimizer, where 2.4 cast both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle

from paddle_ipu.runtime.weights.owner import live_backends, update_scopes

_FLOATS = frozenset({np.dtype(np.float16), np.dtype(np.float32)})


def saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with weights brought to the Scope before it reads them there."""

    @functools.wraps(original)
    def with_fresh_weights(*args: Any, **keywords: Any) -> Any:
        update_scopes()
        return original(*args, **keywords)

    return with_fresh_weights


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with devices told that their Scope holds other weights now."""

    @functools.wraps(original)
    def with_stale_devices(*args: Any, **keywords: Any) -> Any:
        # What is trained so far and not loaded must not be lost with the device's copy.
        update_scopes()
        default = paddle.static.global_scope()
        given = [each for each in (*args, *keywords.values()) if isinstance(each, type(default))]
        scope = given[0] if given else default
        try:
            return original(*args, **keywords)
        finally:
            # A load that fails half-way has written a part.
            for backend in live_backends():
                if backend.scope is scope:
                    backend.mark_stale()

    return with_stale_devices


def setting_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """``set_program_state`` that takes float16 for float32 and the other way round."""

    @functools.wraps(original)
    def set_program_state(program: Any, state_dict: Mapping[str, Any]) -> Any:
        scope = paddle.static.global_scope()
        fitting = {
            name: _in_dtype_of(scope.find_var(name), array) for name, array in state_dict.items()
        }
        return original(program, fitting)

    return loading(set_program_state)


def _in_dtype_of(variable: Any, array: Any) -> Any:
    """`array` as the variable has its numbers, where both are floats and no number is lost."""
    if variable is None or not isinstance(array, np.ndarray) or array.dtype not in _FLOATS:
        return array
    tensor = variable.get_tensor()
    if not tensor._is_initialized():
        return array
    wanted = np.array(tensor).dtype
    if wanted == array.dtype or wanted not in _FLOATS:
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(wanted)
    # Paddle's own message is for numbers that do not fit.
    return converted if np.isfinite(converted).all() or not np.isfinite(array).all() else array

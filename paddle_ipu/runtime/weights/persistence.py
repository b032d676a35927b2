"""``paddle.static.save``, ``load``, ``set_program_state`` with the newest weights on devices.

A save first syncs them to the Scope; after a load the next run uploads the Scope's.

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

from paddle_ipu.runtime.weights import other_numbers
from paddle_ipu.runtime.weights.owner import owners, sync_to_host

_FLOATS = frozenset({np.dtype(np.float16), np.dtype(np.float32)})


def saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with weights synced to the Scope before it reads them there."""

    @functools.wraps(original)
    def with_newest_weights(*args: Any, **keywords: Any) -> Any:
        sync_to_host()
        return original(*args, **keywords)

    return with_newest_weights


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after which devices of its Scope upload weights before their next run."""

    @functools.wraps(original)
    def with_outdated_devices(*args: Any, **keywords: Any) -> Any:
        # Keeps what was trained and is not loaded.
        sync_to_host()
        default = paddle.static.global_scope()
        arguments = (*args, *keywords.values())
        scope = next((each for each in arguments if isinstance(each, type(default))), default)
        try:
            return original(*args, **keywords)
        finally:
            # A load that fails half-way has written a part.
            for owner in owners(scope):
                owner.scope_was_written()

    return with_outdated_devices


def setting_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """``set_program_state`` that takes float16 for float32 and the other way round."""

    @functools.wraps(original)
    def set_program_state(program: Any, state_dict: Mapping[str, Any]) -> Any:
        scope = paddle.static.global_scope()
        names = [variable.name for variable in program.list_vars()]
        other_numbers.warn_where_numbered_otherwise(names, state_dict)
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

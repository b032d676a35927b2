"""Optimizer state that is uploaded while its program is still being compiled.

Adam's moments are twice as large as the weights. Each array is released from the Scope once it was
uploaded, and is written there again if the compilation fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.weights.state_binding import StateBinding

Array = np.ndarray[Any, Any]
Kind = tuple[tuple[int, ...], "np.dtype[Any]"]
"""Shape and dtype of a variable."""

_WORTH_RELEASING = 1 << 16
"""Bytes from which on an array of optimizer state is released from the Scope."""


def is_worth_releasing(array: Array) -> bool:
    """Whether an array is so large that the Scope releases it once the device has it."""
    return array.nbytes >= _WORTH_RELEASING


def kind_of(array: Array) -> Kind:
    """Shape and dtype of an array."""
    return array.shape, array.dtype


class StateUpload:
    """The part of a program's optimizer state that is uploaded while it is compiled.

    Args:
        scope: where the state is.
        states: variables of optimizer state -> what the device has for them.
    """

    def __init__(self, scope: Any, states: Mapping[str, StateBinding]) -> None:
        self._scope = scope
        self._states = states
        self._session: Any = None
        self._released: dict[str, Kind] = {}

    def send(self, session: Any) -> None:
        """Uploads large arrays that the device has with the same numbers; in any thread."""
        self._session = session
        for name, binding in self._states.items():
            tensor = scopes.tensor(self._scope, name) if binding.is_exact else None
            if tensor is None:
                continue
            array = scopes.view(tensor)
            if not is_worth_releasing(array) or array.dtype != np.dtype(binding.dtype):
                continue
            session.sendState(binding.tensor, array)
            self._released[name] = kind_of(array)
            del array
            tensor._clear()

    def handed_over(self) -> dict[str, Kind]:
        """Shape and dtype of what the Scope released, which the caller answers for from now on."""
        released, self._released = self._released, {}
        return released

    def restore(self) -> None:
        """Writes what was released to the Scope again, once :meth:`send` has ended."""
        for name, (shape, _) in self._released.items():
            array = self._session.sentState(self._states[name].tensor)
            scopes.write(self._scope.find_var(name).get_tensor(), array.reshape(shape))
        self._released = {}

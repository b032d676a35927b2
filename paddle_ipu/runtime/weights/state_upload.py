"""Optimizer state that goes to the device while its program is still being compiled.

Adam's moments are twice as large as the weights. The Scope lets go of each array as it goes, and is
given it back where the compilation fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.weights.state_binding import StateBinding

Kind = tuple[tuple[int, ...], Any]

_WORTH_RELEASING = 1 << 16
"""Bytes from which on an array of optimizer state in the Scope is let go."""


def is_worth_releasing(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array of the Scope is so large that it is let go once the device has it."""
    return array.nbytes >= _WORTH_RELEASING


class StateUpload:
    """What of a program's optimizer state went to its device early.

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
        """Takes the large arrays that the device holds as they are; it may run in any thread."""
        self._session = session
        for name, binding in self._states.items():
            found = scopes.tensor(self._scope, name) if binding.is_exact else None
            if found is None:
                continue
            array = scopes.view(found)
            if not is_worth_releasing(array) or array.dtype != np.dtype(binding.dtype):
                continue
            session.sendState(binding.tensor, array)
            self._released[name] = (array.shape, array.dtype)
            del array
            found._clear()

    def handed_over(self) -> dict[str, Kind]:
        """Shape and dtype of what the Scope was relieved of, by its name there.

        Whoever asks has to give it back from now on.
        """
        released, self._released = self._released, {}
        return released

    def give_back(self) -> None:
        """Puts into the Scope what was taken from it, once :meth:`send` has ended."""
        for name, (shape, _) in self._released.items():
            array = self._session.sentState(self._states[name].tensor)
            scopes.write(self._scope.find_var(name).get_tensor(), array.reshape(shape))
        self._released = {}

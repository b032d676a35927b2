"""Reads and writes the variables of a Paddle Scope as NumPy arrays, without copying where it can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from paddle_ipu.errors import UninitializedParameterError

Array = np.ndarray[Any, Any]


def tensor(scope: Any, name: str) -> Any | None:
    """The dense tensor of variable `name`, None where there is none or it holds nothing."""
    variable = scope.find_var(name)
    if variable is None:
        return None
    found = variable.get_tensor()
    return found if found._is_initialized() else None


def view(found: Any) -> Array:
    """A dense tensor's memory as an array; writing to it writes the tensor."""
    return np.asarray(found)


def read(scope: Any, names: Iterable[str]) -> dict[str, Array]:
    """Views of variables.

    Raises:
        UninitializedParameterError: it names every variable that holds no value.
    """
    tensors = {name: tensor(scope, name) for name in names}
    missing = [name for name, found in tensors.items() if found is None]
    if missing:
        raise UninitializedParameterError(
            f"{len(missing)} variable(s) of the program hold no value in the scope: "
            f"{', '.join(sorted(missing)[:10])}{', ...' if len(missing) > 10 else ''}. Run the "
            "startup program with the same scope, or load a checkpoint, before compiling."
        )
    return {name: view(found) for name, found in tensors.items()}

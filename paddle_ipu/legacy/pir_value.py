"""Members of ProgramDesc variables for ``paddle.pir.Value``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import paddle

from paddle_ipu.dialect.paddle_objects import DenseTensor, Scope, Value
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.runtime.weights.persistence import loading, saving


def _tensor(value: Value, scope: Scope | None) -> DenseTensor:
    scope = paddle.static.global_scope() if scope is None else scope
    name = name_of(value)
    variable = scope.find_var(name)
    if variable is None:
        raise ValueError(
            f"variable {name!r} is not in the scope. Run the startup program first; only "
            "parameters and states are kept there."
        )
    return variable.get_tensor()


@saving
def value_get_value(self: Value, scope: Scope | None = None) -> DenseTensor:
    """The variable's tensor in a scope, the global one where None.

    Raises:
        ValueError: the scope does not hold it.
    """
    return _tensor(self, scope)


@loading
def value_set_value(self: Value, value: npt.ArrayLike, scope: Scope | None = None) -> None:
    """Writes an array of the variable's shape to its tensor in a scope, the global one where None.

    Raises:
        ValueError: the scope does not hold it, or has it in another shape.
    """
    tensor = _tensor(self, scope)
    array = np.asarray(value)
    if list(array.shape) != list(tensor.shape()):
        raise ValueError(
            f"set_value: variable {name_of(self)!r} has shape {list(tensor.shape())}, got an "
            f"array of shape {list(array.shape)}."
        )
    tensor.set(array, paddle.CPUPlace())


value_op = property(lambda self: self.get_defining_op())
value_lod_level = property(lambda self: 0)


def value_to_string(self: Value, throw_on_error: bool = True, with_details: bool = False) -> str:
    """The variable as text."""
    return str(self)

"""What a copy of a Paddle program is to verify, whichever kind of program it is.

Every value of a copy has a name, and it is the one the dialect has for it: what the IPU side
fetches by name the CPU side finds among Paddle's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import onnx_ir as ir

from paddle_ipu.errors import FetchError

DROPOUT = frozenset({"dropout", "fused_dropout_add"})
"""Operators that test mode keeps from drawing, in Paddle's program as in the dialect."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What one operator reads in one place.

    Attributes:
        name: the value's name.
        differentiable: a float32 with a gradient.
        replace: makes the operator read another value in this place.
        is_written: the operator writes its result over it, by the same name.
    """

    name: str
    differentiable: bool
    replace: Callable[[Any], None]
    is_written: bool = False


class ProgramCopy(Protocol):
    """A copy of a program, with a name on every value.

    Attributes:
        program: the copy, for ``IpuCompiledProgram``. It has no learning-rate scheduler: whoever
            runs it writes the rate into its scope.
    """

    program: Any

    def read(self) -> ir.Graph:
        """The dialect graph."""

    def fetch_name(self, item: Any) -> str:
        """The name of a variable of the program that was copied.

        Raises:
            FetchError: it is a variable of another program.
        """

    def value(self, name: str) -> Any | None:
        """Paddle's value of that name, None where the dialect alone has it."""

    def is_differentiable(self, name: str) -> bool:
        """Whether the value is a float32 with a gradient."""

    def pruned(self, names: Sequence[str], training: bool) -> ProgramCopy:
        """A copy without what neither `names` nor, in training, the optimizer needs.

        Without training it has no loss either.
        """

    def as_computed(self, name: str) -> Any:
        """A value that is what `name` was before an operator wrote over it; it may be added."""

    def operands(self) -> Iterator[Operand]:
        """All that operators read, one place after the other."""

    def feeds(self) -> frozenset[str]:
        """Names of the feeds."""

    def variables(self) -> Mapping[str, Sequence[int]]:
        """Name of a parameter or state -> its shape."""

    def running(self) -> AbstractContextManager[Any]:
        """The mode in which Paddle's executor takes the program."""


@contextmanager
def added_to(copy: ProgramCopy, prefix: str) -> Iterator[None]:
    """Has Paddle's functions add operators to a copy; names they make begin with `prefix`."""
    import paddle

    with (
        copy.running(),
        paddle.static.program_guard(copy.program, paddle.static.Program()),
        paddle.utils.unique_name.guard(prefix),
    ):
        yield


def not_a_variable(item: Any) -> FetchError:
    """The error about an entry of ``fetch_list`` that is neither a name nor a variable."""
    return FetchError(
        f"fetch_list holds a value of type {type(item).__name__}; expected names or variables of "
        "the program."
    )

"""What a copy of a Paddle program is to verify, whichever kind of program it is.

Every value of a copy has the name that the dialect has for it, so that both sides fetch by the
same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import onnx_ir as ir

from paddle_ipu.errors import FetchError

if TYPE_CHECKING:
    import paddle

    Value: TypeAlias = paddle.pir.Value | paddle.base.framework.Variable
    """Paddle's value: that of a PIR program, or the variable of a ProgramDesc program."""

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
    replace: Callable[[Value], None]
    is_written: bool = False


class ProgramCopy(Protocol):
    """A copy of a program, with a name on every value.

    Attributes:
        program: the copy, for ``IpuCompiledProgram``. It has no learning-rate scheduler: whoever
            runs it writes the rate into its scope.
    """

    program: paddle.static.Program

    def read(self) -> ir.Graph:
        """The dialect graph."""

    def fetch_name(self, item: Value) -> str:
        """The name of a variable of the program that was copied.

        Raises:
            FetchError: it is a variable of another program.
        """

    def value(self, name: str) -> Value | None:
        """Paddle's value of that name, None where the dialect alone has it."""

    def is_differentiable(self, name: str) -> bool:
        """Whether the value is a float32 with a gradient."""

    def pruned(self, names: Sequence[str], training: bool) -> ProgramCopy:
        """A copy without what neither `names` nor, in training, the optimizer needs.

        Without training it has no loss either.
        """

    def as_computed(self, name: str) -> Value:
        """A value that is what `name` was before an operator wrote over it; it may be added."""

    def operands(self) -> Iterator[Operand]:
        """All that operators read, one place after the other."""

    def feeds(self) -> frozenset[str]:
        """Names of the feeds."""

    def variables(self) -> Mapping[str, Sequence[int]]:
        """Name of a parameter or state -> its shape."""

    def running(self) -> AbstractContextManager[None]:
        """A block in which Paddle's executor can run the program."""


@contextmanager
def added_to(copy: ProgramCopy, prefix: str) -> Iterator[None]:
    """A block whose calls of Paddle add operators to a copy; their names begin with `prefix`."""
    import paddle

    with (
        copy.running(),
        paddle.static.program_guard(copy.program, paddle.static.Program()),
        paddle.utils.unique_name.guard(prefix),
    ):
        yield


def not_a_variable(item: object) -> FetchError:
    """The error about an entry of ``fetch_list`` that is neither a name nor a variable."""
    return FetchError(
        f"fetch_list holds a value of type {type(item).__name__}; expected names or variables of "
        "the program."
    )

"""What a lowering raises, with the operator's name, and JAX's error of a loop's gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from paddle_ipu.errors import LoweringError, PaddleIpuError, popart_exception
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate


def named_in_errors(
    node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: errors of its lowering name it."""
    with naming_operator(node, node.own(operands)):
        return evaluate(node, operands)


@contextmanager
def naming_operator(node: LoweredNode, operands: Sequence[Operand]) -> Iterator[None]:
    """Has errors of a lowering name the operator.

    Raises:
        LoweringError: in the place of any error that is not of this package.
    """
    try:
        yield
    except LoweringError as error:
        error.node = error.node or node.name
        raise
    except (PaddleIpuError, popart_exception):
        raise
    except Exception as error:
        kinds = ", ".join(map(_type_of, operands))
        failed = LoweringError(
            f"{node.domain}.{node.op_type} ({node.name}) of {kinds or 'no operands'} cannot be "
            f"lowered: {type(error).__name__}: {error}. This is a fault of paddle_ipu; please "
            "report it, with the program."
        )
        failed.node = node.name
        raise failed from error


def _type_of(operand: object) -> str:
    # A user's lowering may give numbers of Python.
    if hasattr(operand, "dtype") and hasattr(operand, "shape"):
        return f"{operand.dtype}{list(operand.shape)}"
    return type(operand).__name__


@contextmanager
def explaining_loops() -> Iterator[None]:
    """JAX's error about the gradient of a loop, in the words of the program's author."""
    try:
        yield
    except ValueError as error:
        if "Reverse-mode differentiation does not work for lax.while_loop" not in str(error):
            raise
        raise LoweringError(
            "the loss depends on a Loop without a constant maximum trip count, which has no "
            "gradient: the device has to know how many iterations to keep. Give the Loop such "
            "a maximum, or put a Detach behind it."
        ) from error

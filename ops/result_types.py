"""Dtypes of operands and results that differ from what programs declare, or PopART accepts."""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext


def as_float(context: TranslationContext, name: str, dtype: str = "float32") -> str:
    """Operand `name` as floats.

    Args:
        context: of the node.
        name: the operand; integers are cast to float32.
        dtype: the result's dtype in Paddle if the operand is of integers.
    """
    x = context.input(name)
    if context.is_float(x):
        return x
    written_as(context, 0, dtype)
    return context.cast(x, "float32")


def as_number(context: TranslationContext, name: str) -> str:
    """Operand `name`, booleans as int32: PopART's arithmetic has no booleans."""
    x = context.input(name)
    return context.cast(x, "int32") if context.dtype(x) == "bool" else x


def as_truth(context: TranslationContext, name: str, result: str) -> str:
    """`result`, cast to a boolean if operand `name` is of booleans.

    Args:
        context: of the node.
        name: an operand that was read by `as_number`.
        result: what was computed from it.
    """
    return context.cast(result, "bool") if context.dtype(context.input(name)) == "bool" else result


def written_as(context: TranslationContext, index: int, dtype: str) -> None:
    """Declares the dtype that Paddle's kernel writes, for a result that declares another.

    Args:
        context: of the node.
        index: of the result.
        dtype: a Paddle dtype.
    """
    context.node.outputs[index].dtype = dialect.DTYPES[dtype]

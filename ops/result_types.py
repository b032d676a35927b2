"""Operands and results of another dtype than Paddle's programs declare, or than PopART takes."""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext


def as_float(context: TranslationContext, name: str, dtype: str = "float32") -> str:
    """Operand `name` as floats; of whole numbers Paddle's kernel writes a result of `dtype`."""
    x = context.input(name)
    if context.is_float(x):
        return x
    written_as(context, 0, dtype)
    return context.cast(x, "float32")


def as_number(context: TranslationContext, name: str) -> str:
    """Operand `name` as numbers, 0 and 1 for truth values, with which PopART does not calculate."""
    x = context.input(name)
    return context.cast(x, "int32") if context.dtype(x) == "bool" else x


def as_truth(context: TranslationContext, name: str, result: str) -> str:
    """`result` of numbers made by `as_number`: whether it is not zero where those were truths."""
    return context.cast(result, "bool") if context.dtype(context.input(name)) == "bool" else result


def written_as(context: TranslationContext, index: int, dtype: str) -> None:
    """Gives result `index` of the node the dtype that Paddle's kernel writes."""
    context.node.outputs[index].dtype = dialect.DTYPES[dtype]

"""Matrix products."""

from __future__ import annotations

from paddle_ipu import dialect
from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _transposed(context: TranslationContext, tensor: str) -> str:
    rank = context.rank(tensor)
    if rank < 2:
        return tensor
    order = [*range(rank - 2), rank - 1, rank - 2]
    return str(context.onnx.transpose([tensor], order))


@translator("matmul", emits="MatMul Transpose")
def matmul(context: TranslationContext) -> str:
    """NumPy's matmul, either operand's last two dimensions swapped where asked.

    The node's ``serialize_factor``, ``serialize_mode`` and ``__available_memory`` attributes travel
    to the PopART operator.
    """
    x, y = context.input("x"), context.input("y")
    if context.attr("transpose_x", 0):
        x = _transposed(context, x)
    if context.attr("transpose_y", 0):
        y = _transposed(context, y)
    product = str(context.onnx.matmul([x, y]))
    factor = context.attr("serialize_factor")
    if factor is not None:
        mode = context.attr("serialize_mode", "output_channels")
        context.builder.setSerializeMatMul({product}, mode, int(factor), True)
    memory = dialect.attribute(context.node, "__available_memory")
    if memory is not None:
        context.builder.setAvailableMemoryProportion(product, float(memory))
    return product


@translator("bmm", emits="MatMul")
def bmm(context: TranslationContext) -> str:
    """The product of two stacks of matrices."""
    return str(context.onnx.matmul([context.input("x"), context.input("y")]))


@translator("mv", emits="MatMul")
def mv(context: TranslationContext) -> str:
    """A matrix times a vector."""
    return str(context.onnx.matmul([context.input("x"), context.input("vec")]))


@translator("dot", emits="Mul ReduceSum")
def dot(context: TranslationContext) -> str:
    """The inner product along the last axis."""
    x = context.input("x")
    products = context.onnx.mul([x, context.input("y")])
    return str(context.onnx.reducesum([products], [context.rank(x) - 1], 0))


@translator("addmm", emits="Gemm")
def addmm(context: TranslationContext) -> str:
    """``beta * input + alpha * x @ y`` of matrices."""
    x, y, addend = context.input("x"), context.input("y"), context.input("input")
    alpha, beta = float(context.attr("alpha", 1.0)), float(context.attr("beta", 1.0))
    return str(context.onnx.gemm([x, y, addend], alpha, beta))

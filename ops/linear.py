"""Translators of matrix products and related sums of products."""

from __future__ import annotations

import numpy as np

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as
from paddle_ipu.popart import serialized_products


@translator("matmul", emits=("MatMul", "Transpose"))
def matmul(context: TranslationContext) -> str:
    """NumPy's matmul, with the last two axes of an operand swapped if asked.

    The node's attributes ``serialize_factor``, ``serialize_mode`` and ``__available_memory`` become
    PopART's settings of the product.
    """
    x, y = context.input("x"), context.input("y")
    if context.attr("transpose_x", 0):
        x = context.swap_last_axes(x)
    if context.attr("transpose_y", 0):
        y = context.swap_last_axes(y)
    result = context.onnx.matmul([x, y])
    factor = context.attr("serialize_factor")
    if factor is not None:
        mode = str(context.attr("serialize_mode", "output_channels"))
        _check_cut(context, mode, int(factor), x, y)
        context.builder.setSerializeMatMul({result}, mode, int(factor), True)
    # As upstream has it, a share of 0 is none.
    if memory := float(dialect.attribute(context.node, "__available_memory", 0.0)):
        context.builder.setAvailableMemoryProportion(result, memory)
    return result


def _check_cut(context: TranslationContext, mode: str, factor: int, x: str, y: str) -> None:
    """Refuses a ``serialize_factor`` by which PopART does not cut the product of two tensors."""
    left, right = context.shape(x), context.shape(y)
    if why := serialized_products.uneven(mode, factor, left, right):
        raise context.refuse(
            f"{why} The product is of {left} and {right}; set serialize_factor to a divisor of "
            f"that axis, serialize_mode (here {mode}) to another of "
            f"{', '.join(serialized_products.CUTS)}, or leave both out: no number depends on them."
        )
    at = serialized_products.of_too_many_axes(mode, factor, left, right)
    # PopART cuts products of the main graph only.
    if at is not None and not context.is_nested:
        raise context.refuse(
            f"serialize_factor is {factor}, and {'xy'[at]} has {len((left, right)[at])} axes: "
            f"{(left, right)[at]}. PopART cuts products of operands with up to "
            f"{serialized_products.HIGHEST_RANK}: reshape it, or leave serialize_factor out."
        )


@translator("bmm", emits=("MatMul",))
def bmm(context: TranslationContext) -> str:
    """The product of two batches of matrices."""
    return context.onnx.matmul([context.input("x"), context.input("y")])


@translator("mv", emits=("MatMul",))
def mv(context: TranslationContext) -> str:
    """The product of a matrix and a vector."""
    return context.onnx.matmul([context.input("x"), context.input("vec")])


@translator("dot", emits=("Mul", "ReduceSum"))
def dot(context: TranslationContext) -> str:
    """The inner product along the last axis."""
    x = context.input("x")
    products = context.onnx.mul([x, context.input("y")])
    return context.onnx.reducesum([products], [context.rank(x) - 1], 0)


def _addend(context: TranslationContext) -> str:
    """The operand ``input``; zeros for a ``beta`` of 0, by which BLAS leaves out what is NaN."""
    addend = context.input("input")
    if float(context.attr("beta", 1.0)):
        return addend
    # It keeps a gradient, of zeros.
    left_out = context.const(np.asarray(True), "bool")
    return context.onnx.where([left_out, context.const_like(0.0, addend), addend])


@translator("addmm", emits=("Gemm", "Where"))
def addmm(context: TranslationContext) -> str:
    """``beta * input + alpha * x @ y`` for matrices."""
    x, y, addend = context.input("x"), context.input("y"), _addend(context)
    alpha, beta = float(context.attr("alpha", 1.0)), float(context.attr("beta", 1.0))
    return context.onnx.gemm([x, y, addend], alpha, beta)


@translator("baddbmm", emits=("MatMul", "Mul", "Add", "Where"))
def baddbmm(context: TranslationContext) -> str:
    """``beta * input + alpha * x @ y`` for batches of matrices."""
    addend = _addend(context)
    stack = context.onnx.matmul([context.input("x"), context.input("y")])
    terms = []
    for term, name in ((addend, "beta"), (stack, "alpha")):
        factor = float(context.attr(name, 1.0))
        scaled = context.onnx.mul([term, context.const_like(factor, term)])
        terms.append(scaled)
    return context.onnx.add(terms)


@translator("linear_v2", emits=("MatMul", "Transpose", "Add"))
def linear_v2(context: TranslationContext) -> str:
    """``input @ weight + bias``; with ``transpose_weight`` the transposed weight."""
    weight = context.input("weight")
    if context.attr("transpose_weight", 0):
        weight = context.swap_last_axes(weight)
    product = context.onnx.matmul([context.input("input"), weight])
    return context.onnx.add([product, context.input("bias")])


@translator("matmul_with_flatten", emits=("Reshape", "MatMul"))
def matmul_with_flatten(context: TranslationContext) -> str:
    """The product of two tensors as matrices.

    The first ``x_num_col_dims`` axes of x are its rows, the first ``y_num_col_dims`` those of y.
    """
    x, y = context.input("x"), context.input("y")
    left, right = context.shape(x), context.shape(y)
    rows = int(context.attr("x_num_col_dims", 1))
    summed = int(context.attr("y_num_col_dims", 1))
    matrices = [
        context.reshape(x, [product(left[:rows]), product(left[rows:])]),
        context.reshape(y, [product(right[:summed]), product(right[summed:])]),
    ]
    result = context.onnx.matmul(matrices)
    return context.reshape(result, [*left[:rows], *right[summed:]])


@translator("multi_dot", emits=("MatMul",))
def multi_dot(context: TranslationContext) -> str:
    """The product of a chain of matrices, in the order with the fewest multiplications."""
    chain = context.inputs("x")
    ends = [context.shape(tensor) for tensor in chain]
    sizes = [ends[0][0] if len(ends[0]) == 2 else 1, *(dims[-1] for dims in ends)]
    if len(ends[-1]) == 1:
        sizes[-2:] = [ends[-1][0], 1]
    # Dynamic programming over where the last product splits a part of the chain.
    cost: dict[tuple[int, int], tuple[int, int]] = {(at, at): (0, at) for at in range(len(chain))}
    for length in range(1, len(chain)):
        for first in range(len(chain) - length):
            last = first + length
            cost[first, last] = min(
                (
                    cost[first, cut][0]
                    + cost[cut + 1, last][0]
                    + sizes[first] * sizes[cut + 1] * sizes[last + 1],
                    cut,
                )
                for cut in range(first, last)
            )

    def part(first: int, last: int) -> str:
        if first == last:
            return chain[first]
        cut = cost[first, last][1]
        return context.onnx.matmul([part(first, cut), part(cut + 1, last)])

    return part(0, len(chain) - 1)


@translator("bilinear", emits=("MatMul", "Mul", "ReduceSum", "Transpose", "Add"))
def bilinear(context: TranslationContext) -> str:
    """``x[n] @ weight[k] @ y[n] + bias[k]``: [N, K]."""
    forms = context.onnx.matmul([context.input("x"), context.input("weight")])
    products = context.onnx.mul([forms, context.input("y")])
    result = context.onnx.transpose([context.onnx.reducesum([products], [2], 0)], [1, 0])
    bias = context.optional("bias")
    return result if bias is None else context.onnx.add([result, bias])


@translator("cross", emits=("Gather", "Mul", "Sub"))
def cross(context: TranslationContext) -> str:
    """The vector product along ``axis``; 9, Paddle's default, stands for the first of size 3."""
    x, y = context.input("x"), context.input("y")
    axis, shape = int(context.attr("axis", 9)), context.shape(x)
    axis = shape.index(3) if axis == 9 else axis % len(shape)
    next_, after = (context.const(np.asarray(order), "int32") for order in ([1, 2, 0], [2, 0, 1]))

    def rotated(tensor: str, order: str) -> str:
        return context.onnx.gather([tensor, order], axis)

    first = context.onnx.mul([rotated(x, next_), rotated(y, after)])
    second = context.onnx.mul([rotated(x, after), rotated(y, next_)])
    return context.onnx.sub([first, second])


@translator("kron", emits=("Reshape", "Mul"))
def kron(context: TranslationContext) -> str:
    """The Kronecker product: block (i, j) is ``x[i, j] * y``; ranks are aligned to the right."""
    x, y = context.input("x"), context.input("y")
    rank = max(context.rank(x), context.rank(y))
    left = [1] * (rank - context.rank(x)) + context.shape(x)
    right = [1] * (rank - context.rank(y)) + context.shape(y)
    blocks = context.reshape(x, [size for dim in left for size in (dim, 1)])
    inner = context.reshape(y, [size for dim in right for size in (1, dim)])
    products = context.onnx.mul([blocks, inner])
    return context.reshape(products, [a * b for a, b in zip(left, right, strict=True)])


@translator("reduce_as", emits=("ReduceSum", "Identity", "Cast"))
def reduce_as(context: TranslationContext) -> str:
    """``x`` summed to the shape of ``target``: the reverse of broadcasting.

    Sums of booleans and of small integers are int64.
    """
    x = context.input("x")
    shape = context.shape(x)
    target = dialect.dims_of(context.values("target")[0])
    extra = len(shape) - len(target)
    ones = [axis for axis in range(extra, len(shape)) if shape[axis] != target[axis - extra]]
    if not (ones or extra):
        written_as(context, 0, dialect.dtype_name(context.values("x")[0]))
        return context.onnx.identity([x])
    x = context.cast(x, context.output_dtype())
    if ones:
        x = context.onnx.reducesum([x], ones, 1)
    return context.onnx.reducesum([x], list(range(extra)), 0) if extra else x

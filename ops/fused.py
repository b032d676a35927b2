"""Translators of fused products with bias and activation, gated activations, and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.fused_activation import ACTIVATIONS, activate
from paddle_ipu.ops.fused_norm import drop, refuse_results, total
from paddle_ipu.ops.registry import translator


def _halves(context: TranslationContext, x: str) -> list[str]:
    """The two halves of the last axis.

    Raises:
        NotSupported: its length is odd.
    """
    axis, size = context.rank(x) - 1, context.shape(x)[-1]
    if size % 2:
        raise context.refuse(f"its last dimension must be even, got {context.shape(x)}.")
    return context.onnx.split([x], 2, axis, [size // 2] * 2)


def _gated(context: TranslationContext, x: str, y: str, name: str) -> str:
    """``activation(x) * y``."""
    return context.onnx.mul([activate(context, x, name), y])


@translator("swiglu", emits=("graphcore.Swish", "Mul", "Split"))
def swiglu(context: TranslationContext) -> str:
    """``silu(x) * y`` (arXiv:2002.05202); without y, x holds both halves along its last axis."""
    x = context.input("x")
    x, y = (x, context.input("y")) if context.has("y") else _halves(context, x)
    if context.shape(x) != context.shape(y):
        raise context.refuse(
            f"x is {context.shape(x)} and y {context.shape(y)}: they have to have the same shape, "
            "which Paddle does not check of operands without elements."
        )
    return _gated(context, x, y, "silu")


_COMPUTE_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_GATED = {"swiglu": "silu", "geglu": "gelu"}


@translator(
    "fused_bias_act",
    emits=("Add", "Mul", "Split", "Relu", "graphcore.GeluErf", "graphcore.Swish"),
    limits="no quantised operands or results",
)
def fused_bias_act(context: TranslationContext) -> str:
    """``activation(x + bias)``.

    For geglu and swiglu (arXiv:2002.05202): the activation of the first half of the last axis,
    times the second half.
    """
    for name in ("dequant_scales", "shift", "smooth"):
        if context.has(name):
            raise context.refuse(f"{name} is not supported; dequantise apart.")
    if float(context.attr("quant_scale", -1.0)) > 0:
        raise context.refuse("quantised results are not supported; give quant_scale -1.")
    computed = str(context.attr("compute_dtype", "default"))
    own = _COMPUTE_DTYPES.get(context.dtype(context.input("x")))
    if computed not in ("default", own):
        raise context.refuse(
            f"compute_dtype is {computed!r}; expected 'default' or {own!r}, that of x. Cast x."
        )
    x = total(context, [context.input("x"), context.optional("bias")])
    name = str(context.attr("act_method", "gelu"))
    if name in _GATED:
        first, second = _halves(context, x)
        return _gated(context, first, second, _GATED[name])
    return activate(context, x, name)


@translator(
    "fused_dropout_add",
    emits=("Dropout", "Mul", "Add"),
    limits="a fixed seed is not used",
)
def fused_dropout_add(context: TranslationContext) -> Sequence[str | None]:
    """``dropout(x) + y``."""
    refuse_results(context, "seed_offset")
    p = float(context.attr("p"))
    mode = str(context.attr("mode", "upscale_in_train"))
    dropped = drop(context, context.input("x"), p, mode)
    return [total(context, [dropped, context.input("y")]), None]


def _linear(context: TranslationContext, x: str, w: str, bias: str | None, columns: int) -> str:
    """``x @ w + bias``, x as a matrix whose rows are its first `columns` axes."""
    shape = context.shape(x)
    outer, inner = shape[:columns], product(shape[columns:])
    flat = context.reshape(x, [*outer, inner])
    out = total(context, [context.onnx.matmul([flat, w]), bias])
    return context.reshape(out, [*outer, context.shape(w)[1]])


def _fully_connected(context: TranslationContext, w: str) -> str:
    bias = context.optional("bias")
    if bias is not None:
        bias = context.reshape(bias, [context.shape(w)[1]])
    columns = int(context.attr("in_num_col_dims", 1))
    out = _linear(context, context.input("input"), w, bias, columns)
    return activate(context, out, str(context.attr("activation_type", "")))


@translator("fc", emits=("MatMul", "Add", "Relu", "Reshape", "Slice"))
def fc(context: TranslationContext) -> str:
    """``activation(input @ w + bias)``.

    With ``padding_weights`` the last 4 rows and columns of w are padding, and cut off.
    """
    w = context.input("w")
    if context.attr("padding_weights", 0):
        rows, columns = context.shape(w)
        ends = context.shape_const([rows - 4, columns - 4])
        w = context.onnx.slice([w, context.shape_const([0, 0]), ends])
    return _fully_connected(context, w)


@translator("gemm_epilogue", emits=("MatMul", "Add", "Relu", "Reshape"), limits="padded weights")
def gemm_epilogue(context: TranslationContext) -> str:
    """``activation(input @ w + bias)``."""
    if context.attr("padding_weights", 0):
        raise context.refuse("padded weights are not supported; save the model without them.")
    return _fully_connected(context, context.input("w"))


@translator(
    "fused_gemm_epilogue",
    emits=("MatMul", "Add", "Relu", "Transpose", "graphcore.Gelu", "Reshape"),
    limits="its reserve_space cannot be read",
)
def fused_gemm_epilogue(context: TranslationContext) -> Sequence[str | None]:
    """``activation(x @ y + bias)`` as cuBLASLt computes it: GELU by its tanh approximation."""
    refuse_results(context, "reserve_space")
    x, y, bias = (context.input(name) for name in ("x", "y", "bias"))
    shape = context.shape(x)
    if context.attr("trans_x", 0):
        x = context.reshape(x, [shape[0], product(shape[1:])])
        x, outer = context.swap_last_axes(x), shape[1:]
    else:
        x, outer = context.reshape(x, [product(shape[:-1]), shape[-1]]), shape[:-1]
    if context.attr("trans_y", 0):
        y = context.swap_last_axes(y)
    out = total(context, [context.onnx.matmul([x, y]), bias])
    name = str(context.attr("activation", "none"))
    out = activate(context, out, "gelu_tanh" if name == "gelu" else name)
    return [context.reshape(out, [*outer, context.shape(y)[1]]), None]


@translator("fusion_repeated_fc_relu", emits=("MatMul", "Add", "Relu"))
def fusion_repeated_fc_relu(context: TranslationContext) -> Sequence[str | None]:
    """``relu(x @ w + bias)`` repeated for a list of weights; only the last result can be read."""
    weights, biases = context.inputs("w"), context.inputs("bias")
    refuse_results(context, *["relu_out"] * (len(weights) - 1), first=0)
    x = context.input("x")
    for w, bias in zip(weights, biases, strict=True):
        bias = context.reshape(bias, [context.shape(w)[1]])
        x = activate(context, _linear(context, x, w, bias, 1), "relu")
    return [*[None] * (len(weights) - 1), x]


@translator("fusion_squared_mat_sub", emits=("MatMul", "Mul", "Sub"))
def fusion_squared_mat_sub(context: TranslationContext) -> Sequence[str | None]:
    """``scalar * ((x @ y) ** 2 - x ** 2 @ y ** 2)``."""
    refuse_results(context, "squared_x", "squared_y", "squared_xy", first=0)
    x, y = context.input("x"), context.input("y")
    product = context.onnx.matmul([x, y])
    squares = context.onnx.matmul([context.onnx.mul([x, x]), context.onnx.mul([y, y])])
    difference = context.onnx.sub([context.onnx.mul([product, product]), squares])
    scalar = context.const_like(float(context.attr("scalar", 1.0)), difference)
    return [None, None, None, context.onnx.mul([difference, scalar])]


@translator("fusion_transpose_flatten_concat", emits=("Transpose", "Reshape", "Concat"))
def fusion_transpose_flatten_concat(context: TranslationContext) -> str:
    """Tensors transposed, flattened to matrices at ``flatten_axis`` and concatenated."""
    order = context.ints("trans_axis")
    at = int(context.attr("flatten_axis"))
    matrices = []
    for x in context.inputs("x"):
        transposed = context.onnx.transpose([x], order)
        shape = context.shape(transposed)
        matrices.append(context.reshape(transposed, [product(shape[:at]), product(shape[at:])]))
    return context.onnx.concat(matrices, int(context.attr("concat_axis")))


@translator("batch_fc", emits=("MatMul", "Add", "Reshape"))
def batch_fc(context: TranslationContext) -> str:
    """``input @ w + bias`` for each of N slots: [N, B, I] @ [N, I, O] + [N, O]."""
    slots, _, columns = context.shape(context.input("w"))
    bias = context.reshape(context.input("bias"), [slots, 1, columns])
    return total(context, [context.onnx.matmul([context.input("input"), context.input("w")]),
                           bias])  # fmt: skip


@translator("apply_per_channel_scale", emits=("Mul",))
def apply_per_channel_scale(context: TranslationContext) -> str:
    """``x * scales``, one scale for each index of the last axis."""
    return context.onnx.mul([context.input("x"), context.input("scales")])


_BINARY = {"elementwise_add": "add", "elementwise_mul": "mul"}


def _unary(context: TranslationContext, x: str, name: str) -> str:
    if name == "scale":
        return context.onnx.mul([x, context.const_like(float(context.attr("scale", 0.0)), x)])
    return activate(context, x, name)


@translator(
    "fused_elemwise_activation",
    "fused_elemwise_add_activation",
    emits=("Add", "Mul", "Relu", "Tanh", "Sigmoid", "graphcore.GeluErf", "Reshape"),
    limits="the intermediate result cannot be read",
)
def fused_elemwise_activation(context: TranslationContext) -> Sequence[str | None]:
    """``binary(x, unary(y))`` or ``unary(binary(x, y))``, by the order in ``functor_list``."""
    refuse_results(context, "intermediate_out")
    outer, inner = (str(name).removesuffix(",") for name in context.attr("functor_list"))
    known = {*ACTIVATIONS, "scale", *_BINARY}
    if not known >= {outer, inner} or (outer in _BINARY) == (inner in _BINARY):
        raise context.refuse(
            f"functor_list must be a binary and a unary function, got {[outer, inner]}."
        )
    x, y = context.input("x"), context.input("y")
    axis, rank = int(context.attr("axis", -1)), context.rank(x)
    if axis >= 0 and context.rank(y) < rank:
        shape = context.shape(y)
        y = context.reshape(y, [*shape, *[1] * (rank - axis - len(shape))])
    if outer in _BINARY:
        terms = [x, _unary(context, y, inner)]
        return [str(getattr(context.onnx, _BINARY[outer])(terms)), None]
    return [_unary(context, str(getattr(context.onnx, _BINARY[inner])([x, y])), outer), None]


@translator("fused_scale_bias_add_relu", emits=("Mul", "Add", "Relu"))
def fused_scale_bias_add_relu(context: TranslationContext) -> str:
    """``relu(x1 * scale1 + bias1 + x2)``, channels last.

    With ``fuse_dual`` x2 is replaced by ``x2 * scale2 + bias2``.
    """
    x2 = context.input("x2")
    if context.attr("fuse_dual", 0):
        x2 = _affine(context, x2, "2")
    return activate(
        context, total(context, [_affine(context, context.input("x1"), "1"), x2]), "relu"
    )


def _affine(context: TranslationContext, x: str, which: str) -> str:
    scaled = context.onnx.mul([x, context.input(f"scale{which}")])
    return total(context, [scaled, context.input(f"bias{which}")])


@translator(
    "rank_attention",
    emits=("Gather", "Reshape", "MatMul", "ReduceSum", "Mul", "Greater", "Cast", "And", "Split",
           "Sub", "Add", "Max"),
    limits="only the output can be read",
)  # fmt: skip
def rank_attention(context: TranslationContext) -> list[str | None]:
    """The sum over the K items of a page of ``x[item] @ parameters[rank, item's rank]``: [N, C].

    ``rank_offset`` [N, 2K + 1] has each instance's rank, counted from 1, then for each item its
    rank and its row of x; rank 0 means none. ``rank_param`` [K * K * F, C] holds a matrix [F, C]
    for each pair of ranks.
    """
    refuse_results(context, "input_help", first=0)
    refuse_results(context, "ins_rank", first=2)
    onnx, most = context.onnx, int(context.attr("max_rank", 3))
    x, ranks, param = (context.input(name) for name in ("x", "rank_offset", "rank_param"))
    rows, width = context.shape(x)
    columns = context.shape(param)[1]
    own, items = onnx.split([ranks], 2, 1, [1, 2 * most])
    pairs = context.reshape(items, [rows, most, 2])
    theirs, places = (
        context.reshape(part, [rows, most]) for part in onnx.split([pairs], 2, 2, [1, 1])
    )
    none, one = (context.const(np.asarray(number), context.dtype(ranks)) for number in (0, 1))
    counts = onnx.logical_and([onnx.greater([own, none]), onnx.greater([theirs, none])])
    base = onnx.mul([onnx.sub([own, one]), context.const(np.asarray(most), context.dtype(ranks))])
    pair = onnx.max([onnx.add([base, onnx.sub([theirs, one])]), none])
    matrices = context.reshape(param, [most * most, width, columns])
    chosen = onnx.gather([matrices, pair], 0)
    rows_of_items = onnx.gather([x, onnx.max([places, none])], 0)
    weights = context.reshape(context.cast(counts, context.dtype(x)), [rows, most, 1])
    weighted = context.reshape(onnx.mul([rows_of_items, weights]), [rows, most, 1, width])
    each = context.reshape(onnx.matmul([weighted, chosen]), [rows, most, columns])
    return [None, onnx.reducesum([each], [1], 0), None]


@translator(
    "fused_linear_param_grad_add", emits=("MatMul", "Transpose", "Reshape", "Add", "ReduceSum")
)
def fused_linear_param_grad_add(context: TranslationContext) -> list[str | None]:
    """The gradients ``x^T @ dout`` and ``sum(dout)``, added to those accumulated so far, if any."""
    x, dout = context.input("x"), context.input("dout")
    inner, outer = context.shape(x)[-1], context.shape(dout)[-1]
    rows = product(context.shape(x)[:-1])
    flat, gradient = context.reshape(x, [rows, inner]), context.reshape(dout, [rows, outer])
    of_weight = context.onnx.matmul([context.swap_last_axes(flat), gradient])
    gradients: list[str | None] = [total(context, [of_weight, context.optional("dweight")]), None]
    if context.attr("has_bias", 1):
        of_bias = context.onnx.reducesum([gradient], [0], 0)
        gradients[1] = total(context, [of_bias, context.optional("dbias")])
    return gradients


@translator("moe_combine", emits=("Gather", "Mul", "ReduceSum", "Reshape"))
def moe_combine(context: TranslationContext) -> str:
    """``y[s] = sum_k combine_weights[s, k] * x[scatter_index[s, k]]``: [S, H]."""
    x, weights = context.input("x"), context.input("combine_weights")
    rows, count = context.shape(weights)
    places = context.reshape(context.input("scatter_index"), [rows, count])
    gathered = context.onnx.gather([x, places], 0)
    weighted = context.onnx.mul([gathered, context.reshape(weights, [rows, count, 1])])
    return context.onnx.reducesum([weighted], [1], 0)


@translator("blha_get_max_len", emits=("ReduceMax", "Reshape"))
def blha_get_max_len(context: TranslationContext) -> list[str]:
    """The largest length to encode, and the largest to decode: [1] each."""
    longest = []
    for name in ("seq_lens_encoder", "seq_lens_decoder"):
        lengths = context.reshape(
            context.input(name), [product(context.shape(context.input(name)))]
        )
        longest.append(context.onnx.reducemax([lengths], [0], 1))
    return longest

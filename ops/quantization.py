"""Translators of simulated quantisation: integers kept as floats.

With b bits, levels are ``2 ** (b - 1) - 1``, and a scale is the magnitude that maps to the highest.
"""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as

_FP8 = (448, 57344)
"""The largest numbers of E4M3 and E5M2, by which Paddle asks for 8-bit floats."""


def _levels(context: TranslationContext) -> int:
    """The largest integer of ``bit_length`` bits, ``2 ** (bit_length - 1) - 1``."""
    return (1 << int(context.attr("bit_length", 8)) - 1) - 1


def _abs_max(context: TranslationContext, x: str, axis: int | None = None) -> str:
    """The largest ``|x|``: of all elements [1], or for each index of `axis` [C]."""
    rank = context.rank(x)
    others = [at for at in range(rank) if at != axis]
    # No gradient flows through a scale.
    sizes = context.onnx.abs([context.graphcore.detach([x])])
    largest = context.onnx.reducemax([sizes], others, 0) if others else sizes
    return context.reshape(largest, [1]) if axis is None else largest


def _along(context: TranslationContext, scale: str, x: str, axis: int | None) -> str:
    """A scale reshaped to broadcast to `x`: a scalar, or along `axis`."""
    if axis is None:
        return context.reshape(scale, [])
    dims = [1] * context.rank(x)
    dims[axis] = context.shape(x)[axis]
    return context.reshape(scale, dims)


def _rounded(context: TranslationContext, x: str) -> str:
    """The nearest integer, halves away from zero (C's ``round``; ONNX's Round is to even)."""
    size = context.onnx.abs([x])
    floor = context.onnx.floor([size])
    part = context.onnx.sub([size, floor])
    up = context.onnx.logical_not([context.onnx.less([part, context.const_like(0.5, x)])])
    whole = context.onnx.add([floor, context.cast(up, context.dtype(x))])
    return context.onnx.mul([whole, context.onnx.sign([x])])


def _quantized(
    context: TranslationContext, x: str, scale: str, levels: int, axis: int | None
) -> str:
    """``round(levels / scale * x)``.

    ``round_type`` 0 rounds halves to even and clips the result to [-levels - 1, levels]; 1 rounds
    halves away from zero and clips ``x`` to [-scale, scale]. A scale up to 1e-30 is raised by 1e-6,
    as in Paddle's kernel.
    """
    scale = _along(context, scale, x, axis)
    enough = context.onnx.greater([scale, context.const_like(1e-30, x)])
    raised = context.onnx.add([scale, context.const_like(1e-6, x)])
    divisor = context.onnx.where([enough, scale, raised])
    inverse = context.onnx.div([context.const_like(1.0, x), divisor])
    factor = context.onnx.mul([context.const_like(float(levels), x), inverse])
    if int(context.attr("round_type", 1)) == 0:
        near = context.onnx.round([context.onnx.mul([factor, x])])
        low, high = context.const_like(-levels - 1.0, x), context.const_like(float(levels), x)
        return context.onnx.max([context.onnx.min([near, high]), low])
    bottom = context.onnx.sub([context.const_like(0.0, x), scale])
    bounded = context.onnx.max([context.onnx.min([x, scale]), bottom])
    return _rounded(context, context.onnx.mul([factor, bounded]))


def _restored(
    context: TranslationContext, x: str, scale: str, levels: float, axis: int | None
) -> str:
    """``x * scale / levels``."""
    product = context.onnx.mul([x, _along(context, scale, x, axis)])
    return context.onnx.div([product, context.const_like(levels, x)])


def _straight_through(context: TranslationContext, x: str, value: str) -> str:
    """`value` with the derivative of `x` (straight-through estimator, arXiv:1308.3432)."""
    rest = context.onnx.sub([x, context.graphcore.detach([x])])
    return context.onnx.add([context.graphcore.detach([value]), rest])


def _simulated(
    context: TranslationContext, x: str, scale: str, axis: int | None, restore: bool
) -> str:
    """Quantised `x`; with `restore` also dequantised, with a straight-through gradient."""
    levels = _levels(context)
    value = _quantized(context, x, scale, levels, axis)
    if not restore:
        return value
    return _straight_through(context, x, _restored(context, value, scale, levels, axis))


def _by_largest(context: TranslationContext, axis: int | None, *, restore: bool) -> list[str]:
    """(quantised x by the largest magnitude as the scale, the scale)."""
    x = context.input("x")
    scale = _abs_max(context, x, axis)
    return [_simulated(context, x, scale, axis, restore), scale]


_SIMULATED = (
    "Abs", "ReduceMax", "Reshape", "Greater", "Add", "Where", "Div", "Mul", "Max", "Min", "Round",
    "Floor", "Sub", "Less", "Not", "Cast", "Sign", "graphcore.Detach",
)  # fmt: skip


@translator("fake_quantize_abs_max", emits=_SIMULATED)
def fake_quantize_abs_max(context: TranslationContext) -> list[str]:
    """Integers of ``bit_length`` bits, scaled by the largest ``|x|``; and that scale."""
    return _by_largest(context, None, restore=False)


@translator("fake_quantize_dequantize_abs_max", emits=_SIMULATED)
def fake_quantize_dequantize_abs_max(context: TranslationContext) -> list[str]:
    """``x`` quantised and dequantised; the gradient passes straight through. And the scale."""
    return _by_largest(context, None, restore=True)


def _channel(context: TranslationContext) -> int:
    return int(context.attr("quant_axis", 0))


@translator(
    "fake_channel_wise_quantize_abs_max",
    emits=_SIMULATED,
    limits="is_test=False",
)
def fake_channel_wise_quantize_abs_max(context: TranslationContext) -> list[str]:
    """`fake_quantize_abs_max` with a scale for each index of ``quant_axis``: [C]."""
    if context.attr("is_test", 0):
        raise context.refuse(
            "with is_test its scales are what an earlier run left in its result; use "
            "quantize_linear, which has them as an input."
        )
    return _by_largest(context, _channel(context), restore=False)


@translator("fake_channel_wise_quantize_dequantize_abs_max", emits=_SIMULATED)
def fake_channel_wise_quantize_dequantize_abs_max(context: TranslationContext) -> list[str]:
    """`fake_quantize_dequantize_abs_max` with a scale for each index of ``quant_axis``: [C]."""
    return _by_largest(context, _channel(context), restore=True)


def _of_one_element(context: TranslationContext, name: str) -> str:
    """Operand `name`, which must have one element."""
    tensor = context.input(name)
    if product(context.shape(tensor)) != 1:
        raise context.refuse(
            f"{name} has shape {context.shape(tensor)}, expected one element, which is all that "
            "Paddle reads. Give it shape [1]."
        )
    return tensor


def _averaged(context: TranslationContext, x: str, rate: float) -> tuple[str, str, str]:
    """(scale, state, accumulator), each [1], of the moving average of the largest ``|x|``.

    ``state = rate * state + 1``, ``accumulator = rate * accumulator + max|x|``; the scale is their
    quotient.
    """
    decay = context.const_like(rate, x)
    state, accumulated = (
        context.reshape(_of_one_element(context, name), [1]) for name in ("in_state", "in_accum")
    )
    state = context.onnx.mul([state, decay])
    state = context.onnx.add([state, context.const_like(1.0, x)])
    accumulated = context.onnx.mul([accumulated, decay])
    accumulated = context.onnx.add([accumulated, _abs_max(context, x)])
    return context.onnx.div([accumulated, state]), state, accumulated


def _as_declared(context: TranslationContext, tensor: str, index: int) -> str:
    """`tensor`, of one element, with as many axes as the program declares for result `index`.

    Paddle 2 gives an average shape [1], Paddle 3 that of the operand with its last value.
    """
    return context.reshape(tensor, [1] * len(dialect.dims_of(context.node.outputs[index])))


def _moving_average(context: TranslationContext, restore: bool) -> list[str | None]:
    x = context.input("x")
    if context.attr("is_test", 0):
        scale = context.input("in_scale")
        return [_simulated(context, x, scale, None, restore), None, None, None]
    scale, state, accumulated = _averaged(context, x, float(context.attr("moving_rate", 0.9)))
    return [_simulated(context, x, scale, None, restore), scale, state, accumulated]


@translator("fake_quantize_moving_average_abs_max", emits=_SIMULATED)
def fake_quantize_moving_average_abs_max(context: TranslationContext) -> list[str | None]:
    """`fake_quantize_abs_max` with a moving average of the largest ``|x|``.

    Results are the integers, the scale, and the average's state and accumulator. With ``is_test``
    there is only the first, by ``in_scale``.
    """
    return _moving_average(context, restore=False)


@translator("fake_quantize_dequantize_moving_average_abs_max", emits=_SIMULATED)
def fake_quantize_dequantize_moving_average_abs_max(
    context: TranslationContext,
) -> list[str | None]:
    """`fake_quantize_dequantize_abs_max` with a moving average of the largest ``|x|``."""
    return _moving_average(context, restore=True)


@translator(
    "fake_quantize_range_abs_max",
    emits=("Reshape", "Greater", "Add", "Where", "Div", "Mul", "Max", "Min", "Round", "Floor",
           "Sub", "Less", "Not", "Cast", "Abs", "Sign"),
    limits="is_test=True",
)  # fmt: skip
def fake_quantize_range_abs_max(context: TranslationContext) -> list[str | None]:
    """`fake_quantize_abs_max` by the operand ``in_scale``."""
    if not context.attr("is_test", 0):
        raise context.refuse(
            "in training it reads its window of scales from its own result of the run before; use "
            "fake_quantize_moving_average_abs_max."
        )
    x = context.input("x")
    return [_simulated(context, x, context.input("in_scale"), None, restore=False), None, None]


@translator(
    "moving_average_abs_max_scale",
    emits=("Identity", "Abs", "ReduceMax", "Reshape", "Mul", "Add", "Div", "graphcore.Detach"),
)
def moving_average_abs_max_scale(context: TranslationContext) -> list[str | None]:
    """``x`` itself, and the moving average of its largest magnitude: scale, state, accumulator."""
    x = context.input("x")
    same = context.onnx.identity([x])
    if context.attr("is_test", 0):
        return [same, None, None, None]
    scale, state, accumulated = _averaged(context, x, float(context.attr("moving_rate", 0.9)))
    return [
        same,
        scale,
        _as_declared(context, state, 2),
        _as_declared(context, accumulated, 3),
    ]


def _linear_levels(context: TranslationContext) -> int:
    levels = int(context.attr("qmax", _levels(context)))
    if levels in _FP8:
        raise context.refuse(
            f"qmax={levels} asks for 8-bit floats, which are not supported; use whole numbers."
        )
    return levels


@translator(
    "quantize_linear",
    emits=("Identity", *_SIMULATED),
    limits="no 8-bit floats; the zero point is not read, as in Paddle",
)
def quantize_linear(context: TranslationContext) -> list[str | None]:
    """``round(x / scale * qmax)`` by one scale, or one for each index of ``quant_axis``.

    In training the scale is computed: the moving average of the largest ``|x|``, or the largest of
    each index. Results are the integers, the average's state and accumulator, and the scale.
    """
    x = context.input("x")
    levels, quant_axis = _linear_levels(context), int(context.attr("quant_axis", 0))
    axis = None if quant_axis < 0 else quant_axis
    state = accumulated = None
    scale: str | None = None
    if not context.attr("is_test", 1):
        if axis is None:
            _of_one_element(context, "scale")
            scale, state, accumulated = _averaged(context, x, 0.9)
            state, accumulated, scale = (
                _as_declared(context, found, index)
                for index, found in enumerate((state, accumulated, scale), 1)
            )
        else:
            scale = _abs_max(context, x, axis)
    if context.attr("only_observer", 0):
        return [context.onnx.identity([x]), state, accumulated, scale]
    by = context.input("scale") if scale is None else scale
    return [_quantized(context, x, by, levels, axis), state, accumulated, scale]


@translator(
    "dequantize_linear",
    emits=("Identity", "Reshape", "Mul", "Div"),
    limits="no 8-bit floats; the zero point is not read, as in Paddle",
)
def dequantize_linear(context: TranslationContext) -> list[str | None]:
    """``x * scale / qmax`` by one scale, or one for each index of ``quant_axis``."""
    scale = context.input("scale")
    x = context.input("x")
    if context.attr("only_observer", 0):
        return [context.onnx.identity([x]), None, None, None]
    quant_axis = int(context.attr("quant_axis", 0))
    axis = None if quant_axis < 0 else quant_axis
    return [_restored(context, x, scale, float(_linear_levels(context)), axis), None, None, None]


@translator("fake_dequantize_max_abs", emits=("Reshape", "Mul", "Div"))
def fake_dequantize_max_abs(context: TranslationContext) -> str:
    """``x * scale / max_range``."""
    x, scale = context.input("x"), context.input("scale")
    return _restored(context, x, scale, float(context.attr("max_range")), None)


@translator("fake_channel_wise_dequantize_max_abs", emits=("Reshape", "Mul", "Div"))
def fake_channel_wise_dequantize_max_abs(context: TranslationContext) -> str:
    """``x * scale / levels`` for each index of an axis; a second scale is for all elements."""
    x, scales = context.input("x"), context.inputs("scales")
    bits = context.ints("quant_bits") or [8]
    if len(bits) < len(scales):
        raise context.refuse(
            f"there are {len(scales)} scales and quant_bits {bits}; give the bits of each scale."
        )
    if len(scales) == 1:
        return _restored(context, x, scales[0], 2.0 ** (bits[0] - 1) - 1, _channel(context))
    columns = max(int(context.attr("x_num_col_dims", 1)), 1)
    product = context.onnx.mul([x, _along(context, scales[0], x, columns)])
    levels = (2.0 ** (bits[0] - 1) - 1) * (2.0 ** (bits[1] - 1) - 1)
    return _restored(context, product, scales[1], levels, None)


@translator("dequantize_abs_max", emits=("Cast", "Reshape", "Mul", "Div"))
def dequantize_abs_max(context: TranslationContext) -> str:
    """``x * scale / max_range`` for integers."""
    written_as(context, 0, "float32")
    scale = context.input("scale")
    x = context.cast(context.input("x"), context.dtype(scale))
    return _restored(context, x, scale, float(context.attr("max_range")), None)


@translator("dequantize_log", emits=("Cast", "Reshape", "Less", "Add", "Where", "Gather", "Neg"))
def dequantize_log(context: TranslationContext) -> str:
    """``table[x]``; for negative x ``-table[x + 128]``."""
    written_as(context, 0, "float32")
    x = context.index(context.input("x"))
    # Paddle's kernel takes no notice of the table's axes.
    table = context.reshape(context.input("dict"), [product(context.shape(context.input("dict")))])
    negative = context.onnx.less([x, context.const(0, "int32")])
    raised = context.onnx.add([x, context.const(128, "int32")])
    magnitude = context.onnx.gather([table, context.onnx.where([negative, raised, x])], 0)
    return context.onnx.where([negative, context.onnx.neg([magnitude]), magnitude])

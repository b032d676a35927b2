"""Translators of elementwise arithmetic, with NumPy's broadcasting."""

from __future__ import annotations

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import as_float, as_number, as_truth


def _binary(paddle_name: str, builder_name: str, op_type: str) -> None:
    """Registers an operator that one PopART operator computes as Paddle does."""

    @translator(paddle_name, emits=(op_type,))
    def translate(context: TranslationContext) -> str:
        x, y = context.input("x"), context.input("y")
        return str(getattr(context.onnx, builder_name)([x, y]))


def _of_truths_too(paddle_name: str, builder_name: str, op_type: str) -> None:
    """Registers an operator that also takes booleans, which PopART computes as int32."""

    @translator(paddle_name, emits=(op_type, "Cast"))
    def translate(context: TranslationContext) -> str:
        pair = [as_number(context, "x"), as_number(context, "y")]
        return as_truth(context, "x", str(getattr(context.onnx, builder_name)(pair)))


_of_truths_too("add", "add", "Add")
_binary("subtract", "sub", "Sub")
_of_truths_too("multiply", "mul", "Mul")
_binary("maximum", "max", "Max")
_binary("minimum", "min", "Min")


def _quotient(context: TranslationContext, x: str, y: str) -> str:
    """``x / y``, of integers rounded towards zero; a run raises if an integer divisor is zero."""
    quotient = context.onnx.div([x, y])
    if not context.is_float(x):
        context.check_divisor(quotient)
    return quotient


@translator("divide", emits=("Div",))
def divide(context: TranslationContext) -> str:
    """``x / y``; integers are rounded towards zero (Paddle 2.6; Paddle 3 casts them to floats)."""
    return _quotient(context, context.input("x"), context.input("y"))


@translator("elementwise_pow", emits=("Pow", "Abs", "Equal", "Less", "Not", "And", "Where"))
def elementwise_pow(context: TranslationContext) -> str:
    """``x ** y``.

    Integers with a negative exponent give the truncated ``1 / x ** -y``: 0 unless ``|x|`` is 1.
    """
    x, y = context.input("x"), context.input("y")
    if context.is_float(x):
        return context.onnx.pow([x, y])
    power = context.onnx.pow([x, context.onnx.abs([y])])
    unit = context.onnx.equal([context.onnx.abs([x]), context.const_like(1, x)])
    negative = context.onnx.less([y, context.const_like(0, y)])
    vanishes = context.onnx.logical_and([negative, context.onnx.logical_not([unit])])
    return context.onnx.where([vanishes, context.const_like(0, x), power])


@translator(
    "floor_divide",
    emits=("Div", "Mul", "Sub", "Add", "Floor", "Equal", "Less", "Not", "And", "Where", "Cast",
           "graphcore.Fmod"),
)  # fmt: skip
def floor_divide(context: TranslationContext) -> str:
    """``floor(x / y)``.

    Of floats it is ``(x - fmod(x, y)) / y``, corrected for signs and rounded, since a rounded
    quotient may lie above the next integer (as in CPython and NumPy). Integers are divided towards
    zero and corrected by the sign of the remainder.
    """
    x, y = context.input("x"), context.input("y")
    zero = context.const_like(0, x)
    if context.is_float(x):
        rest = context.graphcore.fmod([x, y])
        quotient = context.onnx.div([context.onnx.sub([x, rest]), y])
    else:
        quotient = _quotient(context, x, y)
        rest = context.onnx.sub([x, context.onnx.mul([quotient, y])])
    signs = [context.onnx.less([rest, zero]), context.onnx.less([y, zero])]
    opposite = context.onnx.logical_not([context.onnx.equal(signs)])
    inexact = context.onnx.logical_not([context.onnx.equal([rest, zero])])
    step = context.cast(context.onnx.logical_and([inexact, opposite]), context.dtype(x))
    whole = context.onnx.sub([quotient, step])
    if not context.is_float(x):
        return whole
    # The division may be off by a rounding error: take the nearest integer.
    near = context.onnx.floor([context.onnx.add([whole, context.const_like(0.5, x)])])
    by_zero = context.onnx.equal([y, zero])
    return context.onnx.where([by_zero, context.onnx.div([x, y]), near])


@translator("trunc_divide", emits=("Div", "Floor", "Ceil", "Less", "Where"))
def trunc_divide(context: TranslationContext) -> str:
    """``x / y`` rounded towards zero."""
    quotient = _quotient(context, context.input("x"), context.input("y"))
    if not context.is_float(quotient):
        return quotient
    negative = context.onnx.less([quotient, context.const_like(0.0, quotient)])
    whole = [context.onnx.ceil([quotient]), context.onnx.floor([quotient])]
    return context.onnx.where([negative, *whole])


@translator("remainder", emits=("graphcore.Remainder",))
def remainder(context: TranslationContext) -> str:
    """``x - floor(x / y) * y``: it has the sign of the divisor, as Python's ``%``."""
    x, y = context.input("x"), context.input("y")
    rest = context.graphcore.remainder([x, y])
    if not context.is_float(x):
        context.check_divisor(rest)
    return rest


@translator("scale", emits=("Mul", "Add", "Identity", "graphcore.Detach", "Reshape", "Cast"))
def scale(context: TranslationContext) -> str:
    """``scale * x + bias``, or ``scale * (x + bias)`` without ``bias_after_scale``.

    As in Paddle: for integers both numbers are truncated first, for booleans they are 1 unless 0,
    and the result is a boolean; a factor computed at run time gets no gradient.
    """
    x = as_number(context, "x")
    bias = _of_kind(context, x, float(context.attr("bias", 0.0)))
    terms = [("mul", _factor(context, x)), ("add", context.const_like(bias, x) if bias else None)]
    result = x
    for builder_name, term in terms if context.attr("bias_after_scale", 1) else terms[::-1]:
        if term is not None:
            result = str(getattr(context.onnx, builder_name)([result, term]))
    result = context.onnx.identity([x]) if result == x else result
    return as_truth(context, "x", result)


def _of_kind(context: TranslationContext, x: str, number: float) -> float:
    """A number cast to the dtype of the operand of a `scale`."""
    if context.dtype(context.input("x")) == "bool":
        return float(number != 0.0)
    return number if context.is_float(x) else float(int(number))


def _factor(context: TranslationContext, x: str) -> str | None:
    """The factor of a `scale` as a rank-0 tensor of x's dtype; None if it is 1."""
    if not context.is_constant("scale"):
        tensor = context.cast(context.reshape(context.input("scale"), []), context.dtype(x))
        return context.graphcore.detach([tensor])
    number = _of_kind(context, x, context.number("scale"))
    return None if number == 1.0 else context.const_like(number, x)


@translator("add_n", emits=("Sum",))
def add_n(context: TranslationContext) -> str:
    """The sum of a list of tensors of the same shape."""
    return context.onnx.sum(context.inputs("inputs"))


@translator("increment", emits=("Add",))
def increment(context: TranslationContext) -> str:
    """``x + value``, computed in the dtype of x."""
    x = context.input("x")
    return context.onnx.add([x, context.const_like(context.attr("value", 1.0), x)])


@translator("pow", emits=("Pow",))
def power(context: TranslationContext) -> str:
    """``x ** y`` for a constant exponent."""
    x = context.input("x")
    exponent = context.const_like(float(context.attr("y")), x)
    return context.onnx.pow([x, exponent])


@translator("clip", emits=("Clip",))
def clip(context: TranslationContext) -> str:
    """``min(max(x, min), max)`` for constant bounds."""
    x = context.input("x")
    bounds = [context.const_like(context.number(name), x) for name in ("min", "max")]
    return context.onnx.clip([x, *bounds])


@translator("lerp", emits=("Sub", "Mul", "Add", "graphcore.Detach"))
def lerp(context: TranslationContext) -> str:
    """``x + weight * (y - x)``; no gradient reaches the weight."""
    x, y = context.input("x"), context.input("y")
    weight = context.graphcore.detach([context.input("weight")])
    step = context.onnx.mul([weight, context.onnx.sub([y, x])])
    return context.onnx.add([x, step])


@translator("atan2", emits=("graphcore.Atan2", "Cast"))
def atan2(context: TranslationContext) -> str:
    """The angle of the point (y, x), in radians; integers give float64 in Paddle."""
    x, y = (as_float(context, name, "float64") for name in "xy")
    if context.shape(x) != context.shape(y):
        raise context.refuse(
            f"x is {context.shape(x)} and y {context.shape(y)}. Paddle's kernel does not "
            "broadcast: it reads y by the indices of x. Expand one to the shape of the other."
        )
    return context.graphcore.atan2([x, y])


def _ignoring_nan(paddle_name: str, builder_name: str, op_type: str) -> None:
    """Registers fmax or fmin: the extreme of two elements, a NaN only if both are NaN."""

    @translator(paddle_name, emits=(op_type, "IsNaN", "Less", "Or", "Not", "Where"))
    def translate(context: TranslationContext) -> str:
        # At a tie the gradient goes to x, as in Paddle; Max and Min would split it.
        x, y = context.input("x"), context.input("y")
        if not context.is_float(x):
            return str(getattr(context.onnx, builder_name)([x, y]))
        pair = [x, y] if paddle_name == "fmax" else [y, x]
        not_worse = context.onnx.logical_not([context.onnx.less(pair)])
        no_y = context.onnx.isnan([y])
        # Not(Less) is true for NaN too, so a NaN in x is replaced last, over that choice.
        chosen = context.onnx.where([context.onnx.logical_or([not_worse, no_y]), x, y])
        return context.onnx.where([context.onnx.isnan([x]), y, chosen])


_ignoring_nan("fmax", "max", "Max")
_ignoring_nan("fmin", "min", "Min")

"""Rules of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.op_schema import FLOATS
from paddle_ipu.popart.standard_rules.emitter import Emitter, Rule

_BITS = {
    ir.DataType.INT32: (ir.DataType.UINT32, 32),
    ir.DataType.INT64: (ir.DataType.UINT64, 64),
    ir.DataType.UINT32: (ir.DataType.UINT32, 32),
    ir.DataType.UINT8: (ir.DataType.UINT8, 8),
}
"""Type -> the one whose bits ONNX shifts in its place, and how many there are."""


def _gelu(emit: Emitter, inner: ir.Value) -> ir.Value:
    """Half of x times one more than `inner`."""
    more = emit("Add", [inner, emit.constant(1.0)])
    return emit("Mul", [emit("Mul", [emit.x, emit.constant(0.5)]), more])


def _gelu_erf(emit: Emitter) -> Sequence[ir.Value]:
    scaled = emit("Mul", [emit.x, emit.constant(math.sqrt(0.5))])
    return [_gelu(emit, emit("Erf", [scaled]))]


def _gelu_tanh(emit: Emitter) -> Sequence[ir.Value]:
    x = emit.x
    cube = emit("Mul", [emit("Mul", [x, x]), x])
    inner = emit("Add", [x, emit("Mul", [cube, emit.constant(0.044715)])])
    scaled = emit("Mul", [inner, emit.constant(math.sqrt(2 / math.pi))])
    return [_gelu(emit, emit("Tanh", [scaled]))]


def _expm1(emit: Emitter) -> Sequence[ir.Value]:
    """tanh(x / 2) (exp(x) + 1), as exp(x) - 1 has no digits where x is small."""
    half = emit("Tanh", [emit("Mul", [emit.x, emit.constant(0.5)])])
    return [emit("Mul", [half, emit("Add", [emit("Exp", [emit.x]), emit.constant(1.0)])])]


def _log1p(emit: Emitter) -> Sequence[ir.Value]:
    """log(u) x / (u - 1) with u = 1 + x rounded: what rounding changes is the same in both."""
    x, one = emit.x, emit.constant(1.0)
    u = emit("Add", [x, one])
    log, rounded = emit("Log", [u]), emit("Sub", [u, one])
    none = emit("Equal", [rounded, emit.constant(0.0)])
    divided = emit("Div", [x, emit.where(none, one, rounded)])
    small = emit.where(none, x, emit("Mul", [log, divided]))
    return [emit.where(emit("Less", [emit("Abs", [x]), one]), small, log)]


def _scaled_add(emit: Emitter) -> Sequence[ir.Value]:
    terms = []
    for at in (0, 1):
        given = emit.optional(2 + at)
        factor = emit.constant(emit.attribute(f"scale{at}", 1.0)) if given is None else given
        terms.append(emit("Mul", [emit.input(at), factor]))
    return [emit("Add", terms)]


def _fmod(emit: Emitter) -> Sequence[ir.Value]:
    return [emit("Mod", [emit.x, emit.input(1)], fmod=1)]


def _remainder(emit: Emitter) -> Sequence[ir.Value]:
    """The remainder with the divisor's sign; ONNX has it for whole numbers only."""
    x, y = emit.x, emit.input(1)
    if x.dtype not in FLOATS:
        return [emit("Mod", [x, y])]
    zero = emit.constant(0.0)
    rest = emit("Mod", [x, y], fmod=1)
    other = emit("Xor", [emit("Less", [rest, zero]), emit("Less", [y, zero])])
    moves = emit("And", [other, emit.flipped(emit("Equal", [rest, zero]))])
    return [emit.where(moves, emit("Add", [rest, y]), rest)]


def _atan2(emit: Emitter) -> Sequence[ir.Value]:
    """The angle of the point (second input, first input), by the signs of zeros too."""
    y, x = emit.x, emit.input(1)
    zero, infinity = emit.constant(0.0), emit.constant(math.inf)
    # The quotient of two infinities, as of two zeros, is NaN.
    far = emit("And", [emit("Equal", [emit("Abs", [part]), infinity]) for part in (y, x)])
    near = emit("And", [emit("Equal", [part, zero]) for part in (y, x)])
    above, beside = (emit.where(far, emit("Sign", [part]), part) for part in (y, x))
    right = emit.where(near, y, emit("Atan", [emit("Div", [above, beside])]))
    pi = emit.constant(math.pi)
    opposite = emit("Add", [right, emit.where(_is_negative(emit, y), emit("Neg", [pi]), pi)])
    return [emit.where(_is_negative(emit, x), opposite, right)]


def _is_negative(emit: Emitter, value: ir.Value) -> ir.Value:
    """Whether a float has a minus; 1 / -0 is minus infinity."""
    zero = emit.constant(0)
    below = emit("Less", [emit("Div", [emit.constant(1), value]), zero])
    return emit("Or", [emit("Less", [value, zero]), below])


def _copy_sign(emit: Emitter) -> Sequence[ir.Value]:
    """|x| with the sign of y, that of a zero too."""
    x, y = emit.x, emit.input(1)
    is_float = y.dtype in FLOATS
    negative = _is_negative(emit, y) if is_float else emit("Less", [y, emit.constant(0)])
    size = emit("Abs", [x])
    return [emit.where(negative, emit("Neg", [size]), size)]


def _shifted(emit: Emitter, x: ir.Value, y: ir.Value, direction: str) -> ir.Value:
    """`x` shifted as bits; zero where y is negative or not less than the number of bits."""
    dtype = emit.x.dtype
    if dtype not in _BITS or y.dtype not in _BITS:
        raise popart_exception(f"ONNX has no shift of {dtype}")
    bits, width = _BITS[dtype]
    number = np.uint64 if bits is ir.DataType.UINT64 else np.uint32
    places = emit.cast(y, number)
    inside = emit("Less", [places, emit.constant(width, number)])
    safe = emit.cast(emit.where(inside, y, emit.constant(0, y.dtype.numpy())), bits)
    moved = emit("BitShift", [emit.cast(x, bits), safe], direction=direction)
    return emit.where(inside, emit.cast(moved, dtype), emit.constant(0))


def _left_shift(emit: Emitter) -> Sequence[ir.Value]:
    return [_shifted(emit, emit.x, emit.input(1), "LEFT")]


def _right_shift(emit: Emitter) -> Sequence[ir.Value]:
    x, y = emit.x, emit.input(1)
    if not emit.attribute("arithmetic", 1) or x.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return [_shifted(emit, x, y, "RIGHT")]
    # Of a negative number the complement is shifted.
    negative = emit("Less", [x, emit.constant(0)])
    ones = emit.constant(-1)
    moved = _shifted(emit, emit.where(negative, emit("Sub", [ones, x]), x), y, "RIGHT")
    return [emit.where(negative, emit("Sub", [ones, moved]), moved)]


def _bitwise(op_type: str) -> Rule:
    def rule(emit: Emitter) -> Sequence[ir.Value]:
        return [emit.later(op_type, list(emit.node.inputs))]

    return rule


def _bitwise_xnor(emit: Emitter) -> Sequence[ir.Value]:
    return [emit.later("BitwiseNot", [emit.later("BitwiseXor", list(emit.node.inputs))])]


RULES: Mapping[tuple[str, str], Rule] = {
    ("ai.graphcore", "Atan2"): _atan2,
    **{("ai.graphcore", name): _bitwise(name)
       for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")},
    ("ai.graphcore", "BitwiseXnor"): _bitwise_xnor,
    ("ai.graphcore", "Expm1"): _expm1,
    ("ai.graphcore", "Fmod"): _fmod,
    ("ai.graphcore", "Gelu"): _gelu_tanh,
    ("ai.graphcore", "GeluErf"): _gelu_erf,
    ("ai.graphcore", "Log1p"): _log1p,
    ("ai.graphcore", "Remainder"): _remainder,
    ("ai.graphcore", "Round"): lambda emit: [emit("Round", [emit.x])],
    ("ai.graphcore", "Scale"): lambda emit: [
        emit("Mul", [emit.x, emit.constant(emit.attribute("scale"))])
    ],
    ("ai.graphcore", "ScaledAdd"): _scaled_add,
    ("ai.graphcore", "Swish"): lambda emit: [emit("Mul", [emit.x, emit("Sigmoid", [emit.x])])],
    ("ai.paddle_ipu", "CopySign"): _copy_sign,
    ("ai.paddle_ipu", "LeftShift"): _left_shift,
    ("ai.paddle_ipu", "LogicalXor"): lambda emit: [emit("Xor", [emit.x, emit.input(1)])],
    ("ai.paddle_ipu", "RightShift"): _right_shift,
}  # fmt: skip

"""Translators of rotary position embedding (RoPE, arXiv:2104.09864).

A pair (a, b) of a head's elements at position p is rotated by ``p / base ** (2i / D)``: to ``(a cos
- b sin, b cos + a sin)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.registry import translator


def _rotated_pairs(context: TranslationContext, x: str) -> str:
    """(-x1, x0, -x3, x2, ...) along the last axis."""
    shape = context.shape(x)
    pairs = context.reshape(x, [*shape[:-1], shape[-1] // 2, 2])
    first, second = context.onnx.split([pairs], 2, len(shape), [1, 1])
    rotated = context.onnx.concat([context.onnx.neg([second]), first], len(shape))
    return context.reshape(rotated, shape)


def _rotated_halves(context: TranslationContext, x: str) -> str:
    """(-second half, first half) of the last axis."""
    axis, size = context.rank(x) - 1, context.shape(x)[-1] // 2
    first, second = context.onnx.split([x], 2, axis, [size, size])
    return context.onnx.concat([context.onnx.neg([second]), first], axis)


def _rotated(context: TranslationContext, x: str, cos: str, sin: str, rotated: str) -> str:
    """``x * cos + rotated * sin``, `rotated` being x with its pairs at a right angle."""
    along = context.onnx.mul([x, cos])
    return context.onnx.add([along, context.onnx.mul([rotated, sin])])


def _angles(context: TranslationContext, steps: int, depth: int) -> tuple[str, str]:
    """cos and sin of ``position / base ** (2i / D)``, [B or 1, S, 1, D], for pairs in a row."""
    base = float(context.attr("rotary_emb_base", 10000.0))
    inverse = base ** -(np.arange(depth) // 2 * 2 / depth)
    if not context.has("position_ids"):
        angles = np.arange(steps)[:, None] * inverse
        dtype = context.dtype(context.input("q"))
        shape = [1, steps, 1, depth]
        return (
            context.const(np.cos(angles).reshape(shape), dtype),
            context.const(np.sin(angles).reshape(shape), dtype),
        )
    ids = context.input("position_ids")
    positions = context.reshape(context.cast(ids, "float32"), [*context.shape(ids), 1, 1])
    scaled = context.onnx.mul([positions, context.const(inverse, "float32")])
    return context.onnx.cos([scaled]), context.onnx.sin([scaled])


def _rows(context: TranslationContext, table: str, steps: int, depth: int) -> str:
    """A table of cosines or sines, [1, S, 1, D] or [S, D], by position: [B or 1, S, 1, D]."""
    positions = context.shape(table)[1 if context.rank(table) == 4 else 0]
    rows = context.reshape(table, [positions, depth])
    if context.has("position_ids"):
        ids = context.input("position_ids")
        gathered = context.onnx.gather([rows, ids], 0)
        return context.reshape(gathered, [*context.shape(ids), 1, depth])
    if positions != steps:
        raise context.refuse(f"sin and cos have {positions} positions, the sequence has {steps}.")
    return context.reshape(rows, [1, steps, 1, depth])


@translator(
    "fused_rotary_position_embedding",
    emits=("Mul", "Add", "Neg", "Split", "Concat", "Reshape", "Gather", "Transpose", "Cast", "Cos",
           "Sin"),
    limits="tables of cosines and sines as long as the sequence, or position ids",
)  # fmt: skip
def fused_rotary_position_embedding(context: TranslationContext) -> Sequence[str | None]:
    """q, k and v [B, S, H, D], rotated by their positions; with ``time_major`` [S, B, H, D].

    With ``use_neox_rotary_style`` pairs are adjacent elements, without it elements D / 2 apart; the
    names are Paddle's, and the reverse of GPT-NeoX's.
    """
    major = bool(context.attr("time_major", 0))
    shape = context.shape(context.input("q"))
    steps, depth = shape[0 if major else 1], shape[3]
    if context.has("sin") != context.has("cos"):
        raise context.refuse("sin and cos must be given together.")
    if context.has("sin"):
        cos, sin = (_rows(context, context.input(name), steps, depth) for name in ("cos", "sin"))
    else:
        cos, sin = _angles(context, steps, depth)
    if major:
        cos, sin = (context.onnx.transpose([t], [1, 0, 2, 3]) for t in (cos, sin))
    rotate = _rotated_pairs if context.attr("use_neox_rotary_style", 1) else _rotated_halves
    return [
        None if x is None else _rotated(context, x, cos, sin, rotate(context, x))
        for x in (context.optional(name) for name in "qkv")
    ]


@translator(
    "fused_partial_rope", emits=("Mul", "Add", "Neg", "Split", "Concat", "Reshape", "Transpose")
)
def fused_partial_rope(context: TranslationContext) -> str:
    """The last elements of x [B, S, H, D], as many as cos has, rotated; the others as they are.

    The rotated part is reordered first, elements with even indices before odd ones; pairs are then
    half of it apart.
    """
    x, cos, sin = (context.input(name) for name in ("x", "cos", "sin"))
    *outer, depth = context.shape(x)
    rotated = context.shape(cos)[-1]
    parts = [x]
    if rotated != depth:
        parts = list(context.onnx.split([x], 2, 3, [depth - rotated, rotated]))
    pairs = context.reshape(parts[-1], [*outer, rotated // 2, 2])
    evens_first = context.onnx.transpose([pairs], [0, 1, 2, 4, 3])
    apart = context.reshape(evens_first, [*outer, rotated])
    result = _rotated(context, apart, cos, sin, _rotated_halves(context, apart))
    return result if len(parts) == 1 else context.onnx.concat([parts[0], result], 3)

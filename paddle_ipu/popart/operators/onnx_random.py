"""Rows of ai.onnx: random numbers, drawn from the session's seed."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    NO_GRADIENT,
    Attribute,
    OpCost,
    float_,
    int_,
    ints,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import random

_SEED = ("seed", Attribute("float"))

for _op, _attributes in (
    ("RandomNormal", [float_("mean", 0.0), float_("scale", 1.0), _SEED]),
    ("RandomUniform", [float_("high", 1.0), float_("low", 0.0), _SEED]),
):
    onnx_row(
        _op, 0, random.by_shape, ANY, OpCost("random", 12, 12), NO_GRADIENT,
        [ints("shape", required=True), int_("dtype", 1), *_attributes],
    )  # fmt: skip
    onnx_row(
        f"{_op}Like", 1, random.like, ANY, OpCost("random", 12, 12), NO_GRADIENT,
        [int_("dtype"), *_attributes],
    )  # fmt: skip

"""Rows of ai.onnx: random numbers, drawn from the session's seed."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import ANY, Attribute, float_, int_, ints, onnx_row
from paddle_ipu.popart.shape_inference import random

_SEED = ("seed", Attribute("float"))
_NORMAL = [float_("mean", 0.0), float_("scale", 1.0), _SEED]
_UNIFORM = [float_("high", 1.0), float_("low", 0.0), _SEED]

for _op, _attributes in (("RandomNormal", _NORMAL), ("RandomUniform", _UNIFORM)):
    onnx_row(
        _op,
        0,
        random.by_shape,
        ANY,
        [ints("shape", required=True), int_("dtype", 1), *_attributes],
        differentiable=False,
    )
    onnx_row(
        f"{_op}Like",
        1,
        random.like,
        ANY,
        [int_("dtype"), *_attributes],
        differentiable=False,
    )

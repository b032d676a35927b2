"""Lowerings of comparisons and logic; their results are bool and carry no gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from paddle_ipu.xla.lowerings.arrays import Inputs, binary, numpy_function
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering

for _op_type, _name in {
    "Equal": "equal",
    "Less": "less",
    "Greater": "greater",
    "And": "logical_and",
    "Or": "logical_or",
    "Not": "logical_not",
    "IsNaN": "isnan",
}.items():
    lowering("ai.onnx", _op_type)(numpy_function(_name))

for _op_type, _name in {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "BitwiseNot": "bitwise_not",
}.items():
    lowering("ai.graphcore", _op_type)(numpy_function(_name))

lowering("ai.paddle_ipu", "LogicalXor")(numpy_function("logical_xor"))
lowering("ai.graphcore", "BitwiseXnor")(binary(lambda x, y: jnp.bitwise_not(jnp.bitwise_xor(x, y))))


@lowering("ai.onnx", "IsInf")
def is_inf(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> jax.Array:
    """Where the tensor is +inf (``detect_positive``) or -inf (``detect_negative``)."""
    x = jnp.asarray(inputs[0])
    positive = bool(attributes.get("detect_positive", 1)) & (x == jnp.inf)
    negative = bool(attributes.get("detect_negative", 1)) & (x == -jnp.inf)
    return positive | negative

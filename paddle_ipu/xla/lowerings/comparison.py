"""Lowerings of comparisons and logic; their results are bool and carry no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from paddle_ipu.xla.lowerings.arrays import are_constants, on_axis
from paddle_ipu.xla.lowerings.registry import Attributes, LoweringContext, lowering


def _rule(name: str) -> Callable[..., Any]:
    """The function `name`, which NumPy and JAX both have."""
    on_constants, on_tensors = getattr(np, name), getattr(jnp, name)

    def rule(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
        inputs = on_axis(inputs, attributes)
        if are_constants(inputs):
            return np.asarray(on_constants(*inputs))
        return on_tensors(*inputs)

    return rule


for _op_type, _name in {
    "Equal": "equal",
    "Less": "less",
    "Greater": "greater",
    "And": "logical_and",
    "Or": "logical_or",
    "Not": "logical_not",
    "IsNaN": "isnan",
}.items():
    lowering("ai.onnx", _op_type)(_rule(_name))

for _op_type, _name in {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "BitwiseNot": "bitwise_not",
}.items():
    lowering("ai.graphcore", _op_type)(_rule(_name))

lowering("ai.paddle_ipu", "LogicalXor")(_rule("logical_xor"))


@lowering("ai.graphcore", "BitwiseXnor")
def bitwise_xnor(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Complement of the exclusive or, bit by bit."""
    return jnp.bitwise_not(jnp.bitwise_xor(*inputs))


@lowering("ai.onnx", "IsInf")
def is_inf(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Where the tensor is +inf (``detect_positive``) or -inf (``detect_negative``)."""
    x = jnp.asarray(inputs[0])
    positive = bool(attributes.get("detect_positive", 1)) & (x == jnp.inf)
    negative = bool(attributes.get("detect_negative", 1)) & (x == -jnp.inf)
    return positive | negative

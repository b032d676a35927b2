"""Reads AMP's loss scaling: the factor of the loss, how it adapts, and the unscaled loss."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.dialect import attribute
from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.support.update_operators import Update
from paddle_ipu.popart.paddle_optimizer import LossScale

LOSS_SCALING = frozenset({"check_finite_and_unscale", "update_loss_scaling"})
"""Operators that divide gradients by the loss scale, and that adapt it."""


def loss_scale(node: ir.Node) -> LossScale:
    """The loss scaling that an operator of `LOSS_SCALING` does, the last before the optimizer."""

    def variable(name: str) -> str:
        value = Update(node).required(name)
        return str(value.meta.get(dialect.VARIABLE, value.name))

    if str(node.op_type).startswith("check"):
        return LossScale(variable("scale"))
    return LossScale(
        variable("prev_loss_scaling"),
        variable("in_good_steps"),
        variable("in_bad_steps"),
        int(attribute(node, "incr_every_n_steps")),
        int(attribute(node, "decr_every_n_nan_or_inf")),
        float(attribute(node, "incr_ratio")),
        float(attribute(node, "decr_ratio")),
    )


def without_scale(graph: ir.Graph, loss: str, scale: LossScale | None) -> str:
    """The name of the loss before AMP multiplies it.

    Args:
        graph: the whole training program.
        loss: name of the value that backward starts from.
        scale: the loss scaling; None without one.

    Raises:
        NotSupported: the loss is not a product with the factor.
    """
    if scale is None:
        return loss
    for node in graph:
        if node.op_type == "multiply" and node.outputs[0].name == loss:
            factors = [value for value in node.inputs if value is not None]
            rest = [v for v in factors if v.meta.get(dialect.VARIABLE, v.name) != scale.variable]
            if len(rest) == 1:
                return str(rest[0].name)
    raise NotSupported(
        f"the loss {loss!r} is not a product with the loss scaling {scale.variable!r}, by which "
        "gradients are divided. Let the optimizer of paddle.static.amp.decorate scale it."
    )

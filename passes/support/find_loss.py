"""Finds the loss of a training program: by its role, or as the seed of backward."""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.dialect import scalar_constant
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.support import roles


def find_loss(graph: ir.Graph, gradients: list[ir.Value]) -> str:
    """The name of the loss.

    Args:
        graph: the whole training program.
        gradients: raw gradients of parameters, from which backward's seed is searched.

    Raises:
        InvalidProgramError: there is not exactly one.
    """
    seeds = dict.fromkeys(roles.losses(graph)) or _backward_seeds(gradients)
    if len(seeds) != 1:
        raise InvalidProgramError(
            "training needs exactly one loss, found "
            + (f"{len(seeds)}: {', '.join(sorted(seeds))}" if seeds else "none")
            + ". Call optimizer.minimize(loss) once, with a loss that depends on the parameters. "
            "What has several, as a generator and its discriminator, takes a program for each: "
            "compiled for one Scope they share their weights."
        )
    return next(iter(seeds))


def _backward_seeds(gradients: list[ir.Value]) -> dict[str, None]:
    """Names of values whose gradient is filled with 1, and not computed."""
    seeds: dict[str, None] = {}
    seen: set[int] = set()
    stack = [gradient.producer() for gradient in gradients]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.op_type == "full_like" and scalar_constant(node.inputs[1]) == 1.0:
            target = node.inputs[0]
            if target is not None and _feeds_gradients(node):
                seeds[str(target.name)] = None
                continue
        if node.op_type == "full" and scalar_constant(node.outputs[0]) == 1.0:
            loss, mark, _ = str(node.outputs[0].name).partition(roles.GRADIENT_MARK)
            if mark:
                seeds[loss] = None
                continue
        stack.extend(value.producer() for value in _gradient_operands(node))
    return seeds


def _gradient_operands(node: ir.Node) -> list[ir.Value]:
    """The operands of a backward operator that are gradients."""
    named = list(dialect.operands(node))
    if str(node.op_type).endswith(("_grad", "_grad_")):
        return [value for name, value in named if value is not None and name.endswith("_grad")]
    return [value for _, value in named if value is not None]


def _feeds_gradients(seed: ir.Node) -> bool:
    return any(use.node.op_type != "full_like" for use in seed.outputs[0].uses())

"""Gradients on their way to the operator whose output they are of: moved, and added up.

A product leaves the gradient of its operand where its parts were computed. An operator that
multiplies with what forward has left needs it there, so it comes over the exchange; what passes a
gradient on to a product does not, as that product fetches its operands itself. Of an output that
several operators read, the gradients are added, one after another, where one of them lies: that of
an operator other than a product lies in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paddle_ipu.cost_model.liveness import Roots
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.part_costs import NOTHING, Cost
from paddle_ipu.cost_model.program import Operator, Program, Tensor
from paddle_ipu.popart.op_schema import READS_NOTHING

_PRODUCTS = frozenset({"matmul", "conv", "recurrent"})


@dataclass(frozen=True, slots=True)
class _Gradient:
    """One reader's gradient of a tensor."""

    tensor: Tensor
    times: int
    of_product: bool


def gathered_gradients(program: Program, pricing: Pricing) -> dict[str, Cost]:
    """Operator -> what its output's gradients cost before its own backward, where that is any."""
    roots = Roots(program.operators)
    gradients: dict[str, list[_Gradient]] = {}
    for operator in program.operators:
        if not operator.gradient or operator.is_view:
            continue
        of_product = _is_product(operator)
        for tensor in operator.read:
            if tensor.role == "activation" and tensor.has_gradient:
                found = _Gradient(tensor, operator.times, of_product)
                for root in roots.of(tensor):
                    gradients.setdefault(root.name, []).append(found)
    costs: dict[str, Cost] = {}
    for operator in program.operators:
        if operator.gradient and not operator.is_view:
            for tensor in operator.outputs:
                cost = _cost(pricing, operator, gradients.get(tensor.name, ()))
                if cost is not NOTHING:
                    costs[operator.name] = costs.get(operator.name, NOTHING) + cost
    return costs


def _cost(pricing: Pricing, operator: Operator, gradients: Sequence[_Gradient]) -> Cost:
    moved = [gradient for gradient in gradients if gradient.of_product]
    if len(moved) == len(gradients) and not _needs_it_in_place(operator):
        moved = moved[1:]
    cost = NOTHING
    for gradient in moved:
        cost = cost + pricing.move(gradient.tensor.bytes, copied=False) * gradient.times
    for gradient in gradients[1:]:
        tensor = gradient.tensor
        cost = cost + pricing.map(tensor.elements, tensor.item, 1.0) * gradient.times
    return cost


def _is_product(operator: Operator) -> bool:
    return operator.cost is not None and operator.cost.kind in _PRODUCTS


def _needs_it_in_place(operator: Operator) -> bool:
    """Whether its backward multiplies a gradient with what lies where forward left it."""
    if _is_product(operator) or operator.cost is None:
        return False
    # A dropout draws the mask of forward only on the tiles of forward.
    return operator.cost.kind == "random" or operator.gradient_reads != READS_NOTHING

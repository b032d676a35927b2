"""Cycles of recurrent layers: a matrix product and its gates a step, one step after another.

A step of a layer with G gates (LSTM 4, GRU 3, plain 1), N rows, I inputs and H units:

    forward   [N, I + H] x [I + H, G H], and on N G H elements a sigmoid or tanh and two more maps
    backward  [N, G H] x [G H, I + H] and four maps; the weights' gradients once for all T steps,
              [I + H, T N] x [T N, G H]
"""

from __future__ import annotations

from paddle_ipu.cost_model.matmul_plan import Product
from paddle_ipu.cost_model.part_costs import Cost, PartCosts
from paddle_ipu.cost_model.program import Operator
from paddle_ipu.popart.op_schema import OpCost


def recurrent(pricing: PartCosts, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    """Forward and backward of LSTM, GRU, RNN and Recurrent, of ONNX's or Poplar's layout."""
    x, weight = operator.read[0], operator.read[1]
    steps, rows, inputs = x.dims
    # Poplar has one tensor [G, I + H, H], ONNX [1, G H, I] and [1, G H, H].
    joined = weight.dims[0] > 1
    hidden = weight.dims[2] if joined else operator.read[2].dims[2]
    columns = weight.dims[0] * hidden if joined else weight.dims[1]
    width, item = inputs + hidden, x.item
    partial = 2 if operator.half_partials and item <= 2 else 4
    activation = rule.half if item <= 2 else rule.single

    def maps(count: float) -> Cost:
        return pricing.map(rows * columns, item, count)

    step = pricing.product(Product(1, rows, width, columns, item, partial, kept=True), operator)
    forward = (step + maps(activation + pricing.constants.gates_forward)) * steps
    data = pricing.product(Product(1, rows, columns, width, item, partial), operator)
    weights = pricing.product(Product(1, width, steps * rows, columns, item, partial), operator)
    return forward, (data + maps(pricing.constants.gates_backward)) * steps + weights

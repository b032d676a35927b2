"""Where a long row of operators is kept out of one fusion.

XLA's CPU backend fuses what can be fused into every reader, and each reader computes it again: in
a row of norms, of ``x - mean(x)`` or of concatenations, the last of `n` kernels holds all the
operators before it, so that code, compile time and run time grow with the square of the row, or
faster. A barrier on a result has it written to memory once.

Rows end by themselves at operators that XLA calls by a kernel of their own, such as a product:
their operands and results are in memory anyway. What is nearer to such an operator than `LIMIT`
is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import jax
from jax import lax

from paddle_ipu.popart.op_schema import CostKind
from paddle_ipu.popart.schema import schema_of
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import REWRITTEN, Array, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate

LIMIT = 64
"""How many elementwise operators in a row may become one fusion."""

_IN_MEMORY: frozenset[CostKind] = frozenset({"conv", "matmul", "recurrent", "sort"})
"""Of operators whose operands and results are in memory."""

_WEIGHTS: Mapping[CostKind, int] = {
    "free": 1, "map": 1, "view": 1, "random": 4, "reduce": 4, "move": 8, "gather": 8, "scatter": 8,
    "pool": 16, "norm": 16, "softmax": 16, "loss": 16,
}  # fmt: skip
"""For how many elementwise operators one counts: by the loops it becomes, each with its operand's
computation in it. Operators without a cost count as norms."""

_JOINING = frozenset({"Concat", "Slice", "Split", "Tile", "Reverse"})
"""Views that compute their operand at other places than their own."""


def ends(nodes: Sequence[LoweredNode]) -> frozenset[str]:
    """The results that go through a barrier.

    Args:
        nodes: of a graph, in order.
    """
    in_memory = {name for node in nodes if _is_in_memory(node) for name in node.inputs}
    read = {name for node in nodes for name in node.inputs}
    behind: dict[str, int] = {}
    found = set[str]()
    for node in nodes:
        if _is_in_memory(node):
            continue
        length = max((behind.get(name, 0) for name in node.inputs if name), default=0)
        length += _weight(node)
        for name in node.outputs:
            if name in in_memory or name not in read:
                continue
            if length >= LIMIT and not _reduces(node):
                found.add(name)
            else:
                behind[name] = length
    return frozenset(found)


def kept_apart(
    names: Collection[str], node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
) -> Sequence[Array]:
    """Wraps a node: puts its results that are in `names`, and their gradients, behind a barrier."""
    results = evaluate(node, operands)
    return [
        _kept_apart(result) if name in names and isinstance(result, jax.Array) else result
        for name, result in zip(node.outputs, results, strict=False)
    ]


def _kept_apart(result: jax.Array) -> jax.Array:
    apart: jax.Array = lax.optimization_barrier(result)  # type: ignore[no-untyped-call]
    return apart


def _is_in_memory(node: LoweredNode) -> bool:
    """Whether operands and results are in memory: of products, kernels and subgraphs."""
    if node.blocks or node.domain == REWRITTEN:
        return True
    row = schema_of(node.domain, node.op_type)
    return row is not None and row.cost is not None and row.cost.kind in _IN_MEMORY


def _reduces(node: LoweredNode) -> bool:
    """Whether a result is smaller than what it is made of: a barrier there would end no row."""
    row = schema_of(node.domain, node.op_type)
    is_priced = row is not None and row.cost is not None and row.cost.kind == "reduce"
    return is_priced and node.op_type != "CumSum"


def _weight(node: LoweredNode) -> int:
    row = schema_of(node.domain, node.op_type)
    if node.op_type in _JOINING:
        return _WEIGHTS["move"]
    return _WEIGHTS["norm" if row is None or row.cost is None else row.cost.kind]

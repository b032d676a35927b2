"""What weights that no run changes allow: each rewriting of an inference graph, in its order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.rewrites import fused_attention, fused_products, row_softmax
from paddle_ipu.xla.rewrites.folded_norms import FoldedNorm, fold
from paddle_ipu.xla.rewrites.fused_attention import FusedAttention
from paddle_ipu.xla.rewrites.fused_products import FusedProduct
from paddle_ipu.xla.rewrites.kernel_layout import constant_kernels
from paddle_ipu.xla.rewrites.row_softmax import RowSoftmax
from paddle_ipu.xla.rewrites.slice_pushdown import without_unread_rows


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A graph and what is done with its operators, as ``StepProgram`` takes them."""

    graph: ir.Graph
    kernels: frozenset[str] = frozenset()
    folded: Sequence[FoldedNorm] = ()
    fused: Sequence[FusedProduct] = ()
    attentions: Sequence[FusedAttention] = ()
    softmaxes: Sequence[RowSoftmax] = ()


def rewritten(
    graph: ir.Graph,
    weights: Collection[str],
    anchored: Collection[str],
    *,
    checks_floats: bool,
    is_replicated: bool,
    unstable_softmax: bool,
) -> Rewriting:
    """All that can be done with a graph whose weights stand.

    Args:
        graph: the PopART graph.
        weights: its weights.
        anchored: tensors that are fetched.
        checks_floats: floating-point checks look at every operator's result.
        is_replicated: JAX runs several replicas in one program, which a custom call cannot join.
        unstable_softmax: softmax takes powers of what it is given, as the kernels do not.
    """
    unseen = set(weights) - set(anchored)
    if checks_floats:
        return Rewriting(graph, constant_kernels(graph, unseen))
    graph = without_unread_rows(graph, anchored)
    kernels, folded = constant_kernels(graph, unseen), fold(graph, unseen, anchored)
    if is_replicated:
        return Rewriting(graph, kernels, tuple(folded))
    attentions = [] if unstable_softmax else fused_attention.fuse(graph, anchored)
    taken = {name for attention in attentions for name in attention.made}
    softmaxes = [] if unstable_softmax else row_softmax.find(graph, taken)
    read = {name for attention in attentions for name in attention.read}
    fused = fused_products.fuse(graph, unseen, {*anchored, *read}, folded, taken)
    kernels -= {product.kernel for product in fused}
    return Rewriting(
        graph, kernels, tuple(folded), tuple(fused), tuple(attentions), tuple(softmaxes)
    )


def lowered(
    nodes: Sequence[LoweredNode],
    folded: Sequence[FoldedNorm],
    fused: Sequence[FusedProduct | FusedAttention | RowSoftmax],
) -> list[LoweredNode]:
    """A graph's nodes with what is done together where the last of it stood.

    Args:
        nodes: of the rewritten graph.
        folded: norms of which something may be left.
        fused: products, attentions and softmaxes.
    """
    norms = {norm.result: norm for norm in folded}
    products = {item.product: item for item in fused}
    dropped = {name for item in fused for name in item.dropped}
    firsts = [(node, node.outputs[0] if node.outputs else "") for node in nodes]
    made = {
        products[first].result: products[first].lowered(node)
        for node, first in firsts
        if first in products
    }
    found = []
    for node, first in firsts:
        if first in made:
            found.append(made[first])
        elif first not in dropped:
            found.append(norms[first].rest(node) if first in norms else node)
    return found

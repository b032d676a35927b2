"""Makes a forward program compute gradients of one of its values, by weights and by feeds.

It replaces ``extract_optimizer``: nothing is updated, and the gradients are fetched.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.new_nodes import new_node
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer, ParameterUpdate

_READ = "@read"


def fetch_of_weight(name: str) -> str:
    """The name under which a weight's gradient is fetched."""
    return GRADIENT_PREFIX + name


def fetch_of_feed(name: str) -> str:
    """The name under which a feed's gradient is fetched."""
    return GRADIENT_PREFIX + name + _READ


class AskForGradients:
    """Sets ``compilation.loss``, ``compilation.optional_gradients``, and ``compilation.optimizer``.

    A fetch is left out if the loss has no gradient by it, as by the labels of most losses.

    Args:
        loss: name of the value, of one element.
        weights: names of the weights whose gradients are fetched.
        feeds: names of the feeds whose gradients are fetched.
    """

    name = "ask_for_gradients"

    def __init__(self, loss: str, weights: Sequence[str], feeds: Sequence[str]) -> None:
        self._loss = loss
        self._weights = tuple(weights)
        self._feeds = frozenset(feeds)

    def run(self, compilation: Compilation) -> bool:
        compilation.loss = self._loss
        compilation.optimizer = PaddleOptimizer(
            updates=tuple(ParameterUpdate(name, "sgd", {}, {}) for name in self._weights),
            gradients={fetch_of_weight(name): name for name in self._weights},
        )
        compilation.optional_gradients = frozenset(
            {*map(fetch_of_weight, self._weights), *map(fetch_of_feed, self._feeds)}
        )
        for value in list(compilation.graph.inputs):
            if value.name in self._feeds:
                _read(compilation.graph, value)
        return True


def _read(graph: ir.Graph, feed: ir.Value) -> None:
    """Inserts an ``assign`` behind a feed: only gradients of computed values can be fetched."""
    result = ir.Value(name=f"{feed.name}{_READ}", shape=feed.shape, type=feed.type)
    uses = list(feed.uses())
    node = new_node("assign", [feed], result)
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    graph.insert_before(next(iter(graph)), node)

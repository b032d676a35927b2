"""Has a forward program give gradients of a value of it: of weights, and of feeds.

It takes the place of ``extract_optimizer``: nothing is updated, and the gradients are fetched.
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
    """The fetch of a weight's gradient."""
    return GRADIENT_PREFIX + name


def fetch_of_feed(name: str) -> str:
    """The fetch of a feed's gradient."""
    return GRADIENT_PREFIX + name + _READ


class AskForGradients:
    """Sets ``compilation.loss``, and ``compilation.optimizer`` with the weights.

    A fetch is left out where the loss has no gradient, as with a label's of most losses.

    Args:
        loss: name of the value, of one element.
        weights: names of those whose gradients are fetched.
        feeds: likewise.
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
        compilation.asked = frozenset(
            {*map(fetch_of_weight, self._weights), *map(fetch_of_feed, self._feeds)}
        )
        for value in list(compilation.graph.inputs):
            if value.name in self._feeds:
                _read(compilation.graph, value)
        return True


def _read(graph: ir.Graph, feed: ir.Value) -> None:
    """x -> assign(x): gradients of what is computed can be fetched."""
    result = ir.Value(name=f"{feed.name}{_READ}", shape=feed.shape, type=feed.type)
    uses = list(feed.uses())
    node = new_node("assign", [feed], result)
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    graph.insert_before(next(iter(graph)), node)

"""The graph of a program by layer, which several pages show: its scripts, its style, its lines.

A page's own script gives ``layerTree`` the operators and flows, and ``layerGraph`` what to colour
and to say; ``parts/layer_tree.js`` and ``parts/layer_graph.js`` say how.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from paddle_ipu.pages.document import page_part

_SCRIPTS = ("layer_tree.js", "layer_graph.js")


class OperatorFlow(NamedTuple):
    """Tensors that one operator makes and another reads.

    Attributes:
        source, target: which operators, by their numbers.
        bytes: of all such tensors of a micro-batch.
    """

    source: int
    target: int
    bytes: int


def flows_as_json(flows: Iterable[OperatorFlow]) -> dict[str, Any]:
    """Flows as reports and pages have them: the names of the columns, and a row for each flow."""
    return {"columns": list(OperatorFlow._fields), "rows": [list(flow) for flow in flows]}


def graph_scripts() -> list[str]:
    """What stands before the page's own script."""
    return [page_part("paddle_ipu.pages", f"parts/{name}") for name in _SCRIPTS]


def graph_style() -> str:
    """The style of the graph."""
    return page_part("paddle_ipu.pages", "parts/layer_graph.css")

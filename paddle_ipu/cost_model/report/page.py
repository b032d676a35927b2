"""A report as one HTML page, whose script draws the JSON that it carries."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from paddle_ipu.pages.document import Section, document, page_part
from paddle_ipu.pages.layer_graph import graph_scripts, graph_style

_SCRIPTS = (
    "categories", "summary", "memory_map", "memory", "liveness", "timeline", "operators", "layers",
    "roofline", "measured", "sources", "start",
)  # fmt: skip

_MEASURED = Section(
    "measured",
    "Measured",
    "What the XLA program took on this machine, which is no IPU: these times and the predicted "
    "ones have nothing in common but the program.",
    '<span class="badge measured">measured here</span>',
)
_LAYERS = Section(
    "layers",
    "Layers",
    "What layers hand to each other, of a micro-batch: thick lines are many bytes, dashed ones "
    "lead back. A click or Enter unfolds a layer, arrow keys go through them; + and - zoom, as "
    "does the wheel with Ctrl.",
)
_SECTIONS = (
    Section("summary", "Summary"),
    Section(
        "insights",
        "Insights",
        "Changes to the strategy, each predicted anew: what it gains, and what it costs.",
    ),
    _LAYERS,
    Section(
        "memory",
        "Memory",
        "The fullest tile of each IPU at its peak; the mark is what a tile has.",
    ),
    Section(
        "liveness",
        "Liveness",
        "Bytes alive on an IPU while its operators run, one pipeline cycle. Arrow keys move along "
        "the curve.",
    ),
    Section(
        "timeline",
        "Timeline",
        "Which IPU works on which micro-batch, to scale; a dashed block stands for many. Arrow "
        "keys go from one piece of work to the next.",
    ),
    Section(
        "roofline",
        "Roofline",
        "Kinds of operators with matrix products, on one IPU: larger ones take longer. Arrow keys "
        "go from one to the next.",
    ),
    Section("operators", "Operators"),
    _MEASURED,
    Section(
        "sources",
        "Sources",
        "How each figure of the summary is computed, and where the figures behind it come from.",
    ),
)


def page(report: Mapping[str, Any], text: str) -> str:
    """The page.

    Args:
        report: of :func:`report_as_json`.
        text: the terminal's summary, for browsers without scripts.
    """
    layer = report["nodes"]["columns"].index("layer")
    without = [] if any(row[layer] for row in report["nodes"]["rows"]) else [_LAYERS]
    without += [] if "measured" in report else [_MEASURED]
    kind = "Training" if report["program"]["settings"]["training"] else "Inference"
    return document(
        f"{report['name'] or 'program'} on {report['machine']['name']}",
        about="predicted",
        lines=[f'{kind} on the IPU Model <span class="badge">predicted, not measured</span>'],
        sections=[part for part in _SECTIONS if part not in without],
        before=f"<noscript><pre>{escape(text)}</pre></noscript>\n",
        styles=[_part("charts.css"), graph_style()],
        scripts=[*graph_scripts(), *(_part(f"{name}.js") for name in _SCRIPTS)],
        data=report,
        footer="Written by paddle_ipu from the PopART program; report version "
        f"{report['version']}.",
    )


def _part(name: str) -> str:
    return page_part("paddle_ipu.cost_model.report", f"page_parts/{name}")

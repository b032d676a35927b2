"""A report as one HTML page: no other file, no network; its script draws the JSON it carries."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

_SCRIPTS = (
    "elements", "summary", "memory", "liveness", "timeline", "operators", "roofline", "measured",
    "start",
)  # fmt: skip

_SECTIONS = (
    ("summary", "Summary", ""),
    (
        "insights", "Insights",
        "Changes to the strategy, each predicted anew: what it gains, and what it costs.",
    ),
    (
        "memory", "Memory",
        "The fullest tile of each IPU at its peak; the mark is what a tile has.",
    ),
    (
        "liveness", "Liveness",
        "Bytes alive on an IPU while its operators run, one pipeline cycle. Arrow keys move "
        "along the curve.",
    ),
    (
        "timeline", "Timeline",
        "Which IPU works on which micro-batch, to scale; a dashed block stands for many. Arrow "
        "keys go from one piece of work to the next.",
    ),
    (
        "roofline", "Roofline",
        "Kinds of operators with matrix products, on one IPU: larger ones take longer. Arrow keys "
        "go from one to the next.",
    ),
    ("operators", "Operators", ""),
    (
        "measured", "Measured",
        "What the XLA program took on this machine, which is no IPU: these times and the predicted "
        "ones have nothing in common but the program.",
    ),
)  # fmt: skip


def page(report: Mapping[str, Any], text: str) -> str:
    """The page.

    Args:
        report: of :func:`report_as_json`.
        text: the terminal's summary, for browsers without scripts.
    """
    style = page_part("style.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(page_part, _scripts())) + "})();\n"
    title = f"{report['name'] or 'program'} on {report['machine']['name']}"
    kind = "Training" if report["program"]["settings"]["training"] else "Inference"
    shown = [row for row in _SECTIONS if row[0] != "measured" or "measured" in report]
    links = "".join(f'<li><a href="#{key}">{name}</a></li>' for key, name, _ in shown)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src '{policy_digest(script)}'; style-src '{policy_digest(style)}'; \
img-src data:; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>{escape(title)}: predicted</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#summary">To the report</a>
<header><div><h1>{escape(title)}</h1>
<p>{kind} on the IPU Model <span class="badge">predicted, not measured</span></p></div>
<button id="theme" type="button" hidden>dark colours</button></header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
<noscript><pre>{escape(text)}</pre></noscript>
{"".join(_section(*row) for row in shown)}</main>
<footer>Written by paddle_ipu from the PopART program; report version {report["version"]}. \
Fitted constants: {escape(_constants(report["constants"]))}.</footer>
<script type="application/json" id="report">{_data(report)}</script>
<script>{script}</script>
</body>
</html>
"""


def _section(key: str, name: str, lead: str) -> str:
    badge = ' <span class="badge measured">measured here</span>' if key == "measured" else ""
    lead = f'<p class="lead">{lead}</p>' if lead else ""
    return (
        f'<section id="{key}" aria-labelledby="{key}-head"><h2 id="{key}-head">{name}{badge}</h2>'
        f"{lead}</section>\n"
    )


def _scripts() -> list[str]:
    return [f"{name}.js" for name in _SCRIPTS]


def page_part(name: str) -> str:
    """The text of a file of ``page_parts``."""
    folder = files("paddle_ipu.cost_model.report.page_parts")
    return (folder / name).read_text(encoding="utf-8")


def policy_digest(text: str) -> str:
    """What the page's policy allows: this very text and no other script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _data(report: Mapping[str, Any]) -> str:
    """JSON that stays within its element, whatever a program calls its tensors."""
    text = json.dumps(report, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _constants(constants: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in constants.items())

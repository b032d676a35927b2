"""A page of sections: its frame, its policy, and the style and scripts that every page shares."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

_FIRST, _LAST = ("elements.js", "tables.js"), ("ready.js",)
"""Scripts before a page's own, which use them, and after."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, with a link in its navigation.

    Attributes:
        key: its element's id.
        name: its heading.
        lead: what stands below the heading.
        badge: HTML that stands in the heading.
        body: HTML; a page's script may add to it.
    """

    key: str
    name: str
    lead: str = ""
    badge: str = ""
    body: str = ""


def document(
    title: str,
    *,
    about: str,
    lines: Sequence[str],
    sections: Sequence[Section],
    before: str = "",
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
    footer: str = "",
) -> str:
    """The page as HTML. Its policy allows the scripts and the style it carries and no other.

    Args:
        title: the heading, as text.
        about: what the browser's tab says after it, as text.
        lines: HTML of the paragraphs below the heading.
        sections: in the order of the page.
        before: HTML before the sections.
        styles, scripts: texts of a page's own, after the shared style and scripts.
        data: what a script reads from the element ``data``.
        footer: HTML below the sections.
    """
    style = "".join((page_part("paddle_ipu.pages", "parts/style.css"), *styles))
    shared = {name: page_part("paddle_ipu.pages", f"parts/{name}") for name in (*_FIRST, *_LAST)}
    texts = (*(shared[name] for name in _FIRST), *scripts, *(shared[name] for name in _LAST))
    script = '"use strict";\n(() => {\n' + "\n".join(texts) + "})();\n"
    links = "".join(f'<li><a href="#{part.key}">{part.name}</a></li>' for part in sections)
    paragraphs = "".join(f"<p>{line}</p>\n" for line in lines)
    carried = (
        ""
        if data is None
        else f'<script type="application/json" id="data">{_json(data)}</script>\n'
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src '{_digest(script)}'; style-src '{_digest(style)}'; \
img-src data:; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>{escape(title)}: {escape(about)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#{sections[0].key}">To the report</a>
<header><div><h1>{escape(title)}</h1>
{paragraphs}</div>
<button id="theme" type="button" hidden>dark colours</button></header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{before}{"".join(map(_section, sections))}</main>
<footer>{footer}</footer>
{carried}<script>{script}</script>
</body>
</html>
"""


def page_part(package: str, name: str) -> str:
    """The text of a file of a package that goes into a page."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _section(part: Section) -> str:
    key, badge = part.key, f" {part.badge}" if part.badge else ""
    lead = f'<p class="lead">{part.lead}</p>' if part.lead else ""
    return (
        f'<section id="{key}" aria-labelledby="{key}-head">'
        f'<h2 id="{key}-head">{part.name}{badge}</h2>{lead}{part.body}</section>\n'
    )


def _digest(text: str) -> str:
    """What the page's policy allows: this very text."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _json(data: Mapping[str, Any]) -> str:
    """JSON that stays within its element, whatever a program calls its tensors."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

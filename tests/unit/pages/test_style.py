"""The style of pages: what no browser has to be asked."""

from __future__ import annotations

import re

from paddle_ipu.pages.document import page_part


def test_dark_colours_are_the_same_by_the_system_and_by_the_button() -> None:
    style = page_part("paddle_ipu.pages", "parts/style.css")
    blocks = [
        re.findall(r"(--[\w-]+): ([^;}]*[^;}\s])", block)
        for block in re.findall(r":root[^{]*\{([^}]*)\}", style)
    ]
    light, by_system, by_button, printed = (dict(block) for block in blocks if block)
    assert by_system == by_button
    # Every colour has a dark one; the width of the page is no colour.
    assert {*light} - {*by_system} == {"--page"}
    # Paper is white: dark colours are the screen's alone.
    dark = re.findall(r"@media ([^{]*)\{ :root[:\[]", style)
    assert dark == ["screen and (prefers-color-scheme: dark) ", "screen "]
    assert {*printed.values()} == {"#fff"}

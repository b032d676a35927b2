"""What tests ask and do to the graph of a program by layer on a page."""

from __future__ import annotations

from typing import Any


def boxes(page: Any) -> list[str]:
    """Names of the boxes, from the top, with two blanks for each layer that they are in."""
    return list(
        page.execute_script(
            "return [...document.querySelectorAll('#layers [role=treeitem]')].map(item => "
            "'  '.repeat(item.getAttribute('aria-level') - 1) "
            "+ item.querySelector('.name').textContent)"
        )
    )


def chosen(page: Any) -> str:
    """What is said of the box that has the focus, ``none`` where none has it."""
    return str(
        page.execute_script(
            "const item = document.activeElement;"
            "return item.getAttribute('aria-selected') === 'true' ? item.ariaDescription : 'none'"
        )
    )


def press(page: Any, name: str) -> None:
    """Presses the button of that name."""
    page.execute_script(
        "[...document.querySelectorAll('#layers button')]"
        ".find(x => x.textContent === arguments[0]).click()",
        name,
    )


# Contrasts of the texts on boxes, whose colour is mixed, by WCAG: 4.5 for text of this size.
BOX_CONTRASTS = """
const rgb = text => text.startsWith("color(srgb") ? text.match(/[\\d.]+/g).slice(0, 3).map(Number)
  : text.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255);
const light = colour => rgb(colour)
  .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
  .reduce((sum, x, at) => sum + x * [0.2126, 0.7152, 0.0722][at], 0);
return [...document.querySelectorAll("#layers [role=treeitem][aria-level]")].flatMap(item => {
  const behind = getComputedStyle(item.querySelector("rect")).fill;
  return behind === "none" ? [] : [...item.querySelectorAll("text")].map(text => {
    const [a, b] = [light(getComputedStyle(text).fill), light(behind)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }); });
"""

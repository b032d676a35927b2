"""Links in Markdown: where they are, where they lead, and whether that is there.

Anchors are those that Git hosting gives to headings, and that the site gives (mkdocs.yml).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1`*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INLINE = re.compile(r"\]\(\s*<?(?P<target>[^()\s<>]+(?:\([^()\s]*\)[^()\s]*)?)>?[^()]*\)")
_DEFINED = re.compile(r"^ {0,3}\[[^\]]+\]:[ \t]*(?P<target>\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}[ \t]+(?P<title>.+?)[ \t#]*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Link:
    """A link or an image to something in the repository.

    Attributes:
        target: as it is written, ``../README.md#how-fast``.
        start: index in the page of the target's first character.
        line: line of the page, counted from 1.
    """

    target: str
    start: int
    line: int

    @property
    def path(self) -> str:
        """What it leads to, without the anchor; empty for an anchor of the page itself."""
        return self.target.partition("#")[0]

    @property
    def anchor(self) -> str:
        """The anchor, or empty."""
        return self.target.partition("#")[2]


def links(markdown: str) -> Iterator[Link]:
    """The links of a page that lead to no other host, in no order; those in code are text."""
    text = without_code(markdown)
    for pattern in (_INLINE, _DEFINED):
        for found in pattern.finditer(text):
            # A target may hold characters that look like code.
            start, end = found.span("target")
            if not _ELSEWHERE.match(markdown, start):
                yield Link(markdown[start:end], start, markdown.count("\n", 0, start) + 1)


def anchors(markdown: str) -> set[str]:
    """The anchors of a page's headings; a repeated one has a number behind it."""
    text = _blank(_COMMENT, _blank(_FENCE, markdown))
    counted: dict[str, int] = {}
    found = set()
    for heading in _HEADING.finditer(text):
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading["title"])
        words = re.sub(r"[^\w\- ]", "", title.strip().lower())
        anchor = words.replace(" ", "-")
        number = counted[anchor] = counted.get(anchor, -1) + 1
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def title_of(markdown: str) -> str:
    """The text of a page's first heading."""
    heading = _HEADING.search(_blank(_COMMENT, _blank(_FENCE, markdown)))
    return heading["title"] if heading else ""


def resolved(page: str, target: str) -> str:
    """The path from the root of what a page's link leads to; ``page`` is the page's own."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def broken_links(root: Path, page: str) -> list[str]:
    """What is wrong with a page's links: files that are not there, anchors that no heading has.

    Args:
        root: the folder that paths are counted from.
        page: path of a Markdown file from there.

    Returns:
        One line for each, ``docs/a.md:3: …``.
    """
    markdown = (root / page).read_text(encoding="utf-8")
    wrong = []
    for link in sorted(links(markdown), key=lambda link: link.start):
        path = resolved(page, link.path) if link.path else page
        place = f"{page}:{link.line}: ({link.target})"
        if not (root / path).is_file():
            wrong.append(f"{place} leads to {path}, which is no file")
        elif link.anchor and path.endswith(".md"):
            there = anchors((root / path).read_text(encoding="utf-8"))
            if link.anchor not in there:
                wrong.append(f"{place}: {path} has no heading #{link.anchor}")
    return wrong


def without_code(markdown: str) -> str:
    """The text with code and comments blanked, every other character where it was."""
    return _blank(_CODE, _blank(_COMMENT, _blank(_FENCE, markdown)))


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)

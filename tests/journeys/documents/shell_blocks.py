"""The commands that the documents show, and the output shown for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.checkout import ROOT

PAGES = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "examples").glob("*/README.md")),
    )
)

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE
)
_COMMENT = re.compile(r"\s+# .*$", re.MULTILINE)
_CONTINUED = re.compile(r"\\\n\s*")
_FILE = re.compile(r"`([\w/.]+\.(?:py|json))`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        line: of its first fence, from 1.
        kind: what stands behind the fence; empty if nothing does.
        text: its lines.
        before: the page's text between the block before, or the page's begin, and this one.
    """

    line: int
    kind: str
    text: str
    before: str


@dataclass(frozen=True, slots=True)
class Step:
    """Commands with one output shown: those of a ``sh`` block, or one of a ``console`` block.

    Attributes:
        page: the document, from the root.
        line: of the block, from 1.
        commands: without comments, each on one line.
        shown: the output shown for them; None if none is.
    """

    page: str
    line: int
    commands: tuple[str, ...]
    shown: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in its order."""
    text, end, found = (ROOT / page).read_text(encoding="utf-8"), 0, []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(line, match["kind"], match["text"], text[end : match.start()]))
        end = match.end()
    return found


def steps(page: str) -> list[Step]:
    """The commands of a page, in its order.

    A ``text`` or ``json`` block shows the output of the ``sh`` block before it, unless another
    block or a heading is between them. A ``console`` block has commands behind ``$``, and the
    output of each below it.
    """
    found: list[Step] = []
    before = ""
    for block in blocks(page):
        if block.kind == "sh":
            found.append(Step(page, block.line, tuple(_commands(block.text)), None))
        elif block.kind == "console":
            found += _of_console(page, block)
        elif block.kind in ("text", "json") and before == "sh" and "\n#" not in block.before:
            step = found.pop()
            found.append(Step(page, step.line, step.commands, block.text))
        before = block.kind
    return found


def files(page: str) -> dict[str, str]:
    """Name -> text of the scripts and the JSON that a page says to save, the first of each name.

    A block is such a file if the paragraph before it ends with its name in backticks, as the last
    name of a file there.
    """
    found: dict[str, str] = {}
    for block in blocks(page):
        if block.kind in ("python", "py", "json"):
            paragraph = block.before.rstrip().rpartition("\n\n")[2]
            for name in _FILE.findall(paragraph)[-1:]:
                found.setdefault(name, block.text)
    return found


def _commands(text: str) -> Iterator[str]:
    for line in _COMMENT.sub("", _CONTINUED.sub("", text)).splitlines():
        if line.strip():
            yield " ".join(line.split())


def _of_console(page: str, block: Block) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = _CONTINUED.sub("", part).partition("\n")
        yield Step(page, block.line, tuple(_commands(command)), shown or None)

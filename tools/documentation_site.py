"""What MkDocs calls while it builds the documentation (mkdocs.yml, ``make docs``).

Pages link to files outside docs/: READMEs of examples, benchmarks, sources. The site has a copy of
each such file under ``repository/``, and of what these link to in turn, so that it needs no other
host. A page that loads something from one fails the build, as every warning does.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tools.documentation_links import links, resolved, title_of, without_code

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
COPIES = "repository"
"""Folder of the site with files from outside docs/."""

_LOG = logging.getLogger("mkdocs.plugins.site")

# Ideographs, and the punctuation that goes with them.
_CHINESE_BREAK = re.compile(r"(?<=[\u3001-\u9fff\uff01-\uff5e])\n(?=[\u3001-\u9fff\uff01-\uff5e])")

# Links that readers follow load nothing: <a>, and <link> with another rel.
_LOADS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?\s(?:src|data)=["']?(?P<a>[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preload|preconnect|modulepreload))[^>]*?\shref=["']?(?P<b>[^"'\s>]+)"""
    r"""|@import\s+["'](?P<c>[^"']+)|url\(\s*["']?(?P<d>[^"')\s]+)""",
    re.IGNORECASE,
)


def site_path(path: str) -> str:
    """Where the site has a file of the repository; both count from the root."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{COPIES}/{path}"


def repository_path(path: str) -> str:
    """The file of the repository that a page of the site is made from."""
    inside = path.removeprefix(f"{COPIES}/")
    return inside if inside != path else f"docs/{path}"


def linked_from_outside(root: Path, pages: Iterable[str]) -> list[str]:
    """Files outside docs/ that pages link to, and what those that are pages link to in turn.

    Args:
        root: the repository.
        pages: paths of Markdown files, from the root.
    """
    waiting, found = list(pages), set()
    while waiting:
        page = waiting.pop()
        for link in links((root / page).read_text(encoding="utf-8")):
            path = resolved(page, link.path) if link.path else page
            if path.startswith("docs/") or path in found or not (root / path).is_file():
                continue
            found.add(path)
            if path.endswith(".md"):
                waiting.append(path)
    return sorted(found)


def with_site_links(markdown: str, page: str) -> str:
    """A page whose links lead to where the site has what they lead to in the repository.

    Args:
        markdown: the page.
        page: its path from the root of the repository.
    """
    folder = posixpath.dirname(site_path(page)) or "."
    for link in sorted(links(markdown), key=lambda link: -link.start):
        if not link.path:
            continue
        there = posixpath.relpath(site_path(resolved(page, link.path)), folder)
        end = link.start + len(link.path)
        markdown = markdown[: link.start] + there + markdown[end:]
    return markdown


def with_titles(markdown: str, page: str, root: Path = ROOT) -> str:
    """A page in which links called ``training.md`` have the title of that page for a text.

    Args:
        markdown: the page, its links as in the repository.
        page: its path from the root.
        root: the repository.
    """
    for link in sorted(links(markdown), key=lambda link: -link.start):
        there = root / resolved(page, link.path)
        before, name, rest = markdown[: link.start].rpartition("[")
        text = rest.removesuffix("](")
        if link.path and text.endswith(".md") and there.name == Path(text).name:
            title = title_of(there.read_text(encoding="utf-8"))
            markdown = f"{before}{name}{title}]({markdown[link.start :]}"
    return markdown


def with_joined_lines(markdown: str) -> str:
    """A page without line breaks between Chinese characters, which browsers show as spaces."""
    breaks = [found.start() for found in _CHINESE_BREAK.finditer(without_code(markdown))]
    for start in reversed(breaks):
        markdown = markdown[:start] + markdown[start + 1 :]
    return markdown


def loaded_from_elsewhere(text: str) -> list[str]:
    """What a page or a style sheet would have a browser load from another host."""
    loads = (next(group for group in found.groups() if group) for found in _LOADS.finditer(text))
    return [target for target in loads if re.match(r"https?:|//", target, re.IGNORECASE)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files from outside docs/."""
    from mkdocs.structure.files import File

    pages = [repository_path(file.src_uri) for file in files.documentation_pages()]
    for path in linked_from_outside(ROOT, pages):
        files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Changes the links of a page, and the lines of a Chinese one."""
    path = repository_path(page.file.src_uri)
    markdown = with_site_links(with_titles(markdown, path), path)
    return with_joined_lines(markdown) if page.file.name.endswith("_zh") else markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Says which pages are Chinese, so that a browser takes a Chinese font."""
    return f'<div lang="zh">{html}</div>' if page.file.name.endswith("_zh") else html


def on_post_build(config: MkDocsConfig) -> None:
    """Warns of what would be loaded from another host."""
    for file in sorted(Path(config.site_dir).rglob("*")):
        if file.suffix in (".html", ".css"):
            for target in loaded_from_elsewhere(file.read_text(encoding="utf-8")):
                _LOG.warning(
                    "%s loads %s: expected nothing from another host; put it into docs/",
                    file.relative_to(config.site_dir),
                    target,
                )

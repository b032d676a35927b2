"""The documentation: every link leads somewhere, every page is in the site's order, and every
public name has an entry."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import paddle_ipu
import popdist
from paddle_ipu import errors, popart, serving
from popdist import popart as popdist_popart
from tests.checkout import ROOT
from tools import documentation_site as site
from tools.documentation_links import anchors, broken_links, links, resolved

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
OUTSIDE = [path for path in site.linked_from_outside(ROOT, PAGES) if path.endswith(".md")]


class _AnyTag(yaml.SafeLoader):
    """Reads mkdocs.yml, which names a function of a package that only the site needs."""


_AnyTag.add_multi_constructor("", lambda loader, tag, node: None)


def _in_nav(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from _in_nav(entry)


@pytest.fixture(scope="module")
def nav() -> list[str]:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _AnyTag)
    return list(_in_nav(config["nav"]))


def test_readme_says_the_same_in_chinese() -> None:
    """Code, numbers, names in backticks and links; the order of words in a sentence is free."""
    english, chinese = "README.md", "docs/README_zh.md"

    def facts(page: str) -> tuple[list[str], dict[str, Counter[str]]]:
        text = (ROOT / page).read_text(encoding="utf-8")
        fence = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
        prose = " ".join(fence.sub("", text).split())
        targets = {f"{resolved(page, link.path)}#{link.anchor}" for link in links(text)}
        return fence.findall(text), {
            "numbers": Counter(re.findall(r"\d+(?:[.,]\d+)*", prose)),
            "names": Counter(re.findall(r"`[^`]+`", prose)),
            "links": Counter(targets - {f"{english}#", f"{chinese}#"}),
        }

    blocks, told = facts(english)
    blocks_in_chinese, told_in_chinese = facts(chinese)
    assert blocks_in_chinese == blocks
    for kind, expected in told.items():
        assert told_in_chinese[kind] == expected, (
            f"{chinese}: its {kind} are not those of {english}"
        )


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE])
def test_every_link_and_anchor_leads_somewhere(page: str) -> None:
    assert broken_links(ROOT, page) == []


def test_the_first_page_leads_to_every_other_but_those_of_the_python_api() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page for page in PAGES if not page.startswith("docs/api/")}
    assert pages - {f"docs/{link.path}" for link in links(index)} == {"docs/index.md"}


def test_every_page_is_in_the_order_of_the_site_once(nav: list[str]) -> None:
    assert sorted(nav) == sorted(site.site_path(page) for page in [*PAGES, *OUTSIDE])


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("[a](b.md)", "docs/a.md:3: (b.md) leads to docs/b.md, which is no file"),
        ("![a](<../i.png>)", "docs/a.md:3: (../i.png) leads to i.png, which is no file"),
        ("[a][b]\n\n[b]: ./c.md", "docs/a.md:5: (./c.md) leads to docs/c.md, which is no file"),
        ("[a](#b)", "docs/a.md:3: (#b): docs/a.md has no heading #b"),
        ("[a](../r.md#b 'title')", "docs/a.md:3: (../r.md#b): r.md has no heading #b"),
    ],
)
def test_a_broken_link_is_told_with_its_line(tmp_path: Path, written: str, what: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "r.md").write_text("# R")
    (tmp_path / "docs/a.md").write_text(f"# A\n\n{written}\n")
    assert broken_links(tmp_path, "docs/a.md") == [what]


@pytest.mark.parametrize(
    "written",
    [
        "`[a](b.md)`",
        "```python\nx[0](b)\n```",
        "<!-- [a](b.md) -->",
        "[a](https://example.com/b.md)",
        "[a](mailto:a@example.com)",
    ],
)
def test_code_and_other_hosts_are_no_links_of_the_repository(written: str) -> None:
    assert list(links(written)) == []


def test_anchors_are_those_of_git_hosting() -> None:
    page = """
# Paddle's `a_b`, and C++!

## Twice

```
# no heading
```

## Twice

## 安装 — [x](y.md)
"""
    assert anchors(page) == {"paddles-a_b-and-c", "twice", "twice-1", "安装--x"}


def test_the_site_has_what_its_pages_link_to(tmp_path: Path) -> None:
    for path, text in {
        "docs/a.md": "[r](../README.md) [b](b.md)",
        "docs/b.md": "",
        "README.md": "[e](examples/e.md#x) [s](s.cc) [b](docs/b.md) [here](#here)",
        "examples/e.md": "[r](../README.md)",
        "s.cc": "[no](link.md)",
        "unlinked.md": "",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    found = site.linked_from_outside(tmp_path, ["docs/a.md", "docs/b.md"])
    assert found == ["README.md", "examples/e.md", "s.cc"]


@pytest.mark.parametrize(
    ("page", "written", "expected"),
    [
        ("docs/a.md", "[x](b.md#y)", "[x](b.md#y)"),
        ("docs/api/a.md", "[x](../b.md)", "[x](../b.md)"),
        ("docs/a.md", "[x](../README.md#y)", "[x](repository/README.md#y)"),
        ("docs/api/a.md", "[x](../../s.cc)", "[x](../repository/s.cc)"),
        ("README.md", "![x](docs/i.png) [y](LICENSE)", "![x](../i.png) [y](LICENSE)"),
        ("examples/e/R.md", "[x](../../docs/a.md)", "[x](../../../a.md)"),
        ("README.md", "[x](#y) `[x](docs/a.md)`", "[x](#y) `[x](docs/a.md)`"),
    ],
)
def test_links_lead_to_the_same_file_on_the_site(page: str, written: str, expected: str) -> None:
    assert site.with_site_links(written, page) == expected
    assert site.repository_path(site.site_path(page)) == page


def test_a_link_called_by_its_file_has_the_title_on_the_site(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/b.md").write_text("<!-- # no -->\n# How `b` works\n")
    page = "[docs/b.md](docs/b.md#c), [b.md](docs/b.md); [b](docs/b.md) `[b.md](docs/b.md)`"
    title = "How `b` works"
    expected = f"[{title}](docs/b.md#c), [{title}](docs/b.md); [b](docs/b.md) `[b.md](docs/b.md)`"
    assert site.with_titles(page, "README.md", tmp_path) == expected


def test_chinese_lines_are_joined_and_code_is_not() -> None:
    page = "一，\n二 a\n三\n\n四\n- 五\n\n```\n六\n七\n```\n八"
    assert site.with_joined_lines(page) == "一，二 a\n三\n\n四\n- 五\n\n```\n六\n七\n```\n八"


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ('<script async src="https://a.example/b.js"></script>', "https://a.example/b.js"),
        ("<img alt=x src=//a.example/b.png>", "//a.example/b.png"),
        ('<link href="https://a.example/c.css" rel="stylesheet">', "https://a.example/c.css"),
        ("a { background: url('http://a.example/d.png') }", "http://a.example/d.png"),
        ('@import "https://a.example/e.css";', "https://a.example/e.css"),
        ('<a href="https://a.example">', None),
        ('<link rel="canonical" href="https://a.example">', None),
        ('<script src="assets/b.js"></script>', None),
        ("<svg xmlns='http://www.w3.org/2000/svg'>", None),
    ],
)
def test_what_comes_from_another_host_is_found(text: str, loaded: str | None) -> None:
    assert site.loaded_from_elsewhere(text) == ([loaded] if loaded else [])


def _entries() -> dict[str, object]:
    """The paths after ``:::`` in docs/api, and the objects they name."""
    found = {}
    for page in (ROOT / "docs/api").glob("*.md"):
        for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, name = path.rpartition(".")
            found[path] = getattr(import_module(module), name)
    return found


ENTRIES = _entries()


@pytest.mark.parametrize(
    "module", [paddle_ipu, errors, serving, popdist, popdist_popart], ids=lambda m: m.__name__
)
def test_every_public_name_of_a_module_has_an_entry(module: Any) -> None:
    listed = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    values = [getattr(module, name) for name in listed]
    missing = [value for value in values if value not in ENTRIES.values()]
    assert [value for value in missing if not inspect.ismodule(value)] == []
    for value in missing:
        page = ROOT / f"docs/api/{value.__name__.rpartition('.')[2]}.md"
        assert page.is_file(), f"{value.__name__} has no page {page}"


def test_every_name_of_popart_has_an_entry_or_is_in_a_table() -> None:
    names = (ROOT / "docs/popart.md").read_text(encoding="utf-8")
    operators = (ROOT / "docs/api/popart_operators.md").read_text(encoding="utf-8")
    for name in popart.__all__:
        value = getattr(popart, name)
        has_entry = any(value is entry for entry in ENTRIES.values())
        in_table = f"- `{name}`: " in names or f"| `{name}()` | " in names
        number = isinstance(value, int) and f"| `{name}` | {value} |" in names
        assert has_entry or in_table or number or f"\n## {name}\n" in operators, name


def test_what_the_guides_import_has_an_entry() -> None:
    shown = re.compile(r"^ *from (paddle_ipu[\w.]*|popdist[\w.]*) import ([\w, ]+)", re.MULTILINE)
    for page in (*PAGES, "README.md"):
        for module, names in shown.findall((ROOT / page).read_text(encoding="utf-8")):
            for name in names.replace(" ", "").split(","):
                value = getattr(import_module(module), name)
                assert inspect.ismodule(value) or value in ENTRIES.values(), f"{page}: {name}"


@pytest.mark.parametrize("path", ENTRIES)
def test_an_entry_has_a_docstring_in_markdown(path: str) -> None:
    value = ENTRIES[path]
    members = vars(value).items() if isinstance(value, type) else ()
    for name, member in [("", value), *members]:
        text = "" if name.startswith("_") else inspect.getdoc(member) or ""
        assert text or name, f"{path} has no docstring, so its entry is empty"
        role = re.search(r":\w+:`", text)
        assert role is None, f"{path} {name}: {role and role[0]} is no Markdown"

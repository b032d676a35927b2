"""The generated pages: current in the repository, found stale elsewhere, written where asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paddle_ipu.options.strategy import OPTIONS
from tests.checkout import ROOT
from tools import generate_docs


@pytest.mark.parametrize("page", generate_docs.PAGES)
def test_a_page_is_up_to_date(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_docs.main([page, "--check"]) == 0, capsys.readouterr().err


def test_a_stale_page_is_found_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate_docs.main(["options", "--check"], root=tmp_path) == 1
    assert "docs/options.md is out of date: run python -m" in capsys.readouterr().err
    assert generate_docs.main(["--write"], root=tmp_path) == 0
    assert generate_docs.main(["--check"], root=tmp_path) == 0
    page = (tmp_path / "docs/options.md").read_text(encoding="utf-8")
    for name in OPTIONS:
        assert f"| `{name}` | " in page


def test_an_unknown_page_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        generate_docs.main(["nothing", "--check"])
    assert "there is no page 'nothing'; there are options" in capsys.readouterr().err


def test_the_readme_counts_the_operators_as_the_table_does() -> None:
    import paddle_ipu.ops.families  # noqa: F401 - fills the table
    from paddle_ipu.ops.registry import translated_operators

    readme = (ROOT / "README.md").read_text()
    counted = re.search(r"^\| operators \| (\d+),", readme, re.MULTILINE)
    assert counted is not None
    translated = len(translated_operators())
    assert int(counted[1]) == translated, (
        f"README.md counts {counted[1]} operators under 'What works'; there are {translated}"
    )

"""``make wheel`` leaves the rest of its folder alone."""

from __future__ import annotations

from pathlib import Path

from tools.wheel import forget_earlier


def test_earlier_builds_go_and_other_files_stay(tmp_path: Path) -> None:
    names = [
        "paddle_ipu-0.1.0.tar.gz",
        "paddle_ipu-0.1.0-py3-none-any.whl",
        "other-1.0.whl",
        "a.txt",
    ]
    for name in names:
        (tmp_path / name).touch()
    forget_earlier(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "other-1.0.whl"]
    forget_earlier(tmp_path / "absent")

"""``paddle-ipu completion``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paddle_ipu.cli.main import COMMANDS, main

pytest.importorskip("shtab", reason="the extra `completion` is not installed")


def completed(script: str, folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    asked = (
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        "COMP_LINE=\"${COMP_WORDS[*]}\"; COMP_POINT=${#COMP_LINE}; "
        "$(complete -p paddle-ipu | sed 's/.*-F \\([^ ]*\\).*/\\1/') paddle-ipu "
        "\"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"],
        capture_output=True, text=True, timeout=60, cwd=folder, check=True,
    )  # fmt: skip
    return {word.rstrip() for word in done.stdout.splitlines()}


def test_bash_completes_subcommands_options_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "train.py").touch()
    (tmp_path / "folder").mkdir()
    assert {command.NAME for command in COMMANDS} <= completed(script, tmp_path, "paddle-ipu", "")
    assert completed(script, tmp_path, "paddle-ipu", "rep") == {"report"}
    assert "--html" in completed(script, tmp_path, "paddle-ipu", "report", "--ht")
    assert completed(script, tmp_path, "paddle-ipu", "report", "tr") == {"train.py"}
    assert "fp16" in completed(script, tmp_path, "paddle-ipu", "verify", "--against", "f")
    found = completed(script, tmp_path, "paddle-ipu", "report", "--directory", "")
    assert found == {"folder"}


@pytest.mark.parametrize(("shell", "start"), [("zsh", "#compdef paddle-ipu"), ("tcsh", "# AUTO")])
def test_other_shells(shell: str, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(start)
    assert all(command.NAME in printed for command in COMMANDS)


def test_without_shtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 3
    assert "pip install 'paddle_ipu[completion]' brings it" in capsys.readouterr().err

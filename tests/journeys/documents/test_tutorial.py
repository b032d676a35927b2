"""The tutorial's commands are such as the scripts accept, and both languages show the same.

Its Python blocks are run by `test_documents.py`; `py` blocks are scripts that need SQuAD's file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("h5py")
pytest.importorskip("rich")

from examples.bert import prepare
from examples.bert.stages.arguments import parse
from examples.bert.stages.presets import STAGES
from tests.checkout import ROOT

ENGLISH = (ROOT / "docs" / "tutorial.md").read_text()
CHINESE = (ROOT / "docs" / "tutorial_zh.md").read_text()

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[.+\]\((.+)\)")


def of_kind(kind: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(ENGLISH) if found == kind]


def test_both_languages_have_the_same_commands_outputs_and_pictures() -> None:
    assert _BLOCK.findall(CHINESE) == _BLOCK.findall(ENGLISH)
    assert _IMAGE.findall(CHINESE) == _IMAGE.findall(ENGLISH)
    assert CHINESE.count("\n## ") == ENGLISH.count("\n## ")
    for image in _IMAGE.findall(ENGLISH):
        assert (ROOT / "docs" / image).is_file(), image


def test_every_command_is_accepted(tmp_path: Path) -> None:
    """run_stage.sh hands on arguments that the stages' own command lines take."""
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    show.chmod(0o755)
    lines = "".join(of_kind("sh")).replace("\\\n", " ").splitlines()
    stages, prepared = 0, 0
    preset = next(line.partition("=")[2] for line in lines if line.startswith("export"))
    for words in map(shlex.split, lines):
        if words[0] == "examples/bert/run_stage.sh":
            environment = {**os.environ, "PYTHON": str(show), "BERT_PRESET": preset}
            done = subprocess.run(
                words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            _, module, *arguments = done.stdout.splitlines()
            device, settings = parse(module, "", STAGES, arguments)
            assert device == "ipu"
            assert settings.output_dir == f"{words[4]}.run"
            stages += 1
        elif words[:3] == ["python", "-m", "examples.bert.prepare"]:
            assert prepare.parse(words[3:]).text == []
            prepared += 1
    assert (stages, prepared) == (11, 2)


def test_the_scripts_split_squad_and_show_answers(tmp_path: Path) -> None:
    split, answers = of_kind("py")

    def question(number: int, impossible: bool = False) -> dict[str, Any]:
        found = [] if impossible else [{"text": "here", "answer_start": 0}]
        asked = f"where is {number}?"
        return {"id": f"q{number}", "question": asked, "answers": found} | {
            "is_impossible": impossible
        }

    articles = [
        {"title": title, "paragraphs": [{"context": "here .", "qas": questions}]}
        for title, questions in {
            "Normans": [question(n, impossible=n == 2) for n in range(7)],
            "Huguenot": [question(n) for n in range(7, 10)],
        }.items()
    ]
    (tmp_path / "dev-v2.0.json").write_text(json.dumps({"version": "v2.0", "data": articles}))

    def run(script: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    files = [f"data/bert/squad/{part}-v1.1.json" for part in ("train", "dev")]
    assert run(split) == f"{files[0]} 5 questions\n{files[1]} 1 questions\n"
    kept = json.loads((tmp_path / files[1]).read_text())
    assert kept["data"][0]["paragraphs"][0]["qas"][0]["id"] == "q5"
    (tmp_path / "said.json").write_text(json.dumps({"q5": "there"}))
    assert run(answers, files[1], "said.json") == "where is 5?\n  'there', expected 'here'\n"

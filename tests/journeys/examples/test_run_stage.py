"""run_stage.sh: what it hands on, and what it refuses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT

SCRIPT = ROOT / "examples" / "bert" / "run_stage.sh"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERT_")}
    return subprocess.run(
        [str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={**kept, **environment},
    )


@pytest.fixture
def show(tmp_path: Path) -> str:
    """A stand-in for Python that prints each of its arguments on a line and exits with 3."""
    path = tmp_path / "show arguments"
    path.write_text('#!/bin/sh\nfor each in "$@"; do echo "[$each]"; done\nexit 3\n')
    path.chmod(0o755)
    return str(path)


def test_a_stage_hands_on_prefixes_data_and_preset(show: str, tmp_path: Path) -> None:
    save = f"{tmp_path}/my models/tuned"
    done = run(
        *("cpu", "SQuAD", "a model", save, "--resume", "--seed", "3"),
        PYTHON=show,
        BERT_PRESET="small",
        BERT_DATA="my data",
    )
    assert done.returncode == 3
    assert done.stdout.replace("[", "").split("]\n")[:-1] == [
        *("-m", "examples.bert.run_squad", "--device", "cpu", "--preset", "small-squad"),
        *("--input_files", "my data/squad/train-v1.1.json", "--output_dir", f"{save}.run"),
        *("--save_path", save, "--enable_load_params", "True", "--load_params_path", "a model"),
        *("--vocab_file", "my data/phase1/vocab.txt", "--resume", "--seed", "3"),
    ]


@pytest.mark.parametrize(
    ("stage", "script", "preset", "data"),
    [
        ("phase1", "run_pretrain", "pod4-phase1", "data/bert/phase1"),
        ("phase2", "run_pretrain", "pod4-phase2", "elsewhere"),
        ("validation", "run_squad", "pod4-validation", "data/bert/squad/dev-v1.1.json"),
    ],
)
def test_each_stage_has_its_script_preset_and_data(
    show: str, stage: str, script: str, preset: str, data: str
) -> None:
    done = run("ipu", stage, "model", "_", PYTHON=show, PHASE2_INPUT="elsewhere")
    lines = done.stdout.splitlines()
    assert lines[1] == f"[examples.bert.{script}]"
    assert lines[lines.index("[--preset]") + 1] == f"[{preset}]"
    assert lines[lines.index("[--input_files]") + 1] == f"[{data}]"
    assert lines[lines.index("[--output_dir]") + 1] == f"[out/bert_stage/{stage}.run]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected DEVICE STAGE LOAD SAVE, got 0 arguments"),
        (("ipu", "phase1", "_"), "expected DEVICE STAGE LOAD SAVE, got 3 arguments"),
        (("gpu", "phase1", "_", "x"), "DEVICE: expected ipu or cpu, got 'gpu'"),
        (("ipu", "squad", "_", "x"), "STAGE: expected phase1, phase2, SQuAD or validation"),
        (("ipu", "phase1", "", "x"), "LOAD and SAVE: expected a prefix, or _ for none"),
        (("ipu", "validation", "_", "_"), "LOAD: validation needs the fine-tuned prefix"),
    ],
)
def test_wrong_arguments_give_the_usage_and_exit_code_2(
    arguments: tuple[str, ...], message: str
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert f"run_stage.sh: {message}" in done.stderr
    assert "usage: run_stage.sh DEVICE STAGE LOAD SAVE" in done.stderr


def test_a_preset_that_is_none_is_refused_and_help_is_help() -> None:
    done = run("ipu", "phase1", "_", "x", BERT_PRESET="pod8")
    assert done.returncode == 2
    assert "BERT_PRESET: expected pod4, pod16, small or smoke, got 'pod8'" in done.stderr
    done = run("--help")
    assert done.returncode == 0
    assert "SQUAD_DEV" in done.stdout

"""Scripts and models on the command line: whose an option is, and files that are missing."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddle_ipu.cli import targets
from paddle_ipu.cli.main import main
from tests.checkout import ROOT
from tests.journeys.saved_models import models

MODEL = str(models.prefix("paddle_2_6/mlp"))


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paddle-ipu look")
    targets.add_target(parser, optional=True)
    parser.add_argument("--html", metavar="FILE")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("-q", "--quiet", action="store_true")
    return parser


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    return "train.py"


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["train.py"], []),
        (["train.py", "--epochs", "3", "data"], ["--epochs", "3", "data"]),
        (["--quiet", "train.py", "--htm", "x", "-v"], ["--htm", "x", "-v"]),
        (["train.py", "--", "--html", "x"], ["--html", "x"]),
        (["train.py", "data", "--", "--quiet", "--", "y"], ["data", "--quiet", "--", "y"]),
        (["--", "train.py", "data"], ["data"]),
    ],
)
def test_a_script_is_given_what_is_not_the_subcommands(
    parser: argparse.ArgumentParser, script: str, words: list[str], given: list[str]
) -> None:
    arguments = parser.parse_args(words)
    assert (arguments.target, arguments.arguments) == (script, given)
    assert arguments.quiet == ("--quiet" in words[:1]) and arguments.html is None


@pytest.mark.parametrize(
    ("words", "ours", "scripts"),
    [
        ("train.py --html x.html", "--html x.html train.py", "train.py -- --html x.html"),
        ("train.py --html=x y", "--html=x train.py y", "train.py -- --html=x y"),
        (
            "--steps 5 train.py y -q --lr 1 --html x -- z",
            "--steps 5 -q --html x train.py y --lr 1 -- z",
            "--steps 5 train.py -- y -q --lr 1 --html x z",
        ),
        ("-q train.py --html", "--quiet --html train.py", "--quiet train.py -- --html"),
    ],
)
def test_an_option_behind_a_script_is_refused_with_the_right_order(
    parser: argparse.ArgumentParser,
    script: str,
    words: str,
    ours: str,
    scripts: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(words.split())
    told = capsys.readouterr().err
    assert told.startswith("paddle-ipu look: error: -") and f"stands behind {script}." in told
    assert f"\n  paddle-ipu look {ours}\n" in told
    assert f"\n  paddle-ipu look {scripts}\n" in told


def test_options_may_stand_on_both_sides_of_a_model(parser: argparse.ArgumentParser) -> None:
    arguments = parser.parse_args(["-q", MODEL, "--steps", "2", "--html", "x"])
    assert (arguments.target, arguments.arguments) == (MODEL, [])
    assert (arguments.quiet, arguments.steps, arguments.html) == (True, 2, "x")
    for words in (["x"], ["--epochs"], ["--steps", "2", "x"]):
        arguments = parser.parse_args([MODEL, *words])
        assert (arguments.target, arguments.arguments) == (MODEL, words)


def test_a_target_may_be_left_out(parser: argparse.ArgumentParser) -> None:
    arguments = parser.parse_args(["-q"])
    assert (arguments.target, arguments.arguments) == (None, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("check none.py", "paddle-ipu check: error: none.py: there is no such file.\n"),
        ("report none.py --epochs 3", "none.py: there is no such file.\n"),
        ("report folder.py", "folder.py is a folder, expected a file.\n"),
        ("plan none", "error: none: there is neither "),
        ("verify none.json", "none.pdmodel nor "),
        ("verify --feed no.npz train.py", "--feed no.npz: there is no such file.\n"),
        ("serve none", "paddle-ipu serve: error: none: there is neither "),
        ("export none none.onnx", "paddle-ipu export: error: none: there is neither "),
        ("run none.onnx", "paddle-ipu run: error: none.onnx: there is no such file.\n"),
    ],
)
def test_a_missing_file_is_named(
    words: str, message: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder.py").mkdir()
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    told = capsys.readouterr().err
    assert message in told and "usage" not in told


@pytest.mark.parametrize("name", ["paddle_2_6/mlp", "paddle_3_3/mlp"])
def test_missing_parameters_are_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = shutil.copy(models.program_file(name), tmp_path)
    for command in (["report"], ["check"], ["verify"], ["serve"]):
        with pytest.raises(SystemExit, match="2"):
            main([*command, copied])
        assert str(tmp_path / "mlp.pdiparams") in capsys.readouterr().err


def test_a_missing_file_is_named_before_paddle_is_imported(tmp_path: Path) -> None:
    # The automatic activation would otherwise look for Paddle's import.
    copied = shutil.copy(models.program_file("paddle_3_3/mlp"), tmp_path)
    snippet = (
        "import sys\nfrom paddle_ipu.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as end:\n    print(end.code, 'paddle' in sys.modules)"
    )
    for words in (["check", "none.py"], ["report", "none"], ["serve", copied]):
        done = subprocess.run(
            [sys.executable, "-c", snippet, *words],
            capture_output=True, text=True, timeout=60, cwd=ROOT,
        )  # fmt: skip
        assert done.stdout == "2 False\n" and "Traceback" not in done.stderr

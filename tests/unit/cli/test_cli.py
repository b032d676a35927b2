"""The paddle-ipu command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import paddle
import pytest

import paddle_ipu
from paddle_ipu.cli import info
from paddle_ipu.cli.main import COMMANDS, main
from paddle_ipu.runtime import target_selection

LEGACY = paddle.__version__.startswith("2.")
PATCHED = {"patched": True, "problem": None, "autoload": True, "programs": "PIR"}
CPU = {"platform": "cpu", "devices": ["cpu:0"], "problem": None}
NO_SDK = {"popart": False, "POPLAR_SDK_ENABLED": None}


def test_info_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    report = dict(
        line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line
    )
    values = {name: value.strip() for name, value in report.items()}
    assert values["paddle_ipu"] == paddle_ipu.__version__
    assert values["paddlepaddle"] == paddle.__version__
    assert values["static programs"] == ("ProgramDesc" if LEGACY else "PIR")
    assert values["Paddle"] == "patched"
    assert values["XLA platform"] == sys.modules["jax"].default_backend()
    assert values["compiled programs"].startswith("IPU Model, XLA on ")


def test_info_as_json_is_all_of_standard_output() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paddle_ipu.cli.main", "info", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {"versions", "platform", "paddle", "xla", "sdk", "compiled_programs"}
    assert report["paddle"]["patched"] is True
    assert report["versions"]["numpy"]
    assert report["xla"]["devices"]


def test_info_names_legacy_programs_of_todays_paddle(run_python: Any) -> None:
    snippet = "from paddle_ipu.cli.main import main; main(['info', '--json'])"
    stdout = run_python(snippet, FLAGS_enable_pir_api="0").stdout
    assert json.loads(stdout)["paddle"]["programs"] == "ProgramDesc"


def test_info_without_patched_paddle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = "This Paddle has version 2.5.0"
    not_patched = {"patched": False, "problem": problem, "autoload": False, "programs": None}
    monkeypatch.setattr(info, "_paddle", lambda: not_patched)
    assert main(["info"]) == 1
    printed = capsys.readouterr().out
    assert f"not patched: {problem}\n" in printed
    assert "static programs       not known\n" in printed
    assert "off (PADDLE_IPU_AUTOLOAD=0)" in printed
    assert "cannot run\n" in printed


def test_info_reports_why_paddle_is_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise paddle_ipu.errors.ActivationError("no such Paddle")

    monkeypatch.setattr(paddle_ipu, "activate", refuse, raising=False)
    assert info._paddle()["problem"] == "no such Paddle"


SDK = {**NO_SDK, "popart": True}
MODEL = "IPU Model, XLA on cpu"
HARDWARE = "IPUs, through Graphcore's SDK"


@pytest.mark.parametrize(
    ("paddle", "xla", "sdk", "asked", "device", "reason"),
    [
        (PATCHED, CPU, NO_SDK, None, MODEL, "Graphcore's popart is not installed"),
        (PATCHED, CPU, SDK, None, HARDWARE, "Graphcore's popart is installed"),
        (PATCHED, CPU, SDK, "model", MODEL, "PADDLE_IPU_DEVICE=model"),
        (PATCHED, CPU, NO_SDK, "sdk", None, "DEVICE=sdk, but Python finds no module `popart`"),
        (PATCHED, CPU, NO_SDK, "gpu", None, "'gpu' is not one of auto, model, sdk"),
        ({**PATCHED, "patched": False, "problem": "old"}, CPU, SDK, None, None, "patched: old"),
        (PATCHED, {**CPU, "devices": [], "problem": "no"}, NO_SDK, None, None, "no device: no"),
    ],
)
def test_what_would_be_used_and_why(
    monkeypatch: pytest.MonkeyPatch,
    paddle: Any,
    xla: Any,
    sdk: Any,
    asked: str | None,
    device: str | None,
    reason: str,
) -> None:
    monkeypatch.delenv("POPLAR_IPUMODEL", raising=False)
    monkeypatch.delenv("PADDLE_IPU_DEVICE", raising=False)
    monkeypatch.setattr(target_selection, "sdk_installed", lambda: sdk["popart"])
    if asked is not None:
        monkeypatch.setenv("PADDLE_IPU_DEVICE", asked)
    chosen = info.choose(paddle, xla, sdk)
    assert chosen["device"] == device
    assert reason in str(chosen["reason"])


def test_the_sdk_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    assert info._sdk({}) == NO_SDK
    (tmp_path / "popart.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    sdk = info._sdk({"POPLAR_SDK_ENABLED": "/sdk"})
    assert sdk == {"popart": True, "POPLAR_SDK_ENABLED": "/sdk"}


def test_xla_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    def fail() -> None:
        raise RuntimeError("Unable to initialize backend")

    monkeypatch.setattr(jax, "devices", fail)
    found = info._xla()
    assert found == {
        "platform": None,
        "devices": [],
        "problem": "Unable to initialize backend",
        "onednn": None,
        "onednn_problem": "there is no XLA",
    }


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.NAME)
def test_help_documents_exit_codes(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command.NAME, "--help"])
    printed = capsys.readouterr().out
    assert "exit codes:\n  0  " in printed
    assert command.SUMMARY.split(",")[0].lower() in printed.lower()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.strip() == paddle_ipu.__version__


def test_nothing_to_do_prints_the_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(re.search(rf"^ +{c.NAME}\s", printed.err, re.MULTILINE) for c in COMMANDS)


def test_a_subcommand_that_is_nearly_one_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["verfy", "train.py"])
    told = capsys.readouterr().err
    assert told.endswith("error: there is no subcommand 'verfy'. Did you mean 'verify'?\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        # The word behind the option is no model that is missing.
        ("report --htlm page.html train.py", "report: error: there is no option '--htlm'. Did you"),
        ("report --compare a b --jsno=c", "there is no option '--jsno'. Did you mean '--json'?"),
        ("serve --prt 80 model", "serve: error: there is no option '--prt'. Did you mean '--port'"),
        ("cache list --jsno", "cache: error: there is no option '--jsno'. Did you mean '--json'?"),
        ("export model -o x.onnx", "export: error: there is no option '-o'.\n"),
        ("gc-info -d 1 --qqq", "gc-info: error: there is no option '--qqq'.\n"),
    ],
)
def test_an_option_that_does_not_exist_is_told_with_a_similar_one(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["report --htm page.html none.py --htlm", "report --htm=page.html -- none.py"]
)
def test_a_shortened_option_and_what_follows_a_script_are_left_alone(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words.split())
    assert "none.py: there is no such file." in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["no-such"], ["info", "--no-such"]])
def test_wrong_arguments_exit_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: paddle-ipu" in capsys.readouterr().err

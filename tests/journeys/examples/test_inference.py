"""The Paddle Inference samples: both devices agree, a difference is noticed, bad arguments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.inference import resnet50, word2vec
from tests.checkout import ROOT

pytestmark = pytest.mark.usefixtures("static_mode")


def test_word2vec_is_equal_on_both_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert word2vec.main(["--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "4 slots of [4, 1] give [4, 2073] on the IPU and on the CPU" in out
    assert out.endswith("allowed 1e-06\nFinished\n")
    monkeypatch.setattr(word2vec, "WITHIN", -1.0)
    assert word2vec.main(["--model", str(tmp_path / "word2vec")]) == 1
    assert capsys.readouterr().err.endswith("the IPU and the CPU differ\n")


def test_bad_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        resnet50.main(["--batch", "0"])
    assert stopped.value.code == 2
    assert "--batch, --runs and --num-ipus are at least 1" in capsys.readouterr().err


@pytest.mark.thorough
def test_resnet_agrees_with_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert resnet50.main(["--smoke", "--runs", "1", "--output", str(tmp_path)]) == 0
    assert "4 images of 64 x 64, logits [4, 1000]" in capsys.readouterr().out
    assert resnet50.main(["--smoke", "--runs", "1", "--fp16", "--output", str(tmp_path)]) == 0


@pytest.mark.thorough
def test_the_custom_operator_agrees_with_the_cpu(tmp_path: Path) -> None:
    """In a process of its own, as what it registers stays."""
    if shutil.which("g++") is None:
        pytest.skip("the operator needs g++")
    snippet = (
        "import sys, paddle_ipu; paddle_ipu.activate()\n"
        "from examples.inference import custom_operator\n"
        f"sys.exit(custom_operator.main(['--output', {str(tmp_path)!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("allowed 1e-06\nFinished\n")

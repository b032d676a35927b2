"""The C library: built by the compiler at hand, its errors, threads, and the sample in C++."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from paddle_ipu.inference.c_api import build
from tests.checkout import ROOT
from tests.unit.inference import conftest as predictors

pytestmark = pytest.mark.thorough
models = predictors.models


@pytest.fixture(scope="module")
def library(made_once: Callable[..., Path]) -> Path:
    """The folder with the library and its header."""
    if shutil.which("cc") is None or not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("the library needs cc, and a Python with a shared library")
    return made_once("c_library", lambda folder: build.build(folder, "cc"))


def _built(compiler: Sequence[str], source: Path, library: Path, to: Path) -> Path:
    done = subprocess.run(
        [
            *compiler, "-Wall", "-Wextra", "-Werror", str(source), "-o", str(to), f"-I{library}",
            f"-L{library}", "-lpaddle_ipu_inference", f"-Wl,-rpath,{library}", "-lpthread",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return to


def _run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_errors_threads_and_types(library: Path, models: Path, tmp_path: Path) -> None:
    source = Path(__file__).with_name("calls.c")
    program = _built(["cc", "-std=c11"], source, library, tmp_path / "calls")
    done = _run(program, str(models / "rows"))
    assert (done.returncode, done.stdout) == (0, "0 failures\n"), done.stdout + done.stderr


def test_the_sample_in_cpp(library: Path, static_mode: None, tmp_path: Path) -> None:
    from examples.inference import word2vec

    if shutil.which("g++") is None:
        pytest.skip("the sample is C++")
    word2vec.save(tmp_path / "word2vec")
    source = ROOT / "examples" / "inference" / "word2vec.cc"
    program = _built(["g++", "-std=c++17"], source, library, tmp_path / "sample")
    suffix = ".json" if (tmp_path / "word2vec.json").exists() else ".pdmodel"
    files = [str(tmp_path / f"word2vec{end}") for end in (suffix, ".pdiparams")]
    done = _run(program, *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Finished"
    assert _run(program).returncode == 2
    missing = _run(program, str(tmp_path / "no.json"), files[1])
    assert missing.returncode == 1
    assert "no.json" in missing.stderr


def test_a_python_that_cannot_be_started(library: Path, models: Path, tmp_path: Path) -> None:
    source = Path(__file__).with_name("calls.c")
    program = _built(["cc", "-std=c11"], source, library, tmp_path / "calls")
    done = subprocess.run(
        [str(program), str(models / "rows")],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PADDLE_IPU_PYTHON": "/no/python", "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'paddle_ipu'" in done.stdout


def test_builds_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build.main(["--output", str(tmp_path), "--compiler", "no-such-cc"]) == 2
    assert "there is no C compiler 'no-such-cc'; --compiler" in capsys.readouterr().err
    (tmp_path / "bad").write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    (tmp_path / "bad").chmod(0o755)
    arguments = ["--output", str(tmp_path), "--compiler", str(tmp_path / "bad")]
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        assert build.main(arguments) == 1
        assert "broken" in capsys.readouterr().err
    monkeypatch.setitem(sysconfig.get_config_vars(), "Py_ENABLE_SHARED", 0)
    assert build.main(arguments) == 2
    assert "was built without a shared library (--enable-shared)" in capsys.readouterr().err

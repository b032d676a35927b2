"""The executable cache of Paddle programs, and ``paddle-ipu cache``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.runtime.report import CompileReport
from paddle_ipu.xla.step import stored_step
from tests.journeys.training.side_by_side import mlp, pair, read, rows, variables
from tests.tables import remove_translators

pytestmark = pytest.mark.usefixtures("static_mode")


def test_a_trained_program_is_loaded_by_the_variable_or_by_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "cache")
    built = mlp(lambda rate: paddle.optimizer.Adam(rate))
    results = []
    for origin in ("compiled", "loaded"):
        options = {}
        if origin == "compiled":
            monkeypatch.setenv("IPU_CACHE_PATH", folder)
        else:
            monkeypatch.delenv("IPU_CACHE_PATH")
            options = {"enable_engine_caching": True, "cache_path": folder}
        both = pair(built, options)
        report = both.program.report()
        assert report.cache == origin
        assert f"executable cache: {origin}" in str(report)
        arrays = [array for step in range(2) for array in both.on_ipu(rows(4, step))]
        both.weights_to_host()
        results.append([*arrays, *(read(both.ipu, name) for name in variables(built.main))])
    for array, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(array, expected)

    assert main(["cache", "list", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = [line.split(maxsplit=4)[-1].split(",")[0] for line in lines]
    assert sorted(kinds) == ["executable", "look of a program", "program"]
    entries = _printed(capsys, "list", folder)["entries"]
    assert sorted(entry["kind"] for entry in entries) == sorted(kinds)
    keys = {entry["key"] for entry in entries if entry["kind"] == "executable"}
    (program,) = [entry for entry in entries if entry["kind"] == "program"]
    assert {program["executable"]} == keys and program["problem"] is None
    size = _printed(capsys, "size", folder)
    whole = sum(file.stat().st_size for file in (tmp_path / "cache").glob("*.ipuexe"))
    assert size == {"bytes": whole, "entries": 3, "bound": 5368709120}
    assert main(["cache", "size", folder]) == 0
    assert " bytes in 3 entries; the bound is 5,368,709,120 bytes" in capsys.readouterr().out
    assert main(["cache", "verify", folder]) == 0
    assert "3 of 3 entries are sound" in capsys.readouterr().out
    path = max((tmp_path / "cache").glob("*.ipuexe"))
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["cache", "verify", folder]) == 1
    assert f"{path.stem}: it is damaged" in capsys.readouterr().out
    unsound = _printed(capsys, "verify", folder, code=1)["unsound"]
    assert [bad["key"] for bad in unsound] == [path.stem]
    problems = [entry["problem"] for entry in _printed(capsys, "list", folder)["entries"]]
    assert [problem for problem in problems if problem] == [unsound[0]["problem"]]
    assert main(["cache", "list", folder]) == 0
    assert "not used: it is damaged" in capsys.readouterr().out
    monkeypatch.setenv("IPU_CACHE_PATH", folder)
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "3 entries removed\n"
    assert not list((tmp_path / "cache").glob("*.ipuexe"))
    assert _printed(capsys, "clear", folder) == {"removed": 0}


def _printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """What a subcommand of the cache prints as JSON."""
    assert main(["cache", *words, "--json"]) == code
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_without_caching_nothing_is_said_of_it() -> None:
    assert "cache" not in str(CompileReport(True, [], [], 0))


def test_a_program_with_an_operator_on_the_host_says_that_it_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    remove_translators(monkeypatch, "tanh")
    monkeypatch.setattr(stored_step, "_told", set())
    options = {"cpu_fallback": True, "enable_engine_caching": True, "cache_path": str(tmp_path)}
    program = pair(mlp(None), options, is_training=False).program
    assert program.report().cache == "not kept: ai.paddle_ipu.CpuKernel runs on the host"
    assert "not kept in the executable cache: ai.paddle_ipu.CpuKernel runs" in caplog.text
    assert list(tmp_path.iterdir()) == []
    caplog.clear()
    pair(mlp(None), options, is_training=False)
    assert "not kept" not in caplog.text


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list", str(tmp_path / "none")]) == 3
    assert f"paddle-ipu cache: there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
    tmp_path.chmod(0o777)
    assert main(["cache", "size", str(tmp_path)]) == 3
    assert "can be written by other users" in capsys.readouterr().err

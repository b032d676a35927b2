"""Platforms: the table, what is said of one that is not tested, and that the package runs there."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.cli import doctor, info, vipu_server
from paddle_ipu.cli.main import build_parser
from paddle_ipu.operating_system import platforms
from tests.checkout import ROOT

LINUX = "paddle_ipu is tested on Linux on x86-64 alone; "
KERNELS = "the compiled kernels (XLA computes in their place)"
OWNERS = "checks of whom a file of compiled programs belongs to"
SAID = {
    "macos": f"macOS on arm64 lacks {KERNELS}, poprun and the V-IPU service.",
    "windows": f"Windows on x86-64 lacks {KERNELS}, poprun, the V-IPU service and {OWNERS}.",
    "aarch64": f"Linux on aarch64 lacks {KERNELS}.",
    "bare": f"none on an unknown processor lacks {KERNELS}, poprun, the V-IPU service and wheels "
    "of PaddlePaddle or of JAX.",
}


def become(monkeypatch: pytest.MonkeyPatch, system: str, name: str, machine: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "system", lambda: name)
    monkeypatch.setattr(platform, "machine", lambda: machine)


def test_the_documentation_has_the_table() -> None:
    text = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
    assert f"\n{platforms.describe_platforms()}\n" in text


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("linux", "x86_64", "Linux on x86-64"), ("linux", "aarch64", "Linux on aarch64"),
        ("darwin", "arm64", "macOS on arm64"), ("win32", "AMD64", "Windows on x86-64"),
        ("darwin", "x86_64", "Some on x86_64"), ("freebsd14", "amd64", "Some on amd64"),
    ],
)  # fmt: skip
def test_which_platform_this_is(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, name: str
) -> None:
    become(monkeypatch, system, "Some", machine)
    here = platforms.this_platform()
    assert here.name == name
    assert here.is_tested == here.has_kernels == (name == "Linux on x86-64")
    assert platforms.runs_jobs() == (system == "linux")


def test_the_rest_of_the_package_asks_here() -> None:
    own = re.compile(
        r"\b(import (fcntl|msvcrt|resource|pwd)|sched_getaffinity|CDLL\(None\)|geteuid|O_NOFOLLOW"
        r"|os\.register_at_fork\(|MADV_\w+|MAP_PRIVATE)"
    )
    found = {
        f"{path.relative_to(ROOT)}: {used[0]}"
        for folder in ("paddle_ipu", "ops", "passes", "popdist")
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_relative_to(ROOT / "paddle_ipu/operating_system")
        for used in own.finditer(path.read_text(encoding="utf-8"))
    }
    # Those of poprun, which is for Linux; the first is a program of its own that imports no other.
    assert found == {
        "paddle_ipu/distributed/instance_guard.py: CDLL(None)",
        "paddle_ipu/distributed/poprun.py: geteuid",
    }


def test_nothing_is_said_where_it_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, "linux", "Linux", "x86_64")
    assert platforms.what_is_missing() == ""


def test_the_commands_report_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    become(monkeypatch, "linux", "Linux", "x86_64")
    arguments = build_parser().parse_args(["doctor"])
    name, finding = next(iter(doctor.findings(arguments)))
    assert (name, finding) == ("platform", ("ok", "Linux on x86-64"))
    become(monkeypatch, "linux", "Linux", "aarch64")
    name, finding = next(iter(doctor.findings(arguments)))
    assert (name, finding) == ("platform", ("--", LINUX + SAID["aarch64"]))
    assert f"platform              {LINUX}{SAID['aarch64']}\n" in info.describe(info.collect())


def test_the_v_ipu_service_says_that_it_needs_linux(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    become(monkeypatch, "darwin", "Darwin", "arm64")
    assert vipu_server.run(build_parser().parse_args(["vipu-server"])) == 1
    assert capsys.readouterr().err == (
        "the V-IPU service runs on Linux alone, and this is macOS on arm64: it looks in /proc for "
        "the processes that hold IPUs. Run it on a host with Linux, and give programs its address."
        "\n"
    )


@pytest.mark.parametrize("system", SAID)
def test_a_program_runs_on_another_system(system: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("other_systems.py"), system],
        capture_output=True, text=True, timeout=120, check=False,
        env={
            **os.environ,
            "IPU_CACHE_PATH": str(tmp_path),
            "PADDLE_IPU_AUTOLOAD": "0",
            "PYTHONPATH": str(ROOT),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["told"] == [LINUX + SAID[system]]
    assert result["ipu"] == pytest.approx(result["cpu"], rel=1e-6)
    assert result["again"] == result["ipu"]
    assert result["cpu"][2] < result["cpu"][0]
    name = SAID[system].partition(" lacks ")[0]
    assert result["platform"] == {"name": name, "missing": LINUX + SAID[system]}
    assert result["kernels"] == f"paddle_ipu has no compiled kernels for {name}"
    assert result["device"] == "IPU Model, XLA on cpu"
    assert result["processors"] >= 1
    # The compiled programs are kept, locked by what the system has for it.
    assert result["entries"] > 1
    assert (result["locks"] > 0) == (system == "windows") and not result["held"]
    is_linux = system == "aarch64"
    assert (result["resident"] is not None) == is_linux
    refusal = (
        f"POPRUN ERROR: poprun runs on Linux alone, and this is {name}: it looks at its instances "
        "in /proc. Run the program without it, as one instance."
    )
    assert (refusal in done.stderr) != is_linux

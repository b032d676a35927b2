"""Beside Graphcore's SDK, which has programs of the same names, its own run where it is enabled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddle_ipu.distributed.sdk_programs import of_sdk
from tests.checkout import ROOT

NAMES = ("poprun", "vipu")


def _executable(path: Path, text: str) -> Path:
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_which_is_for_hardware(tmp_path: Path, name: str) -> None:
    ours = _executable(tmp_path / "ours" / name, "#!python\nimport paddle_ipu\n")
    theirs = _executable(tmp_path / "sdk" / name, "#!/bin/sh\n")
    path = {"PATH": f"{ours.parent}:{theirs.parent}"}
    sdk = {**path, "POPLAR_SDK_ENABLED": "/opt/sdk"}
    assert of_sdk(name, sdk) == str(theirs)
    assert of_sdk(name, {**path, "PADDLE_IPU_DEVICE": "sdk"}) == str(theirs)
    for other in (path, {**sdk, "POPLAR_IPUMODEL": "1"}, {**sdk, "PADDLE_IPU_DEVICE": "model"},
                  {**sdk, "PATH": str(ours.parent)}):  # fmt: skip
        assert of_sdk(name, other) is None


@pytest.mark.parametrize("name", NAMES)
def test_ours_becomes_theirs(tmp_path: Path, name: str) -> None:
    theirs = _executable(tmp_path / "sdk" / name, '#!/bin/sh\necho theirs: "$@"\nexit 7\n')
    module = f"paddle_ipu.distributed.{name}"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; from {module} import main; sys.exit(main())",
            "a",
            "b",
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{theirs.parent}:{os.environ['PATH']}",
            "POPLAR_SDK_ENABLED": "/opt/sdk",
        },
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (7, "theirs: a b\n"), done.stderr


def test_theirs_is_imported_before_ours(tmp_path: Path) -> None:
    """The SDK's ``enable.sh`` puts its modules on PYTHONPATH, which is before site-packages."""
    (tmp_path / "popdist.py").write_text("where = 'theirs'")
    done = subprocess.run(
        [sys.executable, "-c", "import popdist; print(popdist.where)"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "theirs\n", done.stderr

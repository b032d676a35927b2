"""Paddle programs in instances, started by poprun and by Paddle's own launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paddle_ipu.instances.vipu_client import VipuClient
from tests.unit.distributed.test_poprun import ALLOWED, ROOT, TWO, executable, run, with_mpirun

PROGRAM = (sys.executable, "-m", "tests.unit.distributed.paddle_program")


def weights(file: Path) -> list[np.ndarray]:
    with np.load(file) as found:
        return [found[name] for name in found.files]


def alone(tmp_path: Path, kind: str) -> list[np.ndarray]:
    """What one process with all replicas trains."""
    file = tmp_path / "alone.npz"
    done = subprocess.run(
        [*PROGRAM, kind, str(file)], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return weights(file)


def compare(got: list[np.ndarray], expected: list[np.ndarray], kind: str) -> None:
    assert len(got) == len(expected) >= 4
    for one, other in zip(got, expected, strict=True):
        norm = np.linalg.norm(other)
        assert np.linalg.norm(one - other) <= {"sgd": 1e-6, "adam": 1e-5}[kind] * norm


@with_mpirun
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_two_instances_train_as_one_process(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "two.npz"
    code, _, err = run(tmp_path, *TWO, *PROGRAM, kind, str(file))
    assert code == 0, err
    compare(weights(file), alone(tmp_path, kind), kind)


@with_mpirun
@pytest.mark.thorough
def test_paddles_launcher(tmp_path: Path, client: VipuClient) -> None:
    """The command as stock Paddle documents it; only the port of the service is this test's."""
    client.call("create", name="pod16", size=16)
    executable(
        tmp_path / "bin" / "poprun",
        f'#!/bin/sh\nexec {sys.executable} -m paddle_ipu.distributed.poprun '
        f'--vipu-server-port={client.port} "$@"\n',
    )  # fmt: skip
    # An installation has a .pth file that does this.
    (tmp_path / "sitecustomize.py").write_text(
        "import _paddle_ipu_autoload; _paddle_ipu_autoload.start()\n", encoding="utf-8"
    )
    file = tmp_path / "launched.npz"
    done = subprocess.run(
        [sys.executable, "-m", "paddle.distributed.launch", "--devices=4", "ipu",
         "--hosts=localhost", "--nproc_per_host=2", "--ipus_per_replica=1", "--ipu_partition=pod16",
         "--vipu_server=127.0.0.1", str(ROOT / "tests/unit/distributed/paddle_program.py"), "sgd",
         str(file)],
        cwd=tmp_path,
        env={**os.environ, **ALLOWED, "PYTHONPATH": f"{ROOT}:{tmp_path}",
             "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        check=False, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    compare(weights(file), alone(tmp_path, "sgd"), "sgd")
    assert client.call("partition", name="pod16")["attached"] == {}

"""A stage of BERT in several processes: whose rows, what must fit poprun, the same losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("h5py")
pytest.importorskip("rich")

from examples.bert.stages.instances import Replicas, replicas_of
from examples.bert.stages.parameters import read_parameters
from examples.bert.stages.settings import Settings
from tests.journeys.examples.stage_data import SIZES, write_samples_folder
from tests.unit.distributed.test_poprun import ALLOWED, ROOT, with_mpirun

SETTINGS = Settings(num_ipus=1, num_replica=4)


def launched(monkeypatch: pytest.MonkeyPatch, first: int, local: int = 2, total: int = 4) -> None:
    values = {
        "POPDIST_NUM_TOTAL_REPLICAS": total,
        "POPDIST_NUM_LOCAL_REPLICAS": local,
        "POPDIST_REPLICA_INDEX_OFFSET": first,
        "POPDIST_NUM_IPUS_PER_REPLICA": 1,
    }
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    for name in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_instances_divide_the_rows_of_a_run() -> None:
    # Two micro-batches of three rows for each of four replicas.
    rows = {"x": np.arange(24), "y": np.arange(48).reshape(24, 2)}
    parts = [Replicas(4, 2, first, 2).rows(rows, 3) for first in (0, 2)]
    assert parts[0]["x"].tolist() == [*range(6), *range(12, 18)]
    assert parts[1]["x"].tolist() == [*range(6, 12), *range(18, 24)]
    assert parts[1]["y"].tolist() == rows["y"][parts[1]["x"]].tolist()
    alone = Replicas(4, 4, 0)
    assert alone.rows(rows, 3) == rows
    assert alone.means({"loss": 2.5}) == {"loss": 2.5}


def test_which_replicas_poprun_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POPDIST_NUM_TOTAL_REPLICAS", raising=False)
    assert replicas_of(SETTINGS, "ipu") == Replicas(4, 4, 0)
    launched(monkeypatch, first=2)
    found = replicas_of(SETTINGS, "ipu")
    assert found == Replicas(4, 2, 2, 2)
    assert not found.is_first


@pytest.mark.parametrize(
    ("changes", "device", "message"),
    [
        ({"num_replica": 2}, "ipu", "--num_replica: expected 4, as poprun's --num-replicas, got 2"),
        ({"num_ipus": 4}, "ipu", "--num_ipus: expected 1, as poprun's --ipus-per-replica, got 4"),
        ({}, "cpu", "--device cpu: expected one process, but poprun started several"),
        ({"is_training": False}, "ipu", "validation: expected one process, but poprun started"),
        ({"questions": 5}, "ipu", "validation: expected one process, but poprun started several"),
    ],
)
def test_what_does_not_fit_poprun(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], device: str, message: str
) -> None:
    launched(monkeypatch, first=0)
    with pytest.raises(ValueError, match=message):
        replicas_of(replace(SETTINGS, **changes), device)


@with_mpirun
@pytest.mark.thorough
def test_two_instances_train_as_one_process_and_go_on(tmp_path: Path) -> None:
    samples = write_samples_folder(tmp_path / "samples")
    stage = (
        f"examples.bert.run_pretrain --preset smoke-phase1 --input_files {samples} --num_ipus 1 "
        "--num_replica 2 --grad_acc_factor 3 --max_steps 6 --save_steps 3 "
        "--hidden_dropout_prob 0.1 --attention_probs_dropout_prob 0.1"
    ).split()
    program = [sys.executable, "-m", *stage, *SIZES]
    launcher = [
        sys.executable, "-m", "paddle_ipu.distributed.poprun", "--offline-mode=yes",
        "--num-instances=2", "--num-replicas=2", "--executable-cache-path", str(tmp_path / "cache"),
    ]  # fmt: skip

    def run(words: list[str], output: str, *more: str) -> str:
        done = subprocess.run(
            [*words, "--output_dir", str(tmp_path / output), *more],
            env={**os.environ, **ALLOWED, "PYTHONPATH": str(ROOT)},
            cwd=ROOT, check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(output: str) -> list[dict[str, float]]:
        lines = (tmp_path / output / "log.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    run(program, "one")
    printed = run([*launcher, *program], "two")
    assert printed.count("global_step 1 ") == 1
    for step in (tmp_path / "two" / "step_6").iterdir():
        step.unlink()
    (tmp_path / "two" / "step_6").rmdir()
    assert "resuming after step 3" in run([*launcher, *program], "two", "--resume")
    assert len(log("two")) == 6
    for one, two in zip(log("one"), log("two"), strict=True):
        for name in ("loss/MLM", "loss/NSP", "accuracy/MLM", "accuracy/NSP", "learning_rate"):
            assert two[name] == pytest.approx(one[name], rel=1e-5), name
    first, second = (
        read_parameters(tmp_path / name / "final_step_6.pdparams") for name in ("one", "two")
    )
    for name, array in first.items():
        difference = np.linalg.norm(second[name] - array)
        # A bias of keys has no gradient but rounding.
        assert difference <= 1e-5 * np.linalg.norm(array) or name.endswith("key.bias"), name

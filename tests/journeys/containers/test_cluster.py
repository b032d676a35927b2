"""``examples/cluster``: every way of starting ends in a command line that poprun takes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import paddle
import pytest

from examples.cluster import train
from paddle_ipu.distributed import poprun_arguments
from tests.checkout import ROOT

CLUSTER = ROOT / "examples" / "cluster"


def _submitted(script: str, folder: Path, **environment: str) -> list[str]:
    """The words that poprun gets from a script within a job of two nodes."""
    for name, text in {
        "poprun": f'printf "%s\\n" "$@" > {folder}/words; env > {folder}/environment',
        "scontrol": '[ "$1 $2 $3" = "show hostnames n[1-2]" ] && printf "n1\\nn2\\n"',
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "REPLICAS", "CACHE")}
    job = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "7"}
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", str(CLUSTER / "slurm" / script)],
        env=kept | job | path | environment,
        check=True,
        cwd=ROOT,
    )
    # mpirun would start its processes by srun.
    assert "SLURM_JOB_ID=" not in (folder / "environment").read_text(encoding="utf-8")
    return (folder / "words").read_text(encoding="utf-8").splitlines()


def test_a_job_of_slurm_has_its_instances_on_one_node(tmp_path: Path) -> None:
    arguments = poprun_arguments.read(_submitted("single_node.sbatch", tmp_path, REPLICAS="6"))
    assert arguments.hosts == []
    assert arguments.count("num-instances") == 2
    assert arguments.count("num-replicas") == 6


def test_a_job_of_slurm_uses_all_its_nodes(tmp_path: Path) -> None:
    arguments = poprun_arguments.read(_submitted("several_nodes.sbatch", tmp_path))
    assert arguments.hosts == ["n1", "n2"]
    assert arguments.count("num-instances") == arguments.count("num-replicas") == 4


def _containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    spec = document.get("spec", {})
    templates = [spec.get("template", {})]
    templates += [role["template"] for role in spec.get("mpiReplicaSpecs", {}).values()]
    return [found for pod in templates for found in pod.get("spec", {}).get("containers", [])]


@pytest.mark.parametrize("name", ["one_pod", "several_pods", "mpijob"])
def test_pods_start_a_command_that_poprun_takes(name: str, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    text = (CLUSTER / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8")
    # The MPI Operator's file of hosts.
    (tmp_path / "hostfile").write_text("w-0.w slots=2\nw-1.w slots=2\n", encoding="utf-8")
    commands = []
    for document in yaml.safe_load_all(text):
        for container in _containers(document):
            assert container["image"] in ("paddle_ipu:latest", "paddle_ipu:latest-ssh")
            if "command" in container:
                commands.append(container["command"])
    assert len(commands) == 1
    program, *words = [
        word.replace("/etc/mpi/hostfile", str(tmp_path / "hostfile")) for word in commands[0]
    ]
    assert program == "poprun"
    arguments = poprun_arguments.read(words)
    assert len(arguments.hosts) == (0 if name == "one_pod" else 2)
    assert arguments.program[:2] == ["python3", "/workspace/train.py"]


def _trained(*words: str) -> float:
    with (
        paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
        paddle.static.scope_guard(paddle.static.Scope()),
        paddle.utils.unique_name.guard(),
    ):
        return train.main(["--every", "2", *words])


@pytest.mark.usefixtures("static_mode")
def test_training_goes_on_from_the_newest_whole_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _trained("--steps", "6", "--output", str(tmp_path / "whole"))
    parts = tmp_path / "parts"
    _trained("--steps", "4", "--output", str(parts))
    # As a launch that was killed while it wrote leaves it.
    (parts / "step_6.pdparams").write_bytes(b"damaged")
    assert _trained("--steps", "6", "--output", str(parts)) == pytest.approx(whole, rel=1e-6)
    assert "going on from step 4" in capsys.readouterr().out

"""Dockerfiles, shell scripts and cluster files pass their linters."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkout import ROOT

DOCKER = ROOT / "docker"
CLUSTER = ROOT / "examples" / "cluster"

Tool = Callable[[str], str]


def _passes(*words: str | Path) -> None:
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dockerfiles_pass_hadolint(tool: Tool) -> None:
    files = sorted(DOCKER.glob("Dockerfile*"))
    assert len(files) == 4
    _passes(tool("hadolint"), "--no-color", "--config", DOCKER / ".hadolint.yaml", *files)


def test_shell_scripts_pass_shellcheck(tool: Tool) -> None:
    scripts = [*DOCKER.glob("*.sh"), DOCKER / "envs.sh.template", *CLUSTER.glob("slurm/*.sbatch")]
    _passes(tool("shellcheck"), "--external-sources", *sorted(scripts))


def test_manifests_pass_yamllint(tool: Tool) -> None:
    folder = CLUSTER / "kubernetes"
    workflows = ROOT / ".github"
    _passes(tool("yamllint"), "--strict", "--config-file", folder / ".yamllint", folder, workflows)


def test_manifests_fit_the_schemas_of_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate here")
    yaml = pytest.importorskip("yaml")
    for path in sorted(CLUSTER.glob("kubernetes/*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            # The MPI Operator's own kind has no schema in Kubernetes; its pods have.
            if document["kind"] == "MPIJob":
                for role in document["spec"]["mpiReplicaSpecs"].values():
                    pod = {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": "p"},
                        **role["template"],
                    }
                    validate.validate(pod, "1.37", strict=True)
            else:
                validate.validate(document, "1.37", strict=True)

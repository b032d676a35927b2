"""The images, built and run: every step of the Dockerfiles in a clean root.

A container engine does it: the one that ``PADDLE_IPU_CONTAINER_ENGINE`` names, else docker or
podman. It takes minutes and gigabytes, and fetches packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.checkout import ROOT

pytestmark = pytest.mark.thorough

REPOSITORY = "paddle_ipu_test"


def _runs(engine: str) -> bool:
    if shutil.which(engine) is None:
        return False
    return subprocess.run([engine, "info"], capture_output=True).returncode == 0


def _skip_without_base(engine: str) -> None:
    """Skips where the image that all others begin with is neither here nor to be had."""
    base = re.search(r"^ARG BASE_IMAGE=(\S+)", (ROOT / "docker" / "Dockerfile").read_text(), re.M)
    assert base is not None
    here = subprocess.run([engine, "image", "inspect", base[1]], capture_output=True)
    if here.returncode != 0:
        done = subprocess.run([engine, "pull", base[1]], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{engine} cannot fetch {base[1]}: {done.stderr.strip().splitlines()[-1:]}")


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    named = os.environ.get("PADDLE_IPU_CONTAINER_ENGINE")
    engine = next(filter(_runs, [named] if named else ["docker", "podman"]), None)
    if engine is None:
        pytest.skip("no container engine runs here (PADDLE_IPU_CONTAINER_ENGINE names another)")
    _skip_without_base(engine)
    yield engine
    listed = subprocess.run([engine, "images", "-q", REPOSITORY], capture_output=True, text=True)
    for image in set(listed.stdout.split()):
        subprocess.run([engine, "rmi", "-f", image], check=True, capture_output=True)


@pytest.fixture(scope="module")
def build(engine: str) -> Callable[[str], str]:
    def built(kind: str) -> str:
        done = subprocess.run(
            ["bash", str(ROOT / "docker" / "build_docker.sh"), kind, "--repo", REPOSITORY],
            env=os.environ | {"DOCKER": engine},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return f"{REPOSITORY}:latest" + ("" if kind == "runtime" else f"-{kind}")

    return built


def _printed(engine: str, image: str, *words: str) -> str:
    mounted = f"{ROOT}/examples/cluster:/workspace:ro"
    done = subprocess.run(
        [engine, "run", "--rm", "-v", mounted, "-w", "/tmp", image, *words],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_runtime_image_trains_with_several_instances(
    engine: str, build: Callable[[str], str]
) -> None:
    launch = ("poprun", "--offline-mode=yes", "--num-instances=2", "--num-replicas=4")
    program = ("python3", "/workspace/train.py", "--output", "/tmp/out")
    assert "step 40: loss 0.1" in _printed(engine, build("runtime"), *launch, *program)


def test_the_ssh_image_lets_nobody_in_by_password(engine: str, build: Callable[[str], str]) -> None:
    build("runtime")
    image = build("ssh")
    settings = _printed(engine, image, "bash", "-c", "ssh-keygen -A >&2; sshd -T")
    assert "passwordauthentication no" in settings
    # No host key is the same in every container.
    assert (
        _printed(engine, image, "bash", "-c", "echo /etc/ssh/ssh_host_*") == "/etc/ssh/ssh_host_*\n"
    )


def test_the_development_image_has_what_its_tests_need(
    engine: str, build: Callable[[str], str]
) -> None:
    image = build("dev")
    found = _printed(engine, image, "bash", "-c", "cd /workspace/paddle_ipu && make lint imports")
    assert "Contracts: " in found

"""``docker/*.sh``: the commands they give, and what they refuse."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT

DOCKER = ROOT / "docker"


def _run(script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("IPUOF_")
        and name not in ("DOCKER", "IMG", "CONTAINER_ID", "HOST_USER", "HOST_UID", "HOST_GID")
    }
    return subprocess.run(
        ["bash", str(DOCKER / script), *words],
        env=kept | environment,
        capture_output=True,
        text=True,
        cwd="/",
    )


def _stand_in(folder: Path, *, name: str = "docker", knows_user: bool = True) -> Path:
    """A program that writes its arguments to ``folder/calls``, in the place of an engine."""
    path = folder / name
    path.write_text(
        "#!/bin/bash\n"
        f'echo "$@" >> {folder}/calls\n'
        "case $1 in\n"
        f"container) [ -f {folder}/started ] && echo true || exit 1 ;;\n"
        f"run | --) touch {folder}/started ;;\n"
        f"exec) exit {0 if knows_user else 1} ;;\n"
        "esac\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def _calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text(encoding="utf-8").splitlines()


def test_what_a_dockerfile_copies_is_in_the_repository() -> None:
    copied: set[str] = set()
    for path in DOCKER.glob("Dockerfile*"):
        for line in re.findall(r"^COPY (?!--from)(.*)$", path.read_text("utf-8"), re.MULTILINE):
            copied.update(line.split()[:-1])
    assert {"ops", "paddle_ipu", "docker/sdk_entrypoint.sh", "."} <= copied
    assert not [name for name in copied if not (ROOT / name).exists()]


def test_images_are_built_one_after_another(tmp_path: Path) -> None:
    docker = _stand_in(tmp_path)
    done = _run(
        "build_docker.sh",
        *("runtime", "ssh", "--paddle", "paddlepaddle==2.6.2", "--repo", "r", "--", "--pull"),
        DOCKER=str(docker),
    )
    assert done.returncode == 0, done.stderr
    runtime, ssh = _calls(tmp_path)
    assert runtime.startswith(f"build --pull --build-arg PADDLE=paddlepaddle==2.6.2 -f {DOCKER}/")
    assert re.search(r"/Dockerfile -t r:latest -t r:\d+\.\d+\S* /", runtime)
    assert "--build-arg RUNTIME_IMAGE=r:latest" in ssh
    assert re.search(r"/Dockerfile.ssh -t r:latest-ssh -t r:\d+\.\d+\S*-ssh /", ssh)


def test_a_build_that_fails_ends_the_script() -> None:
    done = _run("build_docker.sh", "runtime", "ssh", DOCKER="false")
    assert done.returncode == 1
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo"], "unknown argument demo: images are runtime, dev, ssh and sdk"),
        (["sdk"], "the sdk image needs --sdk FILE"),
        (["sdk", "--sdk", "/nowhere.tar.gz"], "--sdk /nowhere.tar.gz: no such file"),
        (["sdk", "--sdk", "/etc/passwd"], f"is not within {ROOT}"),
        (["--sdk"], "--sdk needs a value"),
        (["runtime"], "no no-such-builder on the PATH"),
    ],
)
def test_impossible_builds_are_refused(words: list[str], message: str) -> None:
    done = _run(
        "build_docker.sh", *words, DOCKER="no-such-builder" if words == ["runtime"] else "true"
    )
    assert done.returncode == 2
    assert message in done.stderr


def test_a_container_is_started_with_what_ipus_need(tmp_path: Path) -> None:
    config = tmp_path / "pod_ipuof.conf"
    config.write_text("{}")
    done = _run(
        *("into_docker.sh", "start", "--with-root", "--dry-run", "--", "-p", "80:80"),
        CONTAINER_ID="c",
        IPUOF_CONFIG_PATH=str(config),
        IPUOF_VIPU_API_HOST="h",
    )
    assert done.returncode == 0, done.stderr
    for words in (
        "--net=host --ipc=host --ulimit memlock=-1:-1 --cap-add=IPC_LOCK",
        f"-v {ROOT}:/workspace/paddle_ipu -w /workspace/paddle_ipu",
        "-e IPUOF_VIPU_API_HOST=h",
        f"-v {config}:/ipuof.conf:ro -e IPUOF_CONFIG_PATH=/ipuof.conf",
    ):
        assert words in done.stdout
    assert "-p 80:80 paddle_ipu:latest-dev bash -c " in done.stdout
    assert "--user" not in done.stdout


def test_a_container_starts_once(tmp_path: Path) -> None:
    docker = str(_stand_in(tmp_path))
    first = _run("into_docker.sh", "start", DOCKER=docker, CONTAINER_ID="c", IMG="i")
    assert first.returncode == 0, first.stderr
    assert f"--user {os.getuid()}:{os.getgid()} i bash -c" in "\n".join(_calls(tmp_path))
    second = _run("into_docker.sh", "start", DOCKER=docker, CONTAINER_ID="c")
    assert second.returncode == 2
    assert "there is a container c already" in second.stderr


def test_an_image_that_does_not_know_the_user_is_refused_with_what_to_do(tmp_path: Path) -> None:
    docker = str(_stand_in(tmp_path, knows_user=False))
    done = _run("into_docker.sh", "start", DOCKER=docker, CONTAINER_ID="c")
    assert done.returncode == 1
    assert f"does not know user {os.getuid()}" in done.stderr
    assert "docker/into_docker.sh start --with-root" in done.stderr
    assert "rm -f c" in _calls(tmp_path)


def test_gc_docker_starts_the_container_where_it_is_installed(tmp_path: Path) -> None:
    _stand_in(tmp_path)
    _stand_in(tmp_path, name="gc-docker")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = _run("into_docker.sh", "start", "--with-root", PATH=path, CONTAINER_ID="c")
    assert done.returncode == 0, done.stderr
    assert any(call.startswith("-- -d --name c ") for call in _calls(tmp_path))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "start, into or stop?"),
        (["start", "stop"], "one of start, into and stop at a time"),
        (["into", "--with-root"], "--with-root is for start"),
        (["begin"], "unknown argument begin"),
        (["into"], "does not run: docker/into_docker.sh start"),
    ],
)
def test_impossible_commands_are_refused(words: list[str], message: str) -> None:
    done = _run("into_docker.sh", *words, DOCKER="false")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_missing_configuration_file_is_named() -> None:
    done = _run("into_docker.sh", "start", "--dry-run", IPUOF_CONFIG_PATH="/nowhere.conf")
    assert done.returncode == 2
    assert "IPUOF_CONFIG_PATH=/nowhere.conf: no such file" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "who? Give a name"),
        (["ann"], "which number has ann?"),
        (["Ann B", "1000"], "Ann B is no name of a user"),
        (["ann", "x"], "numbers of user and group, not x and x"),
        (["ann", "1", "2", "3"], "at most"),
        (["--force"], "unknown argument --force"),
    ],
)
def test_users_that_cannot_be_added_are_refused(words: list[str], message: str) -> None:
    done = _run("add_user.sh", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_sudo_reads_the_rule_of_a_name_with_a_dot(tmp_path: Path) -> None:
    programs = {
        "id": "echo 0",
        "getent": "echo ann.lee:x:1000:",
        "sudo": "",
        "install": f'echo "$@" > {tmp_path}/rule; cat >> {tmp_path}/rule',
    }
    for name, line in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
    search = f"{tmp_path}:{os.environ['PATH']}"
    done = _run("add_user.sh", "--sudo", "ann.lee", "1000", PATH=search, VIRTUAL_ENV="")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rule").read_text("utf-8").splitlines() == [
        "-m 440 /dev/stdin /etc/sudoers.d/ann_lee",
        "ann.lee ALL=(ALL) NOPASSWD: ALL",
    ]


def test_an_sdk_is_put_into_effect(tmp_path: Path) -> None:
    for name in ("poplar", "popart"):
        folder = tmp_path / "poplar_sdk" / f"{name}-ubuntu"
        folder.mkdir(parents=True)
        (folder / "enable.sh").write_text(f"export FOUND_{name}=yes\n", encoding="utf-8")
    script = f'. {DOCKER}/sdk_environment.sh && echo "$FOUND_poplar $FOUND_popart"'

    def sourced(sdk: Path) -> subprocess.CompletedProcess[str]:
        # As the entrypoint sources it: with arguments of its own.
        return subprocess.run(
            ["bash", "-c", script, "entrypoint", "python3"],
            env=os.environ | {"PADDLE_IPU_SDK": str(sdk)},
            capture_output=True,
            text=True,
        )

    found = sourced(tmp_path)
    assert found.stdout == "yes yes\n", found.stderr
    missing = sourced(tmp_path / "nowhere")
    assert missing.returncode == 1
    assert f"is the SDK unpacked in {tmp_path}/nowhere?" in missing.stderr

"""gc-info, gc-monitor and doctor."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import pytest

from paddle_ipu.cli import gc_tables, info, main
from paddle_ipu.distributed import poprun
from paddle_ipu.errors import LaunchError
from paddle_ipu.instances.vipu_client import VipuClient
from paddle_ipu.instances.vipu_state import place, start_time


@pytest.fixture
def partition(client: VipuClient, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A partition of 4 IPUs, named by the environment, of which this process has two."""
    monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "p1")
    monkeypatch.setenv("IPUOF_VIPU_API_PORT", str(client.port))
    client.call("create", name="p1", size=4, reconfigurable=True)
    client.call(
        "attach", name="p1", gcd=0, ipus=2, pid=os.getpid(), host=socket.gethostname(),
        place=place(), started=start_time(os.getpid()), command="python3 train.py", user="me",
    )  # fmt: skip
    return client.call("partition", name="p1")


def call(*words: str) -> int:
    return main.main(list(words))


def test_the_list_of_devices(partition: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("gc-info", "-l") == 0
    assert capsys.readouterr().out == (
        "Graphcore device listing:\n"
        "\n"
        "Partition: p1 [active]\n"
        "-+- Id: [0], target: [Fabric], IPU-M host: [127.0.0.1], IPU#: [3]\n"
        "-+- Id: [1], target: [Fabric], IPU-M host: [127.0.0.1], IPU#: [2]\n"
        "-+- Id: [2], target: [Fabric], IPU-M host: [127.0.0.1], IPU#: [1]\n"
        "-+- Id: [3], target: [Fabric], IPU-M host: [127.0.0.1], IPU#: [0]\n"
        "-+- Id: [4], target: [Multi IPU]\n"
        " |--- Id: [0], DNC Id: [0]\n"
        " |--- Id: [1], DNC Id: [1]\n"
        "-+- Id: [5], target: [Multi IPU]\n"
        " |--- Id: [2], DNC Id: [0]\n"
        " |--- Id: [3], DNC Id: [1]\n"
        "-+- Id: [6], target: [Multi IPU]\n"
        " |--- Id: [0], DNC Id: [0]\n"
        " |--- Id: [1], DNC Id: [1]\n"
        " |--- Id: [2], DNC Id: [2]\n"
        " |--- Id: [3], DNC Id: [3]\n"
    )


def test_one_device(partition: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("gc-info", "-d", "4", "-i") == 0
    printed = capsys.readouterr().out
    assert "target: Multi IPU\n" in printed
    assert "ipu ids: 0, 1\n" in printed
    assert f"user process id: {os.getpid()}\n" in printed
    assert call("gc-info", "-d", "5") == 0
    assert "user" not in capsys.readouterr().out
    assert call("gc-info", "-d", "7") == 1
    assert "device 7 not found: partition p1 has devices 0 to 6" in capsys.readouterr().err


def test_the_monitor(partition: Any) -> None:
    since = partition["attached"]["0"][0]["since"]
    text = gc_tables.monitor(partition, 0, "10.1.5.10", "1.0", cards=False, now=since + 3700)
    title = "gc-monitor | Partition: p1 (gcd:0) [active] has 4 reconfigurable IPUs"
    assert text.splitlines()[0] == title
    rows = [line.split() for line in text.splitlines() if "train.py" in line]
    assert [row[1] for row in rows] == [str(os.getpid())] * 2
    assert all(row[3:8] == ["python3", "train.py", "|", "1h1m", "|"] for row in rows)
    whole = gc_tables.monitor(partition, 0, "host-of-the-controller", "1.0")
    widths = {len(line) for line in whole.splitlines()}
    assert len(widths) == 2
    assert "| ..-controller |" in whole


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """What a subcommand prints as JSON."""
    assert call(*words, "--json") == code
    return json.loads(capsys.readouterr().out)


def test_json(partition: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (listed,) = printed(capsys, "gc-info", "-l")["partitions"]
    assert (listed["partition"], listed["state"]) == ("p1", "active")
    assert listed["devices"][4] == {"id": 4, "ipu_ids": [0, 1]}
    device = printed(capsys, "gc-info", "-d", "4")
    assert device["ipu_ids"] == [0, 1] and device["number_of_ipus"] == 2
    assert device["user_process_id"] == os.getpid() and device["reconfigurable_partition"] is True
    (gcd,) = printed(capsys, "gc-monitor")["gcds"]
    assert (gcd["partition"], gcd["gcd"], len(gcd["ipus"])) == ("p1", 0, 4)
    (process,) = gcd["processes"]
    assert process.pop("seconds") >= 0
    assert process == {
        "pid": os.getpid(), "command": "python3 train.py", "user": "me", "ipu_ids": [0, 1],
    }  # fmt: skip


def test_the_monitor_without_processes(
    client: VipuClient, capsys: pytest.CaptureFixture[str]
) -> None:
    client.call("create", name="p2", size=2, gcds=2)
    assert call("gc-monitor", "--api-port", str(client.port), "--no-card-info") == 0
    assert capsys.readouterr().out.splitlines() == [
        "gc-monitor | Partition: p2 (gcd:0) [active] has 1 IPUs",
        "No attached processes in partition p2",
        "gc-monitor | Partition: p2 (gcd:1) [active] has 1 IPUs",
        "No attached processes in partition p2",
    ]


@pytest.mark.parametrize("tool", [("gc-info", "-l"), ("gc-monitor",)])
def test_which_partition(
    client: VipuClient, capsys: pytest.CaptureFixture[str], tool: tuple[str, ...]
) -> None:
    words = (*tool, "--api-port", str(client.port))
    assert call(*words) == 1
    assert capsys.readouterr().err == "name a partition with --partition; there are: none\n"
    assert call(*words, "--partition=q") == 1
    assert capsys.readouterr().err == "partition q not found\n"
    client.call("create", name="a", size=1)
    client.call("create", name="b", size=1)
    assert call(*words, "--all-partitions") == 0
    printed = capsys.readouterr().out
    assert "Partition: a" in printed
    assert "Partition: b" in printed
    assert call(*tool, "--api-port", "1") == 1
    assert "unable to connect to VIRM/V-IPU Controller" in capsys.readouterr().err


def examined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, str]]:
    """The exit code of doctor, and its lines by the name of the check."""
    report = {
        "versions": {"paddlepaddle": "3.3.1", "paddle_ipu": "0.1.0"},
        "platform": {"name": "Linux on x86-64", "missing": ""},
        "paddle": {
            "patched": True,
            "problem": None,
            "autoload": os.environ.get("PADDLE_IPU_AUTOLOAD") != "0",
        },  # fmt: skip
        "sdk": {"popart": False},
        "compiled_programs": {"device": "IPU Model", "reason": "no SDK"},
    }
    monkeypatch.setattr(info, "collect", lambda: report)
    code = call("doctor", *words)
    lines = capsys.readouterr().out.splitlines()
    return code, {line[4:].split()[0]: line for line in lines}


def test_a_healthy_host(
    client: VipuClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(poprun, "find_mpirun", lambda environment: "/usr/bin/mpirun")
    code, lines = examined(monkeypatch, capsys, "--api-port", str(client.port))
    assert code == 0
    assert lines["MPI"].startswith("ok  MPI")
    assert lines["V-IPU"].endswith("answers; partitions: none")


def test_what_keeps_programs_from_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(environment: object) -> str:
        raise LaunchError("mpirun is not found.")

    monkeypatch.setattr(poprun, "find_mpirun", missing)
    code, lines = examined(monkeypatch, capsys, "--api-port", "1")
    assert code == 0
    assert lines["MPI"].startswith("--  MPI")
    assert "`paddle-ipu vipu-server`" in lines["V-IPU"]
    assert lines["V-IPU"].startswith("--")
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "x")
    code, lines = examined(monkeypatch, capsys, "--api-port", "1", "--partition", "p")
    assert code == 1
    assert lines["instance"].startswith("!!")
    assert lines["V-IPU"].startswith("!!")
    found = printed(capsys, "doctor", "--api-port", "1", "--partition", "p", code=1)
    status = {check["name"]: check["status"] for check in found["checks"]}
    assert not found["ok"] and status["instance"] == status["V-IPU"] == "problem"
    assert (status["Paddle"], status["MPI"]) == ("ok", "absent")


def test_a_plugin_that_paddle_does_not_activate(
    client: VipuClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PADDLE_IPU_AUTOLOAD", "0")
    code, lines = examined(monkeypatch, capsys, "--api-port", str(client.port))
    assert code == 1
    assert lines["plugin"].startswith("!!  plugin    PADDLE_IPU_AUTOLOAD=0: `import paddle` does")
    assert lines["plugin"].endswith("or call paddle_ipu.activate() in the script.")


def test_a_partition_that_is_not_there(
    client: VipuClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "p9")
    monkeypatch.setenv("IPUOF_VIPU_API_PORT", str(client.port))
    code, lines = examined(monkeypatch, capsys)
    assert code == 1
    assert lines["V-IPU"].endswith("has no partition p9; there are: none")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ipus=12"], "a number of IPUs is a power of 2, got '12'"),
        (["--partition=x"], "expected NAME=IPUS, got 'x'"),
    ],
)
def test_wrong_arguments_of_the_service(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        call("vipu-server", *words)
    assert message in capsys.readouterr().err


def test_the_service_says_what_keeps_it_from_starting(
    client: VipuClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("vipu-server", f"--port={client.port}") == 1
    assert f"cannot listen on 127.0.0.1:{client.port}: Address" in capsys.readouterr().err
    assert call("vipu-server", "--ipus=4", "--partition=p=8") == 1
    assert "has not enough IPUs: 8 asked for" in capsys.readouterr().err

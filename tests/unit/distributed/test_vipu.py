"""The V-IPU service, its command line, ipuof.conf files, attaching, and poprun's partition."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.distributed import cleaner, partition_choice, vipu, vipu_server
from paddle_ipu.distributed.poprun_arguments import read
from paddle_ipu.distributed.vipu_server import VipuServer, new_state
from paddle_ipu.errors import (
    BackendUnavailableError,
    LaunchError,
    VipuConnectionError,
    VipuError,
    popart_exception,
)
from paddle_ipu.instances import attachment, ipuof
from paddle_ipu.instances.vipu_client import VipuClient, body, configured_host
from paddle_ipu.instances.vipu_state import (
    LEASE,
    Allocation,
    Process,
    VipuState,
    is_alive,
    place,
    start_time,
)


def call_vipu(client: VipuClient, *words: str) -> int:
    return vipu.main(["--api-host", client.host, "--api-port", str(client.port), *words])


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def attach(client: VipuClient, name: str, ipus: int, pid: int, gcd: int = 0) -> Any:
    return client.call(
        "attach", name=name, gcd=gcd, ipus=ipus, pid=pid, host=socket.gethostname(), place=place(),
        started=start_time(pid), command="train.py", user="me",
    )  # fmt: skip


def test_partitions_take_blocks_and_give_them_back(client: VipuClient) -> None:
    first = client.call("create", name="p1", size=16)
    second = client.call("create", name="p2", size=32, gcds=2, ilds=2)
    assert (first["first"], first["ilds"], first["gcds"]) == (0, 1, 1)
    assert (second["first"], second["ilds"], second["gcds"]) == (32, 2, 2)
    with pytest.raises(VipuError, match="has not enough IPUs: 32 asked for, 16 of 64 free"):
        client.call("create", name="p3", size=32)
    client.call("remove", name="p2")
    assert client.call("create", name="p3", size=32)["first"] == 32
    assert [p["name"] for p in client.call("partitions")] == ["p1", "p3"]
    assert client.call("reset", name="p1")["state"] == "ACTIVE"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "a b", "size": 4}, "is no partition name"),
        ({"name": "p", "size": 12}, "size must be a power of 2, got 12"),
        ({"name": "p", "size": 4, "gcds": 3}, "number of GCDs must be a power of 2, got 3"),
        ({"name": "p", "size": 4, "ilds": 3}, "ILDs must be a power of 2, got 3"),
        ({"name": "p", "size": 2, "gcds": 4}, "2 IPUs cannot have 4 GCDs"),
        ({"name": "p", "size": 4, "allocation": "x"}, "allocation x not found"),
        ({"name": "p", "size": 4, "cluster": "x"}, "name an allocation, there is not one alone"),
        ({"name": "p", "size": 4, "sync": "x"}, "sync type 'x' is none of"),
        ({"name": "p", "size": 4, "reconfigurable": True, "sync": "pod-native-default"},
         "must have sync type c2-compatible"),
        ({"name": "p", "size": 4, "reconfigurable": True, "gcds": 2}, "has one GCD"),
        ({"name": "old", "size": 4}, "partition old already exists"),
    ],
)  # fmt: skip
def test_impossible_partitions(client: VipuClient, arguments: dict[str, Any], message: str) -> None:
    client.call("create", name="old", size=4)
    with pytest.raises(VipuError, match=message):
        client.call("create", **arguments)


def test_an_ipu_has_one_process(client: VipuClient) -> None:
    client.call("create", name="p", size=4, gcds=2)
    process = sleeper()
    try:
        assert attach(client, "p", 1, process.pid)["first"] == 0
        assert attach(client, "p", 1, os.getpid())["first"] == 1
        with pytest.raises(VipuError, match=rf"not free: in use by PID {process.pid} \(train.py\)"):
            attach(client, "p", 2, os.getpid())
        assert attach(client, "p", 2, os.getpid(), gcd=1)["first"] == 0
        for verb, done in (("reset", "reset"), ("remove", "removed")):
            with pytest.raises(VipuError, match=f"cannot be {done}: in use by PID"):
                client.call(verb, name="p")
    finally:
        process.communicate(b"\n")
    # Nobody said that the process ended; its IPU is free all the same.
    assert attach(client, "p", 2, os.getpid())["ipus"] == 2
    for ipus, gcd, message in ((4, 0, "has 2 IPUs, 4 asked"), (3, 0, "power of 2, got 3"),
                               (1, 2, "has GCDs 0 to 1, got 2")):  # fmt: skip
        with pytest.raises(VipuError, match=message):
            attach(client, "p", ipus, os.getpid(), gcd)
    with pytest.raises(VipuError, match="partition q not found"):
        attach(client, "q", 1, os.getpid())


def test_a_later_process_of_the_same_id_is_another_one() -> None:
    now = start_time(os.getpid())
    assert is_alive(Process(os.getpid(), "h", "", now, "", "", 0, 1, 0.0, ""))
    assert not is_alive(Process(os.getpid(), "h", "", now - 1, "", "", 0, 1, 0.0, ""))
    assert not is_alive(Process(1 << 30, "h", "", start_time(1 << 30), "", "", 0, 1, 0.0, ""))


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        ({"Content-Type": "text/plain"}, "{}", "content type must be application/json"),
        ({"Host": "evil.example.com"}, "{}", "Host header must be an address"),
        ({}, "{", "malformed request"),
        ({}, "[]", "expected"),
        ({}, '{"call": "__init__"}', "the call must be one of"),
        ({}, '{"call": "create", "arguments": {"name": "p"}}', "create needs size"),
        ({}, '{"call": "create", "arguments": {"name": "p", "size": true}}', "size of create must"),
        ({}, '{"call": "remove", "arguments": {"self": 1}}', "remove takes no self"),
        ({}, "[" * 60000, "malformed request: it is nested too deeply"),
        ({}, "x" * 70000, "at most 65536 bytes"),
    ],
)
def test_malformed_requests(
    client: VipuClient, headers: dict[str, str], body: str, message: str
) -> None:
    connection = http.client.HTTPConnection(client.host, client.port, timeout=5)
    connection.request("POST", "/", body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    assert answer.status == 400
    assert message in json.loads(answer.read())["error"]
    connection.close()
    assert client.call("partitions") == []


def test_a_body_in_chunks(client: VipuClient) -> None:
    connection = http.client.HTTPConnection(client.host, client.port, timeout=5)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    # It is refused by its headers, and the connection closed, whatever of the body has been sent.
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 400
    assert "no Transfer-Encoding" in json.loads(answer.read())["error"]
    connection.close()


def test_connections_have_a_deadline_and_a_bound(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vipu_server, "MOST_CONNECTIONS", 3)
    server = VipuServer(new_state(4, {}, "c", 4), port=0, deadline=0.5)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    address = ("127.0.0.1", server.server_port)
    try:
        slow = [socket.create_connection(address, 5) for _ in range(4)]
        assert slow[3].recv(1) == b""
        start = time.monotonic()
        for connection in slow[:3]:
            connection.sendall(b"POST / HTTP/1.1\r\nX: ")
        # A byte now and then does not make it longer.
        while time.monotonic() - start < 5:
            try:
                slow[0].sendall(b"x")
            except OSError:
                break
            time.sleep(0.05)
        assert 0.3 < time.monotonic() - start < 4
        for connection in slow:
            connection.close()
        assert VipuClient("127.0.0.1", server.server_port).call("partitions") == []
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert capfd.readouterr().err == ""


def test_nobody_answers() -> None:
    message = r"unable to connect to VIRM/V-IPU Controller at 127\.0\.0\.1:1: context deadline"
    with pytest.raises(VipuConnectionError, match=message):
        VipuClient(port=1, timeout=2.0).call("partitions")
    with pytest.raises(VipuConnectionError, match="Controller at no host:8090"):
        VipuClient("no host").call("partitions")


def test_a_service_is_reached_by_any_name(
    client: VipuClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = socket.getaddrinfo
    names = {"vipu.my_domain": "127.0.0.1"}
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest: true(names.get(host, host), *rest)
    )
    assert VipuClient("vipu.my_domain", client.port, 5.0).call("partitions") == []


def test_a_port_in_use(client: VipuClient) -> None:
    with pytest.raises(VipuError, match=f"cannot listen on 127.0.0.1:{client.port}: Address"):
        VipuServer(new_state(4, {}, "pod", 4), port=client.port)


def test_the_command_line(
    client: VipuClient,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert call_vipu(client, "create", "partition", "part1", "--size", "16") == 0
    assert call_vipu(client, "create", "partition", "part3", "--size=32", "--gcds=2") == 0
    files = sorted(path.name for path in (tmp_path / ".ipuof.conf.d").iterdir())
    assert files == [
        "part1_ipuof.conf", "part3_gcd0_ipuof.conf", "part3_gcd1_ipuof.conf"
    ]  # fmt: skip
    capsys.readouterr()
    assert call_vipu(client, "list", "partition") == 0
    # The columns are those of the guide.
    assert capsys.readouterr().out.splitlines() == [
        "Cluster | Allocation | Partition | ILDs | GW Routing | ILD Routing | Size | GCDs | State",
        "-" * 89,
        "pod     | pod        | part1     | 1    | DEFAULT    | DNC         | 16   | 1    | ACTIVE",
        "pod     | pod        | part3     | 2    | DEFAULT    | DNC         | 32   | 2    | ACTIVE",
        "-" * 89,
    ]
    assert call_vipu(client, "get", "partition", "part3", "--gcd=1", "--ipu-configs") == 0
    config = json.loads(capsys.readouterr().out)
    assert config["attributes"]["GCD Id"] == "1"
    assert len(config["devices"]) == 16
    assert call_vipu(client, "get", "partition", "part1") == 0
    assert "Size: 16" in capsys.readouterr().out
    words = ["--api-port", str(client.port), "get", "partition", "part1", "-H", client.host]
    assert vipu.main(words) == 0
    capsys.readouterr()
    assert call_vipu(client, "list", "allocations") == 0
    assert "Allocation ID" in capsys.readouterr().out
    assert call_vipu(client, "reset", "partition", "part1") == 0
    assert call_vipu(client, "remove", "partition", "part3") == 0
    assert [path.name for path in (tmp_path / ".ipuof.conf.d").iterdir()] == ["part1_ipuof.conf"]
    assert call_vipu(client, "--server-version") == 0
    capsys.readouterr()
    assert call_vipu(client, "get", "partition", "part1", "--gcd=1", "--ipu-configs") == 1
    assert "has GCDs 0 to 0, got 1" in capsys.readouterr().err
    assert call_vipu(client, "remove", "partition", "none") == 1
    assert capsys.readouterr().err == "partition none not found\n"
    with pytest.raises(SystemExit, match="2"):
        vipu.main([])
    assert "say what to do" in capsys.readouterr().err


def test_attaching_by_environment_and_by_file(
    client: VipuClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = client.call("create", name="p", size=4)
    (file,) = ipuof.write_all(made, client, tmp_path)
    monkeypatch.setenv("IPUOF_CONFIG_PATH", str(file))
    process = sleeper()
    try:
        attach(client, "p", 2, process.pid)
        assert attachment.attach(1) == 2
        assert attachment.attach(2) == 2
        message = "Can't attach IPU, ipu_num = 4. 4 IPUs of partition p are not free: in use by PID"
        with pytest.raises(BackendUnavailableError, match=message):
            attachment.attach(3)
        monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "q")
        monkeypatch.setenv("IPUOF_VIPU_API_PORT", str(client.port))
        with pytest.raises(BackendUnavailableError, match="partition q not found"):
            attachment.attach(1)
    finally:
        process.communicate(b"\n")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"IPUOF_VIPU_API_PARTITION_ID": "p", "IPUOF_VIPU_API_PORT": "x"}, "_PORT='x' is not a"),
        ({"IPUOF_CONFIG_PATH": "none.conf"}, "none.conf cannot be read: No such file"),
        ({"IPUOF_CONFIG_PATH": __file__}, "is no ipuof.conf file"),
    ],
)
def test_wrong_targets(environment: dict[str, str], message: str) -> None:
    with pytest.raises(VipuError, match=message):
        ipuof.target(environment)


def test_a_file_that_is_nested_deeply(tmp_path: Path) -> None:
    (tmp_path / "f.conf").write_text('{"":' * 100_000)
    with pytest.raises(VipuError, match=r"f\.conf is no ipuof\.conf file: RecursionError"):
        ipuof.target({"IPUOF_CONFIG_PATH": str(tmp_path / "f.conf")})


def test_a_file_whose_gcd_is_infinite(tmp_path: Path) -> None:
    attributes = {"V-IPU API": "h:8090", "Partition Id": "p", "GCD Id": float("inf")}
    (tmp_path / "f.conf").write_text(json.dumps({"attributes": attributes}))
    with pytest.raises(VipuError, match=r"f\.conf is no ipuof\.conf file: OverflowError"):
        ipuof.target({"IPUOF_CONFIG_PATH": str(tmp_path / "f.conf")})


def test_files_for_hardware_are_not_ours(tmp_path: Path) -> None:
    file = tmp_path / "hardware.conf"
    file.write_text('{"attributes": {"GCD Id": "0"}, "devices": []}', encoding="utf-8")
    assert ipuof.target({"IPUOF_CONFIG_PATH": str(file)}) is None
    assert ipuof.target({}) is None


def test_where_vipu_is_set_up(tmp_path: Path) -> None:
    (tmp_path / ".vipu.hcl").write_text('api-host = "10.1.3.101"\n', encoding="utf-8")
    assert configured_host({"HOME": str(tmp_path)}) == "10.1.3.101"
    assert configured_host({"HOME": str(tmp_path), "VIPU_CLI_API_HOST": "h"}) == "h"


def chosen(client: VipuClient, *words: str) -> tuple[Any, list[str]]:
    """The partition of a launch, and what poprun says of it."""
    said: list[str] = []
    server = [f"--vipu-server-host={client.host}", f"--vipu-server-port={client.port}"]
    arguments = read([*server, *words, "true"])
    posts: list[tuple[str, int, str]] = []
    with partition_choice.chosen(
        arguments, lambda level, text: said.append(text), "1", lambda *post: posts.append(post)
    ) as found:
        assert posts == [(client.host, client.port, body("end_launch", {"launch": "1"}))]
        said.append("running")
    return found, said


TWO = ("--num-instances=2", "--num-replicas=4")


def test_the_only_partition_is_taken_and_reset(client: VipuClient) -> None:
    client.call("create", name="p", size=4)
    found, said = chosen(client, *TWO)
    assert (found.name, found.size, found.server) == ("p", 4, (client.host, client.port))
    assert said == [
        "Partition p is used because it is the only one available",
        "Partition p already exists and is in state PS_ACTIVE",
        "Partition p reset",
        "running",
    ]
    _, said = chosen(client, *TWO, "--vipu-partition=p", "--reset-partition=no")
    assert said == ["Partition p already exists and is in state PS_ACTIVE", "running"]


def test_reconfigurable_partitions_are_not_reset(client: VipuClient) -> None:
    client.call("create", name="p", size=4, reconfigurable=True)
    _, said = chosen(client, *TWO)
    assert said[-2:] == ["The reconfigurable partition p is OK", "running"]


def test_partitions_are_made_and_removed(client: VipuClient) -> None:
    client.call("create", name="p", size=2)
    found, said = chosen(client, *TWO, "--vipu-partition=p", "--update-partition=yes")
    assert (found.size, found.gcds) == (4, 2)
    assert said == [
        "Partition p removed, as it has 2 IPUs, and 4 are needed, 2 for each instance",
        "Partition p made: 4 IPUs, 2 GCDs",
        "running",
        "Partition p removed",
    ]
    words = (*TWO, "--vipu-partition=n", "--update-partition=yes", "--remove-partition=no",
             "--num-ilds=2", "--sync-type=ST_POD_NATIVE_DEFAULT")  # fmt: skip
    found, _ = chosen(client, *words)
    (kept,) = client.call("partitions")
    assert (kept["name"], kept["ilds"], kept["sync"]) == ("n", 2, "pod-native-default")
    assert not kept["reconfigurable"]
    # It fits, so it is neither made anew nor removed.
    _, said = chosen(client, *TWO, "--vipu-partition=n", "--update-partition=yes")
    assert said[-1] == "running"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--vipu-partition=q"], "partition q not found; there are: p, small"),
        ([], "there is not exactly one partition: p, small"),
        (["--vipu-partition=small"], "does not fit: it has 2 IPUs, and 4 are needed"),
        (["--vipu-partition=p", "--num-ilds=2"], "does not fit: it has 1 ILDs, and --num-ilds=2"),
        (["--vipu-partition=q", "--update-partition=yes", "--ipus-per-replica=32"],
         "has not enough IPUs: 128 asked for"),
        (["--vipu-partition=q", "--update-partition=yes", "--vipu-allocation=x",
          "--vipu-partition-attempts=2"], "allocation x not found"),
    ],
)  # fmt: skip
def test_partitions_that_do_not_fit(client: VipuClient, words: list[str], message: str) -> None:
    client.call("create", name="p", size=8)
    client.call("create", name="small", size=2)
    with pytest.raises(LaunchError, match=message):
        chosen(client, *TWO, *words)


def test_no_service_is_the_guides_error() -> None:
    with pytest.raises(LaunchError, match=r"V-IPU Controller at 127\.0\.0\.1:1: context deadline"):
        chosen(VipuClient(port=1), *TWO, "--vipu-server-timeout=2")


def test_processes_of_other_hosts_say_that_they_live() -> None:
    now = [0.0]
    state = VipuState([Allocation("pod", "pod", 4)], 4, place(), lambda: now[0])
    state.create("p", 2)
    far = {"name": "p", "gcd": 0, "pid": 7, "place": "elsewhere", "started": 5}
    facts = {"host": "far", "command": "train.py", "user": "me"}
    found = state.attach(ipus=2, **far, **facts)
    assert found["lease"] == LEASE
    now[0] = LEASE
    state.renew(**far)
    now[0] = 2 * LEASE
    mine = {**far, "pid": os.getpid(), "place": place(), "started": start_time(os.getpid())}
    with pytest.raises(VipuError, match=r"in use by PID 7 \(train.py\) on far"):
        state.attach(ipus=1, **mine, **facts)
    now[0] = 2 * LEASE + 1
    # This host's processes need say nothing.
    assert state.attach(ipus=1, **mine, **facts)["lease"] == 0
    with pytest.raises(VipuError, match="process 7 has no IPUs of partition p any more"):
        state.renew(**far)
    now[0] = 9 * LEASE
    assert len(state.partition("p")["attached"][0]) == 1


def test_terminals_do_not_obey_what_processes_are_called(client: VipuClient) -> None:
    client.call("create", name="p", size=2)
    had = client.call(
        "attach", name="p", gcd=0, ipus=2, pid=7, host="far\n", place="elsewhere", started=5,
        command="\x1b[2J \udcfc.py", user="m\x9be",
    )  # fmt: skip
    assert (had["command"], had["user"], had["host"]) == ("?[2J ?.py", "m?e", "far?")


def test_what_a_launch_leaves_is_cleaned_up(client: VipuClient) -> None:
    client.call("create", name="made", size=2, launch="1")
    client.call("create", name="kept", size=2)
    for name in ("made", "kept"):
        client.call(
            "attach", name=name, gcd=0, ipus=2, pid=7, host="far", place="elsewhere", started=5,
            command="train.py", user="me", launch="1",
        )  # fmt: skip
    assert client.call("end_launch", launch="") == []
    # As the process does that outlives poprun.
    request = json.dumps([client.host, client.port, body("end_launch", {"launch": "1"})])
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(cleaner.__file__)], input=f"post {request}\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("\n", "")
    (left,) = client.call("partitions")
    assert (left["name"], left["attached"]) == ("kept", {})


@pytest.mark.parametrize(
    ("words", "partition", "problem"),
    [
        # An instance's device has a power of two IPUs.
        (["--num-instances=3", "--num-replicas=15"], {"size": 16},
         "it has 16 IPUs, and 24 are needed, 8 for each instance"),
        (["--num-instances=3", "--num-replicas=15"], {"size": 32}, None),
        (["--num-replicas=3"], {"size": 2}, "it has 2 IPUs, and 4 are needed"),
        (["--num-instances=4", "--num-replicas=4"], {"size": 4, "gcds": 2},
         "it has 2 GCDs for 4 instances"),
        (["--num-instances=4", "--num-replicas=4"], {"size": 4, "gcds": 4}, None),
    ],
)  # fmt: skip
def test_what_fits(words: list[str], partition: dict[str, int], problem: str | None) -> None:
    arguments = read([*words, "true"])
    assert partition_choice.unfit({"gcds": 1, "ilds": 1, **partition}, arguments) == problem


def test_a_partition_for_instances_that_are_no_power_of_two(client: VipuClient) -> None:
    words = ["--num-instances=3", "--num-replicas=15", "--vipu-partition=p"]
    found, _ = chosen(client, *words, "--update-partition=yes")
    assert (found.size, found.gcds) == (32, 1)


@pytest.mark.parametrize(("gcds", "devices"), [(1, [12, 13]), (2, [6, 6])])
def test_the_device_of_an_instance(
    client: VipuClient, monkeypatch: pytest.MonkeyPatch, gcds: int, devices: list[int]
) -> None:
    import popdist
    from paddle_ipu.cli import gc_tables

    partition = client.call("create", name="p", size=8, gcds=gcds)
    monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "p")
    monkeypatch.setenv("IPUOF_VIPU_API_PORT", str(client.port))
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "8")
    monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", "4")
    listed = list(gc_tables.devices(partition))
    for number, device in enumerate(devices):
        monkeypatch.setenv("POPDIST_REPLICA_INDEX_OFFSET", str(4 * number))
        assert popdist.getDeviceId() == device
        first = 0 if gcds > 1 else 4 * number
        assert listed[device] == list(range(first, first + 4))
    with pytest.raises(popart_exception, match="no device has 16 IPUs behind"):
        popdist.getDeviceId(4)
    client.call("remove", name="p")
    with pytest.raises(VipuError, match="partition p not found"):
        popdist.getDeviceId()


def test_other_hosts_reach_no_service_of_this_one_alone(client: VipuClient) -> None:
    arguments = read([f"--vipu-server-host={client.host}", "--host=a,b", "true"])
    with (
        pytest.raises(LaunchError, match="host is 127.0.0.1, which is another one on b, whose"),
        partition_choice.chosen(arguments, print, "1", print, ["b"]),
    ):
        raise AssertionError

"""A process on another host than its V-IPU service: it says that it lives, and may be forgotten."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.errors import BackendUnavailableError, VipuConnectionError
from paddle_ipu.instances import attachment, ipuof
from paddle_ipu.instances.vipu_client import VipuClient

FAR: dict[str, Any] = {"gcd": 0, "place": "elsewhere"}
OTHER = {"started": 5, "host": "far", "command": "train.py", "user": "me"}


@pytest.fixture
def said(client: VipuClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What this process prints, which is on another host and often says that it lives."""
    client.call("create", name="p", size=4)
    monkeypatch.setenv("IPUOF_VIPU_API_PARTITION_ID", "p")
    monkeypatch.setenv("IPUOF_VIPU_API_PORT", str(client.port))
    for name in ("_held", "_lost"):
        monkeypatch.setattr(attachment, name, {})
    monkeypatch.setattr(attachment, "_TIMES", 60)
    monkeypatch.setattr(attachment, "place", lambda: "elsewhere")
    lines = list[str]()
    monkeypatch.setattr(attachment, "_print", lines.append)
    before = set(threading.enumerate())
    yield lines
    attachment._held.clear()
    client.call("release", name="p", pid=os.getpid(), **FAR)
    for thread in set(threading.enumerate()) - before:
        if thread.name.endswith("(_renew)"):
            thread.join(10)
            assert not thread.is_alive()


def wait_for(said: list[str], text: str) -> None:
    end = time.monotonic() + 10
    while not said or text not in said[-1]:
        assert time.monotonic() < end, said
        time.sleep(0.01)


def lose(client: VipuClient) -> None:
    """The service gives this process's IPUs to another one."""
    with attachment._LOCK:
        client.call("release", name="p", pid=os.getpid(), **FAR)
        client.call("attach", name="p", ipus=4, pid=7, **FAR, **OTHER)


def attached(client: VipuClient) -> list[dict[str, Any]]:
    return [p for found in client.call("partition", name="p")["attached"].values() for p in found]


@pytest.mark.usefixtures("static_mode")
def test_the_next_run_says_that_the_ipus_are_lost(client: VipuClient, said: list[str]) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2, 3], "float32")
        y = paddle.tanh(x)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False)

    def compiled() -> Any:
        return paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [y])

    def run(program: Any) -> Any:
        executor = paddle.static.Executor(paddle.CPUPlace())
        return executor.run(program, feed={"x": np.ones((2, 3), np.float32)}, fetch_list=[y])[0]

    program = compiled()
    assert [p["pid"] for p in attached(client)] == [os.getpid()]
    np.testing.assert_allclose(run(program), np.tanh(np.ones((2, 3))), rtol=1e-6)
    lose(client)
    wait_for(said, "lost its IPUs")
    with pytest.raises(BackendUnavailableError) as caught:
        run(program)
    assert str(caught.value) == (
        "This process lost its IPUs of partition p: 1 IPUs of partition p are not free: in use by "
        f"PID 7 (train.py) on far. The V-IPU service at 127.0.0.1:{client.port} had heard nothing "
        "from it for 30 s or began anew, or the partition was removed. Start the program again; a "
        "training goes on from its last checkpoint."
    )
    assert said == [str(caught.value)]
    with pytest.raises(BackendUnavailableError, match="Can't attach IPU, ipu_num = 1"):
        compiled()
    # Another program of this process may have IPUs again, and then all have.
    client.call("release", name="p", pid=7, **FAR)
    compiled()
    np.testing.assert_allclose(run(program), np.tanh(np.ones((2, 3))), rtol=1e-6)


def test_ipus_that_are_free_still_are_taken_back(client: VipuClient, said: list[str]) -> None:
    assert attachment.attach(2) == 0
    client.call("release", name="p", pid=os.getpid(), **FAR)
    wait_for(said, "attached again")
    assert said == [
        f"process {os.getpid()} has no IPUs of partition p any more; they were free still, and are "
        "attached again."
    ]
    assert [(p["pid"], p["ipus"]) for p in attached(client)] == [(os.getpid(), 2)]
    attachment.check()
    # Others of the partition are not the same.
    with attachment._LOCK:
        client.call("release", name="p", pid=os.getpid(), **FAR)
        client.call("attach", name="p", ipus=1, pid=7, **FAR, **OTHER)
    wait_for(said, "lost its IPUs")
    with pytest.raises(
        BackendUnavailableError, match=r"process \d+ has no IPUs of partition p any"
    ):
        attachment.check()
    assert [p["pid"] for p in attached(client)] == [7]


def test_a_process_that_ends_takes_nothing_back(client: VipuClient, said: list[str]) -> None:
    attachment.attach(2)
    found = ipuof.target()
    assert found is not None
    attachment._release_at_exit(found)
    (renewing,) = (t for t in threading.enumerate() if t.name.endswith("(_renew)"))
    renewing.join(10)
    assert (renewing.is_alive(), said, attached(client)) == (False, [], [])


def test_a_service_that_does_not_answer(
    client: VipuClient, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = VipuClient.call

    def call(self: VipuClient, method: str, /, **arguments: Any) -> Any:
        if method == "renew" and silent:
            raise VipuConnectionError("nobody answers")
        found = answers(self, method, **arguments)
        return {**found, "lease": 0.1} if method == "attach" else found

    silent = True
    monkeypatch.setattr(VipuClient, "call", call)
    monkeypatch.setattr(attachment, "_TIMES", 10)
    attachment.attach(2)
    wait_for(said, "nobody answers")
    time.sleep(0.1)
    assert said == [
        "nobody answers. A service that hears nothing from this process for 0.1 s gives its IPUs "
        "of partition p to others."
    ]
    attachment.check()
    silent = False

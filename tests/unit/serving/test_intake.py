"""Clients of the HTTP front that send much, slowly, or nothing: bounds, and others unharmed."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

import numpy as np
import pytest

from paddle_ipu.serving import BatchingRunner
from paddle_ipu.serving.http.server import HttpServer

SECONDS = 0.6
REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [3]}]}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    def double(feed: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": 2 * feed["x"]}

    runner = BatchingRunner(double, micro_batch=2, inputs={"x": ([], "float32")}, timeout_ms=0)
    made = HttpServer({"m": runner}, port=0, body_limit=2000, bodies_limit=3000, timeout=SECONDS)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join(20)
    assert not thread.is_alive()


def sent(server: HttpServer, length: int, body: bytes) -> socket.socket:
    """A connection on which the beginning of a request has been sent."""
    host, port = server.address.removeprefix("http://").rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=20)
    head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: m\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def answer(connection: socket.socket) -> tuple[int, str, Any]:
    """(code, headers, JSON) of what comes."""
    data = b""
    while b"\r\n\r\n" not in data or not data.endswith(b"}"):
        part = connection.recv(65536)
        assert part, data
        data += part
    head, _, body = data.decode().partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), json.loads(body)


def ask(server: HttpServer, size: int) -> tuple[int, str, Any]:
    """The answer to a request of so many bytes, or of as few as it takes."""
    body = json.dumps(REQUEST).encode().ljust(size)
    with closing(sent(server, len(body), body)) as connection:
        return answer(connection)


def holds(server: HttpServer, size: int) -> None:
    """Waits until the requests under way have so many bytes."""
    ends = time.monotonic() + 20
    while server._application.intake.held != size:
        assert time.monotonic() < ends, server._application.intake.held
        time.sleep(0.002)


def test_all_requests_together_have_a_bound(server: HttpServer) -> None:
    with closing(sent(server, 2000, b" " * 1900)):
        holds(server, 1900)
        code, head, told = ask(server, 1500)
        assert (code, told["error"][:50]) == (
            503,
            "the requests under way have 1900 bytes, and togeth",
        )
        assert "they may have 3000. Try again later, or" in told["error"]
        assert "retry-after: 1" in head
        # A small one has room, and one that has been refused leaves its room to others.
        assert ask(server, 1000)[0] == ask(server, 1000)[0] == 200
    holds(server, 0)
    assert ask(server, 1500)[0] == 200
    assert np.array_equal(ask(server, 0)[2]["outputs"][0]["data"], [6])


def test_a_body_that_does_not_come(server: HttpServer) -> None:
    with closing(sent(server, 200, b"{")) as connection:
        code, head, told = answer(connection)
        assert (code, "connection: close" in head) == (408, True)
        assert told["error"] == "1 bytes of the body came within 0.6 s, and not its end."
        assert connection.recv(1) == b""
    holds(server, 0)


@pytest.mark.parametrize("begun", [b"", b"GET /health HTTP/1.1\r\nHost: "])
def test_a_connection_that_asks_for_nothing_is_closed(server: HttpServer, begun: bytes) -> None:
    host, port = server.address.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(begun)
        start = time.monotonic()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        assert SECONDS / 2 < time.monotonic() - start < 20 * SECONDS


def test_a_client_that_goes_before_its_request_has_come(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    connection = sent(server, 200, b"{")
    holds(server, 1)
    connection.close()
    holds(server, 0)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert ask(server, 0)[0] == 200

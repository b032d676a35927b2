"""The HTTP front over a plain function: the protocol, wrong requests, health, metrics, the end."""

from __future__ import annotations

import http.client
import json
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from paddle_ipu.serving import BatchingRunner
from paddle_ipu.serving.http.metrics import Metrics
from paddle_ipu.serving.http.server import HttpServer

Array = np.ndarray[Any, Any]
LIMIT, JSON_LIMIT = 30_000, 20_000
HEADER = "Inference-Header-Content-Length"


def model(feed: Mapping[str, Array]) -> dict[str, Array]:
    if (feed["n"] < 0).any():
        raise ValueError("n is below zero")
    if (feed["n"] == 99).any():
        time.sleep(0.3)
    n = feed["n"].astype("float32")
    with np.errstate(divide="ignore"):
        return {"y": feed["x"] * n[:, None], "inverse": 1 / n}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    runner = BatchingRunner(
        model,
        micro_batch=4,
        inputs={"x": ([2], "float32"), "n": ([], "int32")},
        timeout_ms=1,
        max_waiting=8,
    )
    made = HttpServer(
        {"double": runner}, port=0, body_limit=LIMIT, json_limit=JSON_LIMIT, timeout=20
    )
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert not runner.is_open


def ask(
    server: HttpServer,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, Any, Mapping[str, str]]:
    """Code, JSON or bytes, and headers of an answer."""
    host, port = server.address.removeprefix("http://").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    try:
        connection.request(
            method or ("GET" if body is None else "POST"), path, content, dict(headers or {})
        )
        answer = connection.getresponse()
        data = answer.read()
        told = {name.lower(): value for name, value in answer.getheaders()}
        kind = told.get("content-type", "")
        return answer.status, json.loads(data) if kind == "application/json" else data, told
    finally:
        connection.close()


def tensor(name: str, datatype: str, data: Any, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


X = tensor("x", "FP32", [1.5, 2, 3, 4], [2, 2])
N = tensor("n", "INT32", [2, 4], [2])
INFER = "/v2/models/double/infer"


def test_an_inference(server: HttpServer) -> None:
    code, answer, _ = ask(server, INFER, {"id": "7", "inputs": [X, N]})
    assert code == 200
    assert answer == {
        "model_name": "double",
        "id": "7",
        "outputs": [
            tensor("y", "FP32", [3.0, 4.0, 12.0, 16.0], [2, 2]),
            tensor("inverse", "FP32", [0.5, 0.25], [2]),
        ],
    }
    nested = {**X, "data": [[1.5, 2], [3, 4]]}
    asked = {"inputs": [nested, {**N, "datatype": "INT16"}], "outputs": [{"name": "inverse"}]}
    code, answer, _ = ask(server, INFER, asked)
    assert [output["name"] for output in answer["outputs"]] == ["inverse"]


def test_binary_tensors(server: HttpServer) -> None:
    x, n = np.array([[1, 2], [3, 4]], "<f4"), np.array([0, 1], "<i4")

    def described(name: str, datatype: str, array: Array) -> dict[str, Any]:
        return {
            "name": name, "datatype": datatype, "shape": list(array.shape),
            "parameters": {"binary_data_size": array.nbytes},
        }  # fmt: skip

    header = json.dumps(
        {
            "inputs": [described("x", "FP32", x), described("n", "INT32", n)],
            "outputs": [{"name": "inverse", "parameters": {"binary_data": True}}, {"name": "y"}],
        }
    ).encode()
    code, data, told = ask(
        server, INFER, header + x.tobytes() + n.tobytes(), {HEADER: str(len(header))}
    )
    assert code == 200
    length = int(told[HEADER.lower()])
    answer = json.loads(data[:length])
    assert answer["outputs"][0]["parameters"] == {"binary_data_size": 8}
    np.testing.assert_array_equal(np.frombuffer(data[length:], "<f4"), [np.inf, 1])
    assert answer["outputs"][1]["data"] == [0, 0, 3, 4]
    everything = {"inputs": [X, N], "parameters": {"binary_data_output": True}}
    code, data, told = ask(server, INFER, everything)
    sizes = [o["parameters"] for o in json.loads(data[: int(told[HEADER.lower()])])["outputs"]]
    assert sizes == [{"binary_data_size": 16}, {"binary_data_size": 8}]


def test_many_clients_each_get_their_own(server: HttpServer) -> None:
    def one(number: int) -> None:
        inputs = [tensor("x", "FP32", [number, 1], [1, 2]), tensor("n", "INT32", [3], [1])]
        code, answer, told = ask(server, INFER, {"inputs": inputs})
        while code == 503:
            assert "have no room" in answer["error"] or "has no room" in answer["error"]
            assert told["retry-after"] == "1"
            code, answer, told = ask(server, INFER, {"inputs": inputs})
        assert answer["outputs"][0]["data"] == [3 * number, 3]

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(one, range(60)))


def test_what_there_is(server: HttpServer) -> None:
    assert ask(server, "/health/live")[:2] == (200, {"live": True})
    for path in ("/health", "/health/ready", "/v2/health/ready"):
        assert ask(server, path)[:2] == (200, {"ready": True})
    assert ask(server, "/v2")[1]["models"] == ["double"]
    assert ask(server, "/v2/models/double/ready")[:2] == (200, {"name": "double", "ready": True})
    assert ask(server, "/v2/models/double")[1] == {
        "name": "double",
        "platform": "paddle_ipu",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "n", "datatype": "INT32", "shape": [-1]},
        ],
        "outputs": [],
    }


def test_metrics(server: HttpServer) -> None:
    ask(server, INFER, {"inputs": [X, N]})
    code, text, told = ask(server, "/metrics")
    assert code == 200
    assert told["content-type"].startswith("text/plain; version=0.0.4")
    lines = dict(
        line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#")
    )
    answered = float(lines['paddle_ipu_requests_total{model="double",outcome="answered"}'])
    assert answered >= 1
    assert float(lines['paddle_ipu_http_responses_total{code="200",model="double"}']) >= 1
    assert float(lines['paddle_ipu_latency_seconds_bucket{le="+Inf",model="double"}']) == answered
    assert float(lines['paddle_ipu_rows_total{model="double"}']) >= 2
    assert lines['paddle_ipu_waiting_rows{model="double"}'] == "0.0"


WRONG: list[tuple[Any, str]] = [
    (b"{", "the body is not JSON: "),
    (b"[" * 100_00, "the body is not JSON: "),
    (b"[]", "the body is an array, expected an object"),
    ({}, "the body has no 'inputs'"),
    ({"inputs": {}}, "'inputs' is an object, expected an array"),
    ({"inputs": [1]}, "an item of 'inputs' is a number, expected an object"),
    ({"inputs": [X]}, "input 'n' is missing: the model has the inputs 'x', 'n'"),
    ({"inputs": [X, N, X]}, "input 'x' is given twice"),
    ({"inputs": [X, N, {**X, "name": "z"}]}, "input 'z' is unknown"),
    ({"inputs": [{**X, "datatype": "FLOAT"}, N]}, "'x': the datatype 'FLOAT' is unknown; there"),
    ({"inputs": [{**X, "datatype": "FP64"}, N]}, "input 'x': the datatype is FP64, expected FP32."),
    ({"inputs": [X, {**N, "datatype": "INT64"}]}, "'n': the datatype is INT64, expected INT32."),
    ({"inputs": [{**X, "shape": [2, -2]}, N]}, "the shape [2, -2] is no list of whole numbers"),
    ({"inputs": [{**X, "shape": [4, 2]}, N]}, "'data' holds 4 numbers, and the shape [4, 2] takes"),
    ({"inputs": [{**X, "shape": [4]}, N]}, "got an array of shape [4], expected [rows, 2]"),
    ({"inputs": [{**X, "data": [[1], [2, 3]]}, N]}, "the lists of 'data' differ in length"),
    ({"inputs": [{**X, "data": list("abcd")}, N]}, "'data' holds strings, expected numbers of F"),
    ({"inputs": [{**X, "data": [[1, 2], [3, "4"]]}, N]}, "'data' holds strings, expected numbers"),
    # NumPy would make an array of 96 MB of it.
    ({"inputs": [{**X, "data": [0] * 3000 + ["a" * 8000]}, N]}, "'data' holds strings, expected"),
    # NumPy would make NaN of null, and numbers of truth values beside numbers.
    ({"inputs": [{**X, "data": [1, None, 0, 0]}, N]}, "'data' holds null, expected numbers of"),
    ({"inputs": [{**X, "data": [[1, 0], [0, True]]}, N]}, "'data' holds truth values, expected n"),
    ({"inputs": [{**X, "data": [1, {}, 0, ""]}, N]}, "holds objects and strings, expected numbers"),
    ({"inputs": [X, {**N, "data": [1, True]}]}, "'data' holds truth values, expected numbers of I"),
    ({"inputs": [X, {**N, "data": [1, 1.5]}]}, "numbers with a fraction, expected numbers of I"),
    ({"inputs": [X, {**N, "data": [1, 1 << 40]}]}, "whole numbers from 1 to 1099511627776"),
    ({"inputs": [X, {**N, "data": [1], "shape": [1]}]}, "'x' has 2, 'n' has 1"),
    (json.dumps({"inputs": [X, N]}).replace("{", '{"id": "a", "id": "b", ', 1).encode(),
     "the field 'id' stands twice in one object"),
    (json.dumps({"inputs": [X, N]}).replace('"data"', '"data": [], "data"', 1).encode(),
     "the field 'data' stands twice"),
    ({"inputs": [X, N], "parameters": {"timeout_ms": "5"}}, "is a string, expected a number."),
    ({"inputs": [X, N], "outputs": [{}]}, "an item of 'outputs' has no 'name'"),
    ({"inputs": [X, N], "parameters": {"timeout_ms": 0}}, "'timeout_ms' is 0, expected milli"),
    ({"inputs": [X, {**N, "datatype": "BF16"}]}, "BF16 is taken as binary data only"),
    (
        {"inputs": [X, {**N, "parameters": {"binary_data_size": 4}}]},
        "binary_data_size is 4, and 0 bytes are there; INT32 of shape [2] takes 8",
    ),
    # Python reads numbers of any size, and JSON has no bounds.
    ({"inputs": [{**X, "shape": [10**4000, 10**4000]}, N]}, "the shape has 2 dimensions, expected"),
    ({"inputs": [{**X, "shape": [1] * 70}, N]}, "has 70 dimensions, expected at most 32"),
    ({"inputs": [{**X, "shape": [0, *[2**31 - 1] * 3], "data": []}, N]}, "the shape [0, 2147"),
    ({"inputs": [{**X, "data": [1e60, 0, 0, 0]}, N]}, "'data' holds numbers beyond FP32"),
    ({"inputs": [{**X, "data": [10**60, 0, 0, 0]}, N]}, "'data' holds numbers beyond FP32"),
    ({"inputs": [{**X, "data": [10**400, 0, 0, 0]}, N]}, "'data' holds whole numbers of more than"),
    ({"inputs": [X, {**N, "data": [1, 2**70]}]}, "'data' holds whole numbers of more than 64 bits"),
    ({"inputs": [{**X, "data": [math.nan, 0, 0, 0]}, N]}, "the body holds NaN, which JSON has no"),
    ({"inputs": [X, N], "parameters": {"timeout_ms": -math.inf}}, "the body holds -Infinity, whic"),
    (json.dumps({"inputs": [X, N]}).replace("1.5", "1e999").encode(), "holds numbers beyond FP32"),
    ({"inputs": [X, N], "parameters": {"binary_data_output": "no"}}, "is a string, expected true"),
]  # fmt: skip


def test_wrong_requests_are_told_what_is_wrong_and_harm_nobody(server: HttpServer) -> None:
    for body, message in WRONG:
        code, answer, _ = ask(server, INFER, body)
        assert code == 400, body
        assert message in answer["error"]
    for length in ("x", "99999", "9" * 5000):
        code, answer, _ = ask(server, INFER, {"inputs": [X, N]}, {HEADER: length})
        assert code == 400
        assert "expected the length of the JSON header" in answer["error"]
    twice = {**N, "parameters": {"binary_data_size": 8}}
    header = json.dumps({"inputs": [X, twice]}).encode()
    code, answer, _ = ask(server, INFER, header + bytes(8), {HEADER: str(len(header))})
    message = "input 'n' has both 'data' and a binary_data_size. Send one of them."
    assert (code, answer["error"]) == (400, message)
    extra = json.dumps({"inputs": [X, N]}).encode()
    code, answer, _ = ask(server, INFER, extra + b"??", {HEADER: str(len(extra))})
    assert (code, answer["error"][:37]) == (400, "2 bytes are left behind the tensors: ")
    as_bytes = {"name": "n", "datatype": "BOOL", "shape": [1],
                "parameters": {"binary_data_size": 1}}  # fmt: skip
    header = json.dumps({"inputs": [as_bytes]}).encode()
    code, answer, _ = ask(server, INFER, header + b"\2", {HEADER: str(len(header))})
    assert (code, answer["error"]) == (400, "input 'n': a BOOL is a byte of 0 or 1, got others.")
    long = {"inputs": [X, N], "parameters": {"timeout_ms": 10**400}}
    assert ask(server, INFER, long)[0] == 200
    assert ask(server, INFER, {"inputs": [X, N]})[0] == 200


def test_fields_that_nothing_reads_are_named(server: HttpServer) -> None:
    body = {
        "inputs": [{**X, "parameters": {"shared_memory_region": "r"}}, {**N, "dtype": "int32"}],
        "output": [],
        "parameters": {"priority": 1, "timeout_ms": 9000},
    }
    code, answer, _ = ask(server, INFER, body)
    named = "inputs.parameters.shared_memory_region, inputs.dtype, output, parameters.priority"
    assert (code, answer["parameters"]) == (200, {"ignored": named})
    code, answer, _ = ask(server, INFER, {"inputs": [X, N], **{f"{n:0100}": n for n in range(99)}})
    assert (code, len(answer["parameters"]["ignored"])) == (200, 20 * 62 + 3)
    code, answer, _ = ask(server, INFER, {"inputs": [X, N]})
    assert (code, "parameters" in answer) == (200, False)


def test_a_whole_number_of_more_than_64_bits_may_be_a_float(server: HttpServer) -> None:
    body = {"inputs": [{**X, "data": [10**20, 0.5, 0, 0]}, N]}
    code, answer, _ = ask(server, INFER, body)
    assert code == 200
    assert answer["outputs"][0]["data"][:2] == [float(np.float32(10**20)) * 2, 1.0]


@pytest.mark.parametrize(
    "asked", [f"POST {INFER}", "POST /v2/models/none/infer", "POST /nowhere", "GET /health"]
)
def test_two_lengths_of_a_body_are_refused(server: HttpServer, asked: str) -> None:
    """The end of the body is none for a proxy that goes by the other length: what follows is its.

    So nothing behind it is answered.
    """
    host, port = server.address.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(
            f"{asked} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n".encode()
            + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
            + b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"has both Content-Length and Transfer-Encoding" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_other_errors_have_codes_of_their_own(server: HttpServer) -> None:
    code, answer, _ = ask(server, "/v2/models/treble/infer", {})
    assert (code, answer["error"]) == (404, "there is no model 'treble'; this server has 'double'.")
    code, answer, _ = ask(server, "/nowhere")
    assert (code, answer["error"][:31]) == (404, "there is no /nowhere; the paths")
    code, answer, told = ask(server, INFER)
    assert (code, told["allow"]) == (405, "POST")
    assert answer == {"error": f"GET is not allowed at {INFER}; allowed: POST."}
    code, answer, told = ask(server, "/v2", b"", method="POST")
    assert (code, told["allow"]) == (405, "GET, HEAD")
    assert answer == {"error": "POST is not allowed at /v2; allowed: GET, HEAD."}
    code, answer, _ = ask(server, INFER, b" " * (LIMIT + 1))
    assert code == 413
    assert f"30001 bytes or more, and {LIMIT} are allowed" in answer["error"]
    large = b" " * (JSON_LIMIT + 1)
    for headers, expected in (({}, 413), ({HEADER: "20001"}, 413), ({HEADER: "20000"}, 400)):
        code, answer, _ = ask(server, INFER, large, headers)
        assert code == expected
        is_told = "JSON has 20001 bytes or more, and 20000 are allowed" in answer["error"]
        assert is_told == (code == 413)
    failing = {"inputs": [X, {**N, "data": [1, -1]}]}
    code, answer, _ = ask(server, INFER, failing)
    assert (code, answer["error"]) == (500, "the model failed: ValueError: n is below zero")
    code, answer, _ = ask(server, INFER, {"inputs": [X, {**N, "data": [0, 1]}]})
    assert code == 422
    assert "output 'inverse' holds NaN or infinity, which JSON has no form for" in answer["error"]
    code, answer, _ = ask(server, INFER, {"inputs": [X, N], "outputs": [{"name": "z"}]})
    assert (code, "output 'z' is unknown: the model gave 'y'" in answer["error"]) == (400, True)
    slow = {"inputs": [X, {**N, "data": [99, 1]}], "parameters": {"timeout_ms": 50}}
    code, answer, _ = ask(server, INFER, slow)
    assert (code, answer["error"]) == (504, "no answer within 0.05 s; the request is given up.")


def test_an_error_of_the_server_itself_is_told_as_json(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Metrics) -> str:
        raise KeyError("secret")

    monkeypatch.setattr(Metrics, "text", fail)
    assert ask(server, "/metrics")[:2] == (500, {"error": "the server failed; its log says how."})


def test_a_model_that_ends_takes_no_more_requests() -> None:
    inputs = {"x": ([2], "float32"), "n": ([], "int32")}
    runner = BatchingRunner(model, micro_batch=4, inputs=inputs)
    server = HttpServer({"double": runner}, port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        runner.close()
        code, answer, _ = ask(server, INFER, {"inputs": [X, N]})
    finally:
        server.stop()
        thread.join(20)
    told = "the model 'double' takes no more requests: the server ends."
    assert (code, answer["error"]) == (503, told)


class Remembering(BatchingRunner):
    """A runner that keeps the Futures of its requests."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.futures: list[Future[dict[str, Array]]] = []

    def submit(self, *arguments: Any, **options: Any) -> Future[dict[str, Array]]:
        self.futures.append(future := super().submit(*arguments, **options))
        return future


def test_a_request_whose_client_has_gone_is_not_computed() -> None:
    gate, computed = threading.Event(), []

    def waiting(feed: Mapping[str, Array]) -> dict[str, Array]:
        computed.append(len(feed["x"]))
        gate.wait(20)
        return model(feed)

    inputs = {"x": ([2], "float32"), "n": ([], "int32")}
    runner = Remembering(waiting, micro_batch=2, inputs=inputs, timeout_ms=0)
    server = HttpServer({"double": runner}, port=0)
    serving = threading.Thread(target=server.run)
    serving.start()
    host, port = server.address.removeprefix("http://").rsplit(":", 1)
    connections = [http.client.HTTPConnection(host, int(port), timeout=20) for _ in range(3)]
    ends = time.monotonic() + 20

    def wait_for(what: Callable[[], bool]) -> None:
        while not what():
            assert time.monotonic() < ends
            time.sleep(0.002)

    try:
        for number, connection in enumerate(connections, 1):
            connection.request("POST", INFER, json.dumps({"inputs": [X, N]}).encode())
            # One after another: the first is computed, the others wait for it.
            wait_for(lambda number=number: len(runner.futures) == number and len(computed) == 1)
        for connection in connections[1:]:
            connection.close()
        wait_for(lambda: all(future.cancelled() for future in runner.futures[1:]))
        gate.set()
        assert connections[0].getresponse().status == 200
        connections[0].close()
        wait_for(lambda: runner.statistics().cancelled == 2)
        assert len(computed) == 1
    finally:
        gate.set()
        server.stop()
        serving.join(20)


def test_what_takes_longer_than_the_grace_is_given_up_and_told() -> None:
    gate = threading.Event()

    def waiting(feed: Mapping[str, Array]) -> dict[str, Array]:
        gate.wait(20)
        return model(feed)

    runner = BatchingRunner(
        waiting, micro_batch=2, inputs={"x": ([2], "float32"), "n": ([], "int32")}, timeout_ms=0
    )
    server = HttpServer({"double": runner}, port=0, grace=0.1)
    ended: list[bool] = []
    serving = threading.Thread(target=lambda: ended.append(server.run()))
    serving.start()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server, INFER, {"inputs": [X, N]})
        while not runner.statistics().batches:
            time.sleep(0.002)
        server.stop()
        serving.join(20)
        assert ended == [False]
        gate.set()
        assert isinstance(asked.exception(20), (OSError, http.client.HTTPException)) or (
            asked.result()[0] == 500
        )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_when_what_is_under_way_is_answered(
    number: signal.Signals,
) -> None:
    runner = BatchingRunner(
        model, micro_batch=4, inputs={"x": ([2], "float32"), "n": ([], "int32")}, timeout_ms=0
    )
    server = HttpServer({"double": runner}, port=0)
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)}
    answers: list[Any] = []

    def client() -> None:
        slow = threading.Thread(
            target=lambda: answers.append(
                ask(server, INFER, {"inputs": [X, {**N, "data": [99, 1]}]})
            )
        )
        slow.start()
        while not runner.statistics().batches:
            time.sleep(0.002)
        os.kill(os.getpid(), number)
        slow.join(20)

    thread = threading.Thread(target=client)
    assert server.run(when_listening=thread.start)
    thread.join(20)
    assert answers[0][0] == 200
    assert not runner.is_open
    assert {kind: signal.getsignal(kind) for kind in before} == before

"""``paddle-ipu serve`` from the saved model to the signal that ends it, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.cli.serve import name_of


def save(folder: Path, *, shared: bool = False) -> tuple[str, Any]:
    """A saved model of ids [rows, 1] -> softmax [rows, 3], and what the CPU makes of 1 to 4.

    Args:
        folder: where it is saved.
        shared: it has an output [2] too, the same for all rows.
    """
    paddle.enable_static()
    program, start = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.program_guard(program, start), paddle.static.scope_guard(scope):
        ids = paddle.static.data("ids", [-1, 1], "int64")
        words = paddle.nn.Embedding(5, 3)(ids)
        y = paddle.nn.functional.softmax(words.reshape([-1, 3]))
        outputs = [y, paddle.full([2], 7.0)] if shared else [y]
        executor.run(start)
        feed = {"ids": np.arange(1, 5).reshape(4, 1)}
        (expected,) = executor.run(program, feed=feed, fetch_list=[y])
        path = str(folder / "words")
        paddle.static.save_inference_model(path, [ids], outputs, executor, program=program)
    return path, expected


def infer(address: str, ids: list[int]) -> tuple[int, Any]:
    tensor = {"name": "ids", "datatype": "INT64", "shape": [len(ids), 1], "data": ids}
    body = json.dumps({"inputs": [tensor]}).encode()
    try:
        with urllib.request.urlopen(f"{address}/v2/models/w2v/infer", body, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


def test_a_saved_model_is_served_until_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, expected = save(tmp_path, shared=True)
    port = free_port()
    answers: list[Any] = []

    def client() -> None:
        address = f"http://127.0.0.1:{port}"
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            try:
                urllib.request.urlopen(f"{address}/health/ready", timeout=5).close()
                break
            except OSError:
                time.sleep(0.05)
        answers.extend([infer(address, [1, 2, 3, 4]), infer(address, [5])])
        os.kill(os.getpid(), signal.SIGTERM)

    options = ["--name", "w2v", "--micro-batch", "8", "--timeout-ms", "0", "--port", str(port)]
    assert main(["serve", model, *options]) == 3
    (name,) = re.findall(r"output '(.*)' has shape \[2\], which does not", capsys.readouterr().err)
    options += ["--shared-output", name]
    thread = threading.Thread(target=client)
    thread.start()
    assert main(["serve", model, *options]) == 0
    thread.join(20)
    (code, answer), (bad, refused) = answers
    assert code == 200
    got = np.array(answer["outputs"][0]["data"], "float32").reshape(4, 3)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert answer["outputs"][1]["data"] == [7, 7]
    assert bad == 400
    assert "got index 5, expected 0 to 4" in refused["error"]
    told = capsys.readouterr().out
    assert f"serving w2v at http://127.0.0.1:{port}/v2/models/w2v/infer" in told
    assert "micro-batches of 8 rows, filled up for at most 0 ms" in told
    assert "input ids: INT64 [-1, 1]" in told
    assert f"output {name}: FP32 [2]" in told
    assert "2 requests: 1 answered, 1 failed" in told


def test_every_model_has_a_name_in_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "net.v2"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names = {".": "net", "./": "net", "words.pdmodel": "words", "../words": "words", ".hid": "hid"}
    assert {target: name_of(target) for target in names} == names
    assert name_of("/") == "model"


def test_what_cannot_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: str) -> tuple[int, str]:
        try:
            code = main(["serve", *arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, capsys.readouterr().err

    code, told = failing(str(tmp_path / "none"))
    assert code == 2
    assert "none.json" in told
    model, _ = save(tmp_path)
    for option, value, message in (
        ("--micro-batch", "0", "got '0', expected a whole number from 1 on"),
        ("--timeout-ms", "soon", "got 'soon', expected milliseconds from 0 on"),
        ("--grace", "0", "got '0', expected seconds above 0"),
        ("--name", "a/b", "got 'a/b', expected a name without '/'"),
        ("--name", "..", "got '..', expected a name"),
        ("--port", "65536", "got '65536', expected a number from 0 to 65535"),
    ):
        code, told = failing(model, option, value)
        assert code == 2
        assert message in told
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, told = failing(model, "--port", str(taken.getsockname()[1]))
    assert code == 4
    assert "cannot listen on 127.0.0.1 port" in told
    assert "--port 0 takes any that is free" in told
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name)
    )
    code, told = failing(model)
    assert code == 3
    assert "serving needs uvicorn: pip install 'paddle_ipu[serving]' brings it." in told

"""``paddle-ipu serve``: a saved model behind HTTP, concurrent requests in shared micro-batches."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import sys
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddle_ipu
from paddle_ipu.cli.numbers import number, positive
from paddle_ipu.cli.scripts import UNREADABLE
from paddle_ipu.cli.targets import ExistingModel
from paddle_ipu.errors import PaddleIpuError

if TYPE_CHECKING:
    from paddle_ipu.inference.predictor import IpuPredictor
    from paddle_ipu.serving import BatchingRunner

NAME = "serve"
SUMMARY = "serve a saved model by HTTP, gathering concurrent requests into micro-batches"
EXIT_CODES = """\
MODEL is what paddle.static.save_inference_model or paddle.jit.save wrote: the path without suffix,
one of its files, or a folder with __model__. Its inputs are rows: a dynamic or fixed first
dimension, all others fixed. Nothing in it is run but its operators.

A request waits for others until the micro-batch is full, at most --timeout-ms. A larger
--micro-batch gives more rows a second, a larger --timeout-ms fuller batches while there are few
clients; --timeout-ms 0 never waits, and still gathers what comes while a batch is computed.

  paddle-ipu serve inference/word2vec --micro-batch 64 --timeout-ms 2
  curl http://127.0.0.1:8000/v2/models/word2vec           inputs and outputs
  curl http://127.0.0.1:8000/v2/models/word2vec/infer -d '{"inputs": [
    {"name": "w", "datatype": "INT64", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
  curl http://127.0.0.1:8000/health/ready                 200, or 503 during a shutdown
  curl http://127.0.0.1:8000/metrics                      for Prometheus

It listens on this machine only, unless --host says otherwise; there is no encryption and no
authentication, which belong into a proxy in front of it. SIGTERM or Ctrl-C ends it: no new
requests are taken, those under way are answered.

exit codes:
  0  ended by SIGTERM or Ctrl-C, every request answered
  1  ended likewise, but requests were given up after --grace seconds
  2  wrong arguments, or a missing file
  3  the model cannot be read, compiled or served, or the extra `serving` is not installed
  4  nothing can listen at --host and --port
"""
_NO_PORT = 4
_LIBRARIES = ("starlette", "uvicorn", "prometheus_client")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add = parser.add_argument
    seconds = number(float, 1e-3, "seconds above 0")
    add("model", metavar="MODEL", action=ExistingModel, help="a saved inference model")
    add("--name", type=_name, help="its name in URLs; that of its file or folder by default")
    add("--micro-batch", type=positive, default=8, metavar="N",
        help="rows computed at once (default 8); a model saved with a fixed first dimension keeps "
             "that")  # fmt: skip
    add("--timeout-ms", type=number(float, 0, "milliseconds from 0 on"), default=5.0, metavar="MS",
        help="how long a request waits for others (default 5)")  # fmt: skip
    add("--max-waiting", type=positive, metavar="ROWS",
        help="rows that may wait; requests beyond get 503 (default: 10 micro-batches)")  # fmt: skip
    add("--shared-output", action="append", default=[], metavar="NAME",
        help="an output that is the same whatever the rows are, given whole to every request; "
             "may be repeated")  # fmt: skip
    add("--fp16", action="store_true", help="compute in half precision")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    add("--port", type=_port, default=8000, help="port, 0 for any that is free (default 8000)")
    add("--body-limit", type=positive, default=64, metavar="MIB",
        help="largest request in MiB, beyond it 413 (default 64)")  # fmt: skip
    add("--json-limit", type=positive, default=16, metavar="MIB",
        help="most JSON in a request in MiB, beyond it 413; as objects it takes many times that "
             "(default 16)")  # fmt: skip
    add("--bodies-limit", type=positive, metavar="MIB",
        help="MiB of all requests under way, beyond 503 (default: 4 x --body-limit)")  # fmt: skip
    add("--request-timeout", type=seconds, default=60.0, metavar="S",
        help="seconds until a request gets 504, or 408 if not whole (default 60)")  # fmt: skip
    add("--grace", type=seconds, default=30.0, metavar="S",
        help="seconds for requests under way at the end (default 30)")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Serves until a signal; returns the exit code."""
    missing = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        return _fail(
            UNREADABLE,
            f"serving needs {', '.join(missing)}: pip install 'paddle_ipu[serving]' brings it.",
        )
    from paddle_ipu.serving import BatchingRunner
    from paddle_ipu.serving.http.server import HttpServer

    name = arguments.name or name_of(arguments.model)
    try:
        runner = BatchingRunner(
            load(arguments.model, arguments.micro_batch, arguments.fp16),
            timeout_ms=arguments.timeout_ms,
            max_waiting=arguments.max_waiting,
            shared_outputs=arguments.shared_output,
            isolate_errors=True,
        )
    except PaddleIpuError as error:
        return _fail(UNREADABLE, f"{arguments.model}: {error}")
    try:
        server = HttpServer(
            {name: runner},
            host=arguments.host,
            port=arguments.port,
            body_limit=arguments.body_limit << 20,
            json_limit=arguments.json_limit << 20,
            bodies_limit=arguments.bodies_limit and arguments.bodies_limit << 20,
            timeout=arguments.request_timeout,
            grace=arguments.grace,
        )
    except OSError as error:
        return _fail(
            _NO_PORT,
            f"cannot listen on {arguments.host} port {arguments.port}: {error.strerror}. Give "
            "another --host or --port; --port 0 takes any that is free.",
        )
    answered = server.run(lambda: _introduce(name, server.address, runner, arguments.timeout_ms))
    print(runner.statistics())
    return 0 if answered else 1


def name_of(target: str) -> str:
    """The name in URLs of a model that has no other: its file's without suffixes, or its folder's.

    Args:
        target: a prefix, one of its files, or a folder, the current one too.
    """
    return Path(os.path.abspath(target)).name.strip(".").split(".")[0] or "model"


def load(target: str, micro_batch: int, half: bool) -> IpuPredictor:
    """A predictor for a saved model.

    Args:
        target: a prefix, one of its files, or a folder.
        micro_batch: rows, where the model leaves their number open.
        half: compute in half precision.

    Raises:
        PaddleIpuError: it cannot be read or compiled.
    """
    paddle_ipu.activate()
    from paddle_ipu.frontend import saved_model
    from paddle_ipu.inference.model import Model
    from paddle_ipu.inference.predictor import IpuPredictor
    from paddle_ipu.inference.settings import IpuSettings

    files = saved_model.locate(saved_model.prefix_of(target), is_folder=Path(target).is_dir())
    settings = IpuSettings(enabled=True)
    settings.set({"ipu_micro_batch_size": micro_batch, "ipu_enable_fp16": half}, "paddle-ipu serve")
    return IpuPredictor(Model(files, settings.strategy()))


def _introduce(name: str, address: str, runner: BatchingRunner, timeout_ms: float) -> None:
    from paddle_ipu.serving.http import protocol

    model = runner.model
    url = f"{address}/v2/models/{urllib.parse.quote(name, safe='')}/infer"
    print(
        f"serving {name} at {url}\n"
        f"micro-batches of {model.micro_batch} rows, filled up for at most {timeout_ms:g} ms"
    )
    described = protocol.describe(name, model)
    for kind in ("inputs", "outputs"):
        for tensor in described[kind]:
            print(f"  {kind[:-1]} {tensor['name']}: {tensor['datatype']} {tensor['shape']}")
    example = {"inputs": [_zeros(tensor) for tensor in described["inputs"]]}
    text = json.dumps(example)
    if len(text) < 600:
        print(f"try: curl {url} -d '{text}'")
    print("Ctrl-C ends it.", flush=True)


def _zeros(tensor: dict[str, Any]) -> dict[str, Any]:
    shape = [1, *tensor["shape"][1:]]
    return {**tensor, "shape": shape, "data": [0] * math.prod(shape)}


def _fail(code: int, message: str) -> int:
    print(f"paddle-ipu serve: {message}", file=sys.stderr)
    return code


def _name(text: str) -> str:
    if not text.strip(".") or "/" in text:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a name without '/'")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number from 0 to 65535")
    return int(text)

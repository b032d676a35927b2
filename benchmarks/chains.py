"""Compiles rows of thousands of operators, and a row four times as long, beside JAX and Paddle.

Compilation is linear where the longer row takes about four times as long. Each row is compiled in a
process of its own, whose seconds of processor are counted: other programs on the machine add little
to them. JAX compiles the shorter row, written by hand; Paddle's executor compiles nothing, and runs
both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import isa
from worker import NO_CACHE

ROWS, WIDTH = 8, 64
KINDS = {
    "norm": "layer_norm(x)",
    "centred": "x - mean(x)",
    "softmax": "softmax(x)",
    "matmul": "tanh(x @ w)",
    "residual": "x + gelu(layer_norm(x) @ w + b)",
    "rotated": "concat(x[:, 1:], x[:, :1])",
    "cumsum": "tanh(cumsum(x))",
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Seconds of processor to compile a row of steps, of which each takes the result of the "
            "one before, and a row four times as long; and the least time of a run. In training "
            "the gradient of all of it is computed, too."
        )
    )
    parser.add_argument("--steps", type=int, default=1250, help="of the shorter row (default 1250)")
    parser.add_argument("--training", action="store_true", help="compile backward, too")
    parser.add_argument("--only", choices=KINDS, action="append", help="this kind of row; repeat")
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds after which a row is given up (600)"
    )
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


# -- in a worker --------------------------------------------------------------------------------


def _paddle(kind: str, steps: int, training: bool, on_ipu: bool) -> tuple[float, Any]:
    """(seconds of processor until the first result is there, a function that runs again)."""
    import numpy as np
    import paddle
    import paddle.nn.functional as functional

    if on_ipu:
        import paddle_ipu  # noqa: F401  (activates it where the installation has not)
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [ROWS, WIDTH], "float32")
        w = paddle.static.create_parameter([WIDTH, WIDTH], "float32")
        b = paddle.static.create_parameter([WIDTH], "float32", is_bias=True)

        def norm(x: Any) -> Any:
            return functional.layer_norm(x, [WIDTH])

        forms: dict[str, Callable[[Any], Any]] = {
            "norm": norm,
            "centred": lambda x: x - x.mean(1, keepdim=True),
            "softmax": lambda x: functional.softmax(x),
            "matmul": lambda x: paddle.tanh(paddle.matmul(x, w)),
            "residual": lambda x: x + functional.gelu(functional.linear(norm(x), w, b)),
            "rotated": lambda x: paddle.concat([x[:, 1:], x[:, :1]], 1),
            "cumsum": lambda x: paddle.tanh(paddle.cumsum(x, 1)),
        }
        y = x + w.sum() + b.sum()
        for _ in range(steps):
            y = forms[kind](y)
        y = y.mean()
        if training:
            paddle.optimizer.SGD(0.01).minimize(y)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    feed = {"x": np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)}
    start, program = time.process_time(), main
    if on_ipu:
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=training)
        program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [y])

    def run() -> Any:
        return executor.run(program, feed=feed, fetch_list=[y])

    run()
    return time.process_time() - start, run


def _jax(kind: str, steps: int, training: bool) -> tuple[float, Any]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    def norm(x: Any) -> Any:
        mean = x.mean(1, keepdims=True)
        return (x - mean) / jnp.sqrt(jnp.mean((x - mean) ** 2, 1, keepdims=True) + 1e-5)

    def result(weights: Any, x: Any) -> Any:
        w, b = weights
        forms: dict[str, Callable[[Any], Any]] = {
            "norm": norm,
            "centred": lambda x: x - x.mean(1, keepdims=True),
            "softmax": lambda x: jax.nn.softmax(x),
            "matmul": lambda x: jnp.tanh(x @ w),
            "residual": lambda x: x + jax.nn.gelu(norm(x) @ w + b, approximate=False),
            "rotated": lambda x: jnp.concatenate([x[:, 1:], x[:, :1]], 1),
            "cumsum": lambda x: jnp.tanh(jnp.cumsum(x, 1)),
        }
        y = x + w.sum() + b.sum()
        for _ in range(steps):
            y = forms[kind](y)
        return y.mean()

    def step(weights: Any, x: Any) -> Any:
        value, slopes = jax.value_and_grad(result)(weights, x)
        return value, jax.tree.map(lambda weight, slope: weight - 0.01 * slope, weights, slopes)

    function = jax.jit(step if training else result)
    random = np.random.default_rng(0)
    weights = random.normal(size=(WIDTH, WIDTH)).astype(np.float32), np.zeros(WIDTH, np.float32)
    x = random.normal(size=(ROWS, WIDTH)).astype(np.float32)
    start = time.process_time()
    jax.block_until_ready(function(weights, x))
    return time.process_time() - start, lambda: jax.block_until_ready(function(weights, x))


def _work(engine: str, kind: str, steps: int, training: bool) -> dict[str, float]:
    if engine == "jax":
        compiling, run = _jax(kind, steps, training)
    else:
        compiling, run = _paddle(kind, steps, training, engine == "paddle_ipu")
    times = []
    for _ in range(15):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"compile": compiling, "run": statistics.median(times)}


# -- in the benchmark ---------------------------------------------------------------------------


def _measure(engine: str, kind: str, steps: int, arguments: argparse.Namespace) -> dict[str, float]:
    """What a worker found; empty where it took longer than the limit, or died.

    XLA's recursion over fused operators can take a process with it.
    """
    command = [sys.executable, __file__, "--worker", engine, kind, str(steps)]
    if arguments.training:
        command.append("--training")
    paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    settings = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **NO_CACHE}
    if engine == "paddle":
        settings["PADDLE_IPU_AUTOLOAD"] = "0"
    try:
        done = subprocess.run(
            command, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=arguments.limit, check=True, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {}
    except subprocess.CalledProcessError as error:
        if error.returncode > 0:
            raise
        return {}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    if arguments.worker:
        engine, kind, steps = arguments.worker
        print(json.dumps(_work(engine, kind, int(steps), arguments.training)))
        return 0
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa))
    short, long = arguments.steps, 4 * arguments.steps
    print(f"| step | {short} | {long} | ratio | JAX {short} | run {long} | Paddle's run {long} |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    results: dict[str, Any] = {}
    for kind in arguments.only or KINDS:
        ours = [_measure("paddle_ipu", kind, steps, arguments) for steps in (short, long)]
        jax, paddle = (
            _measure(engine, kind, steps, arguments)
            for engine, steps in (("jax", short), ("paddle", long))
        )
        results[kind] = {"paddle_ipu": ours, "jax": jax, "paddle": paddle}
        ratio = ours[1]["compile"] / ours[0]["compile"] if all(ours) else None
        cells = [
            *(_cell(one, "compile", 1, "s") for one in ours),
            "-" if ratio is None else f"{ratio:.1f}",
            _cell(jax, "compile", 1, "s"),
            _cell(ours[1], "run", 1000, "ms"),
            _cell(paddle, "run", 1000, "ms"),
        ]
        print(f"| `{KINDS[kind]}` | " + " | ".join(cells) + " |", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results), encoding="utf-8")
    return 0


def _cell(found: dict[str, float], what: str, factor: float, unit: str) -> str:
    return f"{factor * found[what]:.1f} {unit}" if found else "given up"


if __name__ == "__main__":
    sys.exit(main())

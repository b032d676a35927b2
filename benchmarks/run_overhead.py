"""Times one ``Executor.run`` of a one-operator program on the IPU Model and on Paddle's executor.

The operator costs next to nothing, so what is timed is the way to it and back.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import isa
from worker import Answer, Worker, serve

CASES: dict[str, tuple[list[int], int]] = {
    "y = x + 1, x [1]": ([1], 1),
    "y = x + 1, x [4, 4]": ([4, 4], 1),
    "sum of 16 feeds [1]": ([1], 16),
    "sum of 16 feeds [4, 4]": ([4, 4], 16),
}
Run = Callable[[], Any]

ENGINES = {"paddle_ipu": {}, "paddle": {"PADDLE_IPU_AUTOLOAD": "0"}, "jax": {}}
_TITLES = {
    "paddle_ipu": "paddle_ipu us",
    "paddle": "Paddle us",
    "jax": "XLA call alone us",
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Median time of one exe.run of a one-operator program: compiled with "
            "IpuCompiledProgram, on Paddle's own CPU executor, and, as the floor, of the same "
            "operator compiled by jax.jit and called with NumPy arrays. Engines take turns."
        )
    )
    parser.add_argument("--rounds", type=int, default=20, help="turns of each engine (default 20)")
    parser.add_argument("--runs", type=int, default=200, help="runs in a turn (default 200)")
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    parser.add_argument(
        "--profile",
        type=int,
        nargs="?",
        const=25,
        metavar="N",
        help="also print the N most expensive functions of our run (default 25), by cProfile",
    )
    parser.add_argument("--worker", choices=list(ENGINES), help=argparse.SUPPRESS)
    return parser.parse_args()


# -- in a worker --------------------------------------------------------------------------------


def _feed(shape: list[int], count: int) -> dict[str, Any]:
    import numpy as np

    return {f"x{index}": np.full(shape, index + 1, np.float32) for index in range(count)}


def _paddle_run(on_ipu: bool, shape: list[int], count: int) -> Run:
    import paddle

    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        inputs = [paddle.static.data(name, shape, "float32") for name in _feed(shape, count)]
        y = inputs[0] + 1.0 if count == 1 else paddle.add_n(inputs)
    program = main
    if on_ipu:
        import paddle_ipu  # noqa: F401  (activates it where the installation has not)

        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(num_ipus=1, is_training=False)
        compiler = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy)
        program = compiler.compile([x.name for x in inputs], [y])
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed = _feed(shape, count)
    return lambda: executor.run(program, feed=feed, fetch_list=[y])[0]


def _jax_run(shape: list[int], count: int) -> Run:
    import jax
    import numpy as np

    feed = _feed(shape, count)
    step = jax.jit(lambda xs: xs["x0"] + 1.0 if count == 1 else sum(xs.values()))
    compiled = step.lower(feed).compile()
    return lambda: np.asarray(compiled(feed))


class _Engine:
    """Answers ``prepare``, ``time`` and ``profile`` for the case prepared last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._runs: dict[str, Run] = {}

    def __call__(self, do: str, case: str, runs: int = 0, lines: int = 0) -> Answer:
        if do == "prepare":
            shape, count = CASES[case]
            if self._name == "jax":
                run = _jax_run(shape, count)
            else:
                run = _paddle_run(self._name == "paddle_ipu", shape, count)
            self._runs[case] = run
            return {"result": run().tolist()}
        run = self._runs[case]
        if do == "profile":
            return {"profile": _profile(run, runs, lines)}
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}


def _profile(run: Run, runs: int, lines: int) -> str:
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(runs):
        run()
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(lines)
    return text.getvalue()


# -- in the benchmark ---------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    script = os.path.abspath(__file__)
    workers: dict[str, Worker] = {}
    seconds: dict[str, dict[str, list[float]]] = {}
    result: dict[str, Any] = {"microseconds": {}, "seconds": seconds, "profile": {}}
    try:
        for name, settings in ENGINES.items():
            workers[name] = Worker(script, ["--worker", name], settings)
        for case in CASES:
            answers = {n: w.ask(do="prepare", case=case)["result"] for n, w in workers.items()}
            if any(answer != answers["paddle"] for answer in answers.values()):
                raise SystemExit(f"{case}: the engines' results differ: {answers}")
            for worker in workers.values():
                worker.ask(do="time", case=case, runs=arguments.runs)
            seconds[case] = {name: [] for name in workers}
            for _ in range(arguments.rounds):
                for name, worker in workers.items():
                    answer = worker.ask(do="time", case=case, runs=arguments.runs)
                    seconds[case][name] += answer["seconds"]
            result["microseconds"][case] = {
                name: 1e6 * statistics.median(values) for name, values in seconds[case].items()
            }
            if arguments.profile:
                result["profile"][case] = workers["paddle_ipu"].ask(
                    do="profile", case=case, runs=2000, lines=arguments.profile
                )["profile"]
    finally:
        for worker in workers.values():
            worker.close()
    return result


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    if arguments.worker:
        serve(_Engine(arguments.worker))
        return 0
    isa.cap(arguments.isa)
    result = _run(arguments)
    print(isa.description(arguments.isa))
    print("| program | " + " | ".join(_TITLES.values()) + " | to Paddle |")
    print("|" + " --- |" * (len(_TITLES) + 2))
    for case, medians in result["microseconds"].items():
        cells = [f"{medians[name]:.1f}" for name in _TITLES]
        cells.append(f"{medians['paddle_ipu'] / medians['paddle']:.2f}")
        print(f"| {case} | " + " | ".join(cells) + " |")
    for case, profile in result["profile"].items():
        print(f"\n{case}, 2000 runs\n{profile}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Times 1, 2 and 4 instances of a small BERT under poprun, beside hand-written JAX under mpirun.

Each instance has one replica and a batch of its own. All launches of a number of instances live at
the same time and take turns, a block of steps each. Then 4 instances start with a cold and with a
warm executable cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import isa
import numpy as np
from bert_config import Config, make_batch

TINY = Config(
    batch=8, layers=4, hidden=128, sequence=64, predictions=10, vocabulary=4000, positions=64
)
ENGINES = ("paddle_ipu", "jax")
TOLERANCE = 1e-4
BOUND = 1.05
FIRST_STEP = 15.0
_KEY = b"scaling"
Answer = dict[str, Any]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(
            "Time training steps of a small BERT in 1, 2 and 4 processes that join their "
            "gradients: paddle_ipu under poprun, and hand-written JAX (jax.distributed, shard_map, "
            "pmean) under mpirun, which take turns. Then time the start of 4 instances."
        ),
        epilog=(
            "The exit status is 1 where losses differ by more than "
            f"{TOLERANCE:g} relative, a step takes more than {BOUND:g} of JAX's, 4 instances with "
            f"a warm cache take more than {FIRST_STEP:g} s to their first step, or more than one "
            "compiles with a cold one."
        ),
    )
    add = parser.add_argument
    add("--instances", default="1,2,4", help="numbers of instances (default 1,2,4; '' for none)")
    add("--blocks", type=int, default=10, help="turns of each engine (default 10)")
    add("--steps", type=int, default=10, help="steps in a turn (default 10)")
    add("--no-start", action="store_true", help="leave out the start of 4 instances")
    isa.add_argument(parser)
    add("--json", metavar="FILE", help="write every number to FILE")
    add("--worker", nargs=3, metavar=("ENGINE", "ADDRESS", "COORDINATOR"), help=argparse.SUPPRESS)
    return parser.parse_args()


# -- in an instance -----------------------------------------------------------------------------


def _serve(engine: str, address: str, coordinator: str) -> None:
    """Answers the benchmark's requests until it hangs up."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    connection = Client(address, "AF_UNIX", authkey=_KEY)
    batch = make_batch(TINY)
    # Every process has other rows.
    batch["tokens"] = (batch["tokens"] + 7 * rank) % TINY.vocabulary
    if engine == "jax":
        import scaling_jax

        mesh = scaling_jax.connect(coordinator)
        step, found = scaling_jax.prepare(TINY, batch, mesh)
    else:
        import scaling_program

        step, found = scaling_program.prepare(TINY, batch)
    loss = step()
    connection.send({"rank": rank, "loss": loss, "cpu": time.process_time(), **found})
    together: Callable[[], None] | None = None
    while True:
        try:
            what, count = connection.recv()
        except EOFError:
            return
        if what == "collective" and together is None:
            if engine == "jax":
                together = scaling_jax.collective(TINY, mesh)
            else:
                together = scaling_program.collective(TINY)
            together()
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            if what == "collective":
                together()
            else:
                loss = step()
        connection.send(
            {
                "seconds": (time.perf_counter() - start) / count,
                "cpu": (time.process_time() - cpu) / count,
                "loss": loss,
            }
        )


# -- in the benchmark ---------------------------------------------------------------------------


class Launch:
    """So many instances of an engine, which wait for requests.

    Args:
        engine: ``paddle_ipu`` under poprun, or ``jax`` under mpirun.
        count: instances.
        folder: for the socket.
        cache: of poprun's executables; "" for none.
    """

    def __init__(self, engine: str, count: int, folder: Path, cache: str = "") -> None:
        self.engine, self.count = engine, count
        address = str(folder / f"{engine}-{count}-{time.monotonic_ns()}")
        listener = Listener(address, "AF_UNIX", backlog=count, authkey=_KEY)
        worker = [sys.executable, __file__, "--worker", engine, address, _free_address()]
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            _command(engine, count, cache) + worker, env=_environment(), stdin=subprocess.DEVNULL
        )
        self._instances = [listener.accept() for _ in range(count)]
        listener.close()
        self.first = self._answers()
        self.started = time.monotonic() - self._began

    def _answers(self) -> list[Answer]:
        return [instance.recv() for instance in self._instances]

    def ask(self, what: str, count: int) -> Answer:
        """A block: seconds a step of the slowest, processor seconds of all, mean loss."""
        for instance in self._instances:
            instance.send((what, count))
        answers = self._answers()
        return {
            "seconds": max(answer["seconds"] for answer in answers),
            "cpu": sum(answer["cpu"] for answer in answers),
            "loss": statistics.fmean(answer["loss"] for answer in answers),
        }

    def close(self) -> None:
        """Lets the instances end."""
        for instance in self._instances:
            instance.close()
        self._process.wait(timeout=60)


def _command(engine: str, count: int, cache: str) -> list[str]:
    if engine == "paddle_ipu":
        launcher = [sys.executable, "-m", "paddle_ipu.distributed.poprun", "--offline-mode=yes"]
        path = f"--executable-cache-path={cache}"
        return [*launcher, f"--num-instances={count}", f"--num-replicas={count}", path]
    from paddle_ipu.distributed.poprun import find_mpirun

    # As poprun places them.
    placement = ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
    return [find_mpirun(os.environ), *placement, "-np", str(count)]


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parent.parent)
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **allowed, "PYTHONPATH": os.pathsep.join(paths)}


def _free_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def _time(count: int, blocks: int, steps: int, folder: Path) -> dict[str, Any]:
    """Engine -> median seconds of a step and of its collective, and losses; ratios of blocks."""
    _say(f"{count} instances: preparing")
    launches = [Launch(engine, count, folder) for engine in ENGINES]
    found: dict[str, Any] = {engine: {"steps": [], "collectives": []} for engine in ENGINES}
    try:
        for turn in range(blocks + 1):
            # Who is first takes turns, too.
            for launch in launches if turn % 2 else reversed(launches):
                answer = launch.ask("step", steps)
                _say(f"{count} instances: {launch.engine}: {answer['seconds'] * 1e3:.1f} ms a step")
                if turn:
                    found[launch.engine]["steps"].append(answer)
                if count > 1 and turn:
                    answer = launch.ask("collective", steps)
                    found[launch.engine]["collectives"].append(answer)
    finally:
        for launch in launches:
            launch.close()
    for engine in ENGINES:
        for kind in ("steps", "collectives"):
            for what in ("seconds", "cpu"):
                numbers = [answer[what] for answer in found[engine][kind]]
                found[engine][f"{kind} {what}"] = statistics.median(numbers) if numbers else 0.0
    ours, theirs = (found[engine]["steps"] for engine in ENGINES)
    pairs = list(zip(ours, theirs, strict=True))
    found["ratio"] = statistics.median(a["seconds"] / b["seconds"] for a, b in pairs)
    found["cpu ratio"] = statistics.median(a["cpu"] / b["cpu"] for a, b in pairs)
    found["loss difference"] = max(abs(a["loss"] / b["loss"] - 1) for a, b in pairs)
    return found


def _start(folder: Path) -> list[dict[str, Any]]:
    """Four instances with a cold and with a warm cache: seconds to the first step, who compiled."""
    cache = folder / "cache"
    found = []
    for name in ("cold", "warm"):
        _say(f"4 instances, {name} cache")
        launch = Launch("paddle_ipu", 4, folder, str(cache))
        origins = Counter(answer["origin"] for answer in launch.first)
        launch.close()
        cpu = sum(answer["cpu"] for answer in launch.first)
        found.append(
            {"cache": name, "first step": launch.started, "cpu": cpu, "origins": dict(origins)}
        )
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _table(results: dict[int, dict[str, Any]]) -> str:
    rows = [
        "instances | paddle_ipu ms | JAX ms | to JAX | CPU to JAX | samples/s | collective ms | "
        "share of a step | JAX's ms | its share".split(" | ")
    ]
    for count, found in results.items():
        ours, theirs = (found[engine] for engine in ENGINES)

        def share(engine: dict[str, Any]) -> list[str]:
            if not engine["collectives"]:
                return ["-", "-"]
            part = engine["collectives seconds"]
            return [f"{part * 1e3:.1f}", f"{part / engine['steps seconds']:.0%}"]

        rows.append(
            [
                str(count),
                f"{ours['steps seconds'] * 1e3:.1f}",
                f"{theirs['steps seconds'] * 1e3:.1f}",
                f"{found['ratio']:.2f}",
                f"{found['cpu ratio']:.2f}",
                f"{count * TINY.batch / ours['steps seconds']:.0f}",
                *share(ours),
                *share(theirs),
            ]
        )
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def _failures(results: dict[int, dict[str, Any]], starts: list[dict[str, Any]]) -> list[str]:
    told = []
    for count, found in results.items():
        if not found["loss difference"] <= TOLERANCE:
            told.append(f"{count} instances: losses differ by {found['loss difference']:.1e}")
        if found["ratio"] > BOUND:
            told.append(f"{count} instances: a step takes {found['ratio']:.2f} of JAX's")
    for start in starts:
        compiled = start["origins"].get("compiled", 0)
        expected = 1 if start["cache"] == "cold" else 0
        if compiled != expected:
            told.append(f"{start['cache']} cache: {compiled} of 4 instances compiled")
        if start["cache"] == "warm" and start["first step"] > FIRST_STEP:
            told.append(f"warm cache: {start['first step']:.1f} s to the first step")
    return told


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    if arguments.worker:
        _serve(*arguments.worker)
        return 0
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa))
    folder = Path(tempfile.mkdtemp(prefix="scaling-"))
    try:
        counts = [int(text) for text in arguments.instances.split(",") if text]
        results = {n: _time(n, arguments.blocks, arguments.steps, folder) for n in counts}
        starts = [] if arguments.no_start else _start(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    load = os.getloadavg()[0]
    if results:
        print(f"\n{os.cpu_count()} processors, load {load:.1f} at the end:\n\n{_table(results)}\n")
    for start in starts:
        origins = ", ".join(f"{n} {name}" for name, n in sorted(start["origins"].items()))
        seconds = f"{start['first step']:.1f} s to the first step of all"
        print(
            f"4 instances, {start['cache']} cache: {seconds}, {start['cpu']:.1f} s of processors; "
            f"{origins}"
        )
    if arguments.json:
        written = {"config": {"parameters": _parameters()}, "results": results, "starts": starts}
        Path(arguments.json).write_text(json.dumps(written, indent=1), encoding="utf-8")
    told = _failures(results, starts)
    print("\n".join(told), end="\n" if told else "")
    return 1 if told else 0


def _parameters() -> int:
    from bert_config import shapes

    return int(sum(np.prod(shape) for shape in shapes(TINY).values()))


if __name__ == "__main__":
    sys.exit(main())

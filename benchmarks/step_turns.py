"""One training step on several engines, each in a process of its own, that take turns.

A benchmark says what is measured, :class:`Benchmark`; its engines give a :class:`Prepared`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import isa
from peers import present
from worker import DISTURBED, MOST_TURNS, Answer, Worker, serve

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# glibc keeps freed memory, which paddle_ipu arranges by itself.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
}
PLAIN_PADDLE = {"PADDLE_IPU_AUTOLOAD": "0"}
CACHED = ("paddle_ipu", "jax", "jax-tuned")
"""The engines that can keep on disk what they compile."""

_PEAK_SIZE = 2048


@dataclass(frozen=True, slots=True)
class Prepared:
    """An engine that is ready.

    Attributes:
        step: makes one step and returns its loss.
        times: seconds by phase of what was done before.
        temporaries: bytes of a step's temporaries, where the engine knows.
    """

    step: Callable[[], float]
    times: Mapping[str, float]
    temporaries: int | None = None


Preparing = Callable[[Any, str | None], Prepared]
"""Of a config, and a folder that keeps what is compiled, or None."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured.

    Attributes:
        script: the program's file; with ``--worker ENGINE`` it serves an engine.
        sizes: the fields of the config that its command line sets.
        engines: by name, a title and variables of the environment.
        load: imports what an engine of a name needs.
        flops: the floating-point operations of a step's products, of a config.
        tolerance: of losses, relative.
        products: what `flops` counts, in words.
    """

    script: str
    sizes: Sequence[str]
    engines: Mapping[str, tuple[str, Mapping[str, str]]]
    load: Callable[[str], Preparing]
    flops: Callable[[Any], int]
    tolerance: float
    products: str = "matrix products"


def arguments_of(
    parser: argparse.ArgumentParser, benchmark: Benchmark, default: DataclassInstance
) -> argparse.Namespace:
    """Adds what all benchmarks have, and reads the command line."""
    parser.add_argument("--steps", type=int, default=7, help="timed steps (default 7)")
    parser.add_argument("--warmup", type=int, default=1, help="steps before them (default 1)")
    for name in benchmark.sizes:
        value = getattr(default, name)
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    known = [*benchmark.engines]
    parser.add_argument(
        "--only",
        default=",".join(known),
        metavar="ENGINES",
        help="engines, separated by commas, out of " + ", ".join(known),
    )
    parser.add_argument(
        "--undisturbed",
        action="store_true",
        help=(
            "on a shared machine: count only steps during which other processes used less than "
            f"{100 * DISTURBED:.0f} %% of the processors, and make up to {MOST_TURNS} times "
            "--steps to get them (Linux)"
        ),
    )
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    parser.add_argument("--worker", choices=[*known, "peak"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in known]
    if unknown:
        parser.error(f"--only: unknown engine {', '.join(unknown)}; choose from {known}")
    if arguments.steps < 1 or arguments.warmup < 0:
        parser.error("--steps must be at least 1 and --warmup at least 0")
    return arguments


# -- in a worker --------------------------------------------------------------------------------


class _Engine:
    """Answers ``prepare`` and ``step``."""

    def __init__(self, benchmark: Benchmark, name: str, config: DataclassInstance) -> None:
        self._load, self._name, self._config = benchmark.load, name, config
        self._step: Callable[[], float] | None = None

    def __call__(self, do: str, cache_path: str | None = None) -> Answer:
        if do == "prepare":
            start = time.perf_counter()
            prepare = self._load(self._name)
            imported = time.perf_counter() - start
            prepared = prepare(self._config, cache_path)
            self._step = prepared.step
            times = {"import": imported, **prepared.times}
            return {"times": times, "temporaries": prepared.temporaries, **_about()}
        start, cpu = time.perf_counter(), time.process_time()
        loss = self._step()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "loss": loss}


def _about() -> Answer:
    """Versions and devices, of what this process has imported."""
    modules = ("paddle", "jax", "torch", "numpy")
    found: Answer = {
        "versions": {m: str(sys.modules[m].__version__) for m in modules if m in sys.modules}
    }
    if "jax" in sys.modules:
        import jax

        found["devices"] = [f"{d.platform}:{d.device_kind}" for d in jax.devices()]
    return found


def _measure_peak(do: str) -> Answer:
    """GFLOP/s of a 2048 x 2048 x 2048 float32 product, the best of ten, in JAX and in NumPy."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def best(multiply: Callable[[], object]) -> float:
        seconds = []
        for _ in range(10):
            start = time.perf_counter()
            multiply()
            seconds.append(time.perf_counter() - start)
        return 2e-9 * _PEAK_SIZE**3 / min(seconds)

    a = np.random.default_rng(0).standard_normal((_PEAK_SIZE, _PEAK_SIZE), np.float32)
    on_device = jnp.asarray(a)
    precision = None if jax.default_backend() == "cpu" else "highest"
    product = jax.jit(lambda x, y: jnp.matmul(x, y, precision=precision))
    rates = {
        "jax": best(lambda: product(on_device, on_device).block_until_ready()),
        "numpy": best(lambda: a @ a),
    }
    return {"gflops": rates, **_about()}


# -- in the benchmark ---------------------------------------------------------------------------


def _run(
    benchmark: Benchmark, config: DataclassInstance, names: Sequence[str], given: argparse.Namespace
) -> dict[str, Any]:
    warmup, steps, undisturbed = given.warmup, given.steps, given.undisturbed
    command = [f"--{name}={getattr(config, name)}" for name in benchmark.sizes]

    def start(name: str, settings: Mapping[str, str]) -> Worker:
        return Worker(os.path.abspath(benchmark.script), [*command, "--worker", name], settings)

    def peak() -> Answer:
        worker = start("peak", {})
        try:
            return worker.ask(do="measure")
        finally:
            worker.close()

    workers: dict[str, Worker] = {}
    engines: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: os.path.join(folder, name) for name in CACHED}
        try:
            before = peak()
            for name in names:
                _say(f"{name}: preparing")
                workers[name] = start(name, benchmark.engines[name][1])
                prepared = workers[name].ask(do="prepare", cache_path=caches.get(name))
                engines[name] = {**prepared, "steps": []}
            for turn in range(warmup + steps * (MOST_TURNS if undisturbed else 1)):
                for name in names:
                    if len(_counted(engines[name])) >= steps:
                        continue
                    answer = workers[name].ask(do="step")
                    answer["counts"] = turn >= warmup and (
                        not undisturbed or answer["others"] < DISTURBED
                    )
                    _say(
                        f"{name}: step {turn}: {answer['seconds']:.3f} s, "
                        f"loss {answer['loss']:.6f}, other processes {answer['others']:.0%}"
                    )
                    engines[name]["steps"].append(answer)
                    # Idle threads of Paddle's OpenMP spin for 0.2 s.
                    time.sleep(0.3)
        finally:
            for worker in workers.values():
                worker.close()
        for name in names:
            if name in CACHED:
                _say(f"{name}: preparing again, with the cache filled")
                again = start(name, benchmark.engines[name][1])
                try:
                    engines[name]["times_cached"] = again.ask(
                        do="prepare", cache_path=caches[name]
                    )["times"]
                finally:
                    again.close()
    after = peak()
    return {
        "machine": isa.description(given.isa),
        "config": asdict(config),
        "undisturbed": undisturbed,
        "gflop_per_step": benchmark.flops(config) / 1e9,
        "peak_gflops": {
            library: max(rate, after["gflops"][library])
            for library, rate in before["gflops"].items()
        },
        "devices": before["devices"],
        "versions": before["versions"] | {
            k: v for engine in engines.values() for k, v in engine["versions"].items()
        },
        "engines": engines,
    }  # fmt: skip


def _counted(engine: Answer) -> list[Answer]:
    """The timed steps of an engine."""
    return [step for step in engine["steps"] if step["counts"]]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _table(benchmark: Benchmark, result: dict[str, Any]) -> str:
    engines = result["engines"]
    medians = {
        name: statistics.median(step["seconds"] for step in _counted(engine))
        for name, engine in engines.items()
    }
    theirs = [seconds for name, seconds in medians.items() if name != "paddle_ipu"]
    peak = max(result["peak_gflops"].values())

    def against(name: str, other: str) -> str:
        return f"{medians[name] / medians[other]:.3f}" if other in medians else "-"

    rows = [
        "engine | steps | median s | min | max | CPU s | to the best peer | to JAX | to Paddle | "
        "share of peak | import s | build s | compile s | its CPU s | cached s | its CPU s | "
        "temporaries GB | peak GB".split(" | ")
    ]
    for name, engine in engines.items():
        counted, times = _counted(engine), engine["times"]
        seconds = [step["seconds"] for step in counted]
        share = result["gflop_per_step"] / medians[name] / peak
        rows.append([
            isa.marked(benchmark.engines[name][0], engine["steps"][-1]["avx512"]),
            str(len(counted)),
            f"{medians[name]:.3f}",
            f"{min(seconds):.3f}",
            f"{max(seconds):.3f}",
            f"{statistics.median(step['cpu_seconds'] for step in counted):.2f}",
            f"{medians[name] / min(theirs):.3f}" if theirs else "-",
            against(name, "jax"),
            against(name, "paddle"),
            f"{100 * share:.0f} %",
            f"{times['import']:.1f}",
            f"{times['build']:.1f}" if "build" in times else "-",
            *(
                f"{phases[phase]:.2f}" if phase in phases else "-"
                for phases in (times, engine.get("times_cached", {}))
                for phase in ("compile", "compile CPU")
            ),
            "-" if (size := engine["temporaries"]) is None else f"{size / 1e9:.2f}",
            f"{engine['steps'][-1]['peak_bytes'] / 1e9:.2f}",
        ])  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def _phases(result: dict[str, Any]) -> str:
    lines = []
    for name, engine in result["engines"].items():
        for which in ("times", "times_cached"):
            known = {k: v for k, v in engine.get(which, {}).items() if v >= 0.005}
            if known:
                phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in known.items())
                lines.append(f"{name}{' (cached)' if which != 'times' else ''}: {phases}")
    return "\n".join(lines)


def _differences(result: dict[str, Any]) -> tuple[str, float]:
    """(each engine's losses against the first engine's, the largest relative difference)."""
    engines = result["engines"]
    first, *others = engines
    losses = {n: [step["loss"] for step in engine["steps"]] for n, engine in engines.items()}
    reference = losses[first]
    lines = [f"losses of {first}: " + " ".join(f"{loss:.6f}" for loss in reference)]
    largest = 0.0
    for name in others:
        # An engine that was disturbed more has made more steps.
        relative = [abs(a - b) / abs(b) for a, b in zip(losses[name], reference, strict=False)]
        # A loss that is no number differs from every number.
        largest = max([largest, *(d if d == d else float("inf") for d in relative)])
        text = " ".join(f"{difference:.1e}" for difference in relative)
        lines.append(f"  {name} differs, relative, by {text}")
    return "\n".join(lines), largest


def main(benchmark: Benchmark, config: DataclassInstance, arguments: argparse.Namespace) -> int:
    """Runs a benchmark, or serves one of its engines; returns the exit status."""
    if arguments.worker == "peak":
        serve(_measure_peak)
        return 0
    if arguments.worker:
        serve(_Engine(benchmark, arguments.worker, config))
        return 0
    isa.cap(arguments.isa)
    result = _run(benchmark, config, present(arguments.only.split(",")), arguments)
    few = [n for n, engine in result["engines"].items() if len(_counted(engine)) == 0]
    if few:
        print(f"no undisturbed step of {', '.join(few)}: the machine is too busy to measure")
        return 1
    differences, largest = _differences(result)
    rates = ", ".join(f"{rate:.0f} in {name}" for name, rate in result["peak_gflops"].items())
    print(
        f"{result['machine']}{config}\n"
        f"{result['gflop_per_step']:.0f} GFLOP in the {benchmark.products} of a step; "
        f"sgemm {_PEAK_SIZE}^3 GFLOP/s: {rates}; share of peak is of the greater\n"
        f"JAX devices: {', '.join(result['devices'])}; versions: {result['versions']}\n\n"
        f"{_table(benchmark, result)}\n\nSeconds by phase\n{_phases(result)}\n\n{differences}"
    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    if largest > benchmark.tolerance:
        print(f"losses differ by {largest:.1e} relative, more than {benchmark.tolerance:.0e}")
        return 1
    return 0

"""Times one training step of BERT on the IPU Model, in JAX, torch and on Paddle's CPU executor.

The engines run in processes of their own, one step at a time and in turns, from the same weights
on the same batch. Their losses must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import isa
from bert_config import Config, step_flops
from peers import present
from worker import DISTURBED, MOST_TURNS, Answer, Worker, serve

TUNED = {"OMP_NUM_THREADS": "2", "MKL_DEBUG_CPU_TYPE": "5", "FLAGS_new_executor_serial_run": "1"}
# glibc keeps freed memory, which paddle_ipu arranges by itself.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
}
PLAIN_PADDLE = {"PADDLE_IPU_AUTOLOAD": "0"}
ENGINES: dict[str, tuple[str, dict[str, str]]] = {
    "paddle_ipu": ("paddle_ipu: IpuCompiledProgram", {}),
    "jax": ("JAX, written by hand", {}),
    "jax-tuned": ("JAX, freed memory kept", KEPT_MEMORY),
    "paddle": ("Paddle's CPU executor, default", PLAIN_PADDLE),
    "paddle-tuned": ("Paddle's CPU executor, tuned", PLAIN_PADDLE | TUNED),
    "torch": ("torch, eager", {}),
}
CACHED = ("paddle_ipu", "jax", "jax-tuned")
TOLERANCE = 1e-4
_PEAK_SIZE = 2048


def _arguments() -> argparse.Namespace:
    default = Config()
    parser = argparse.ArgumentParser(
        description=(
            "Time one training step of BERT (forward, backward, Adam; fp32, no dropout) on "
            "paddle_ipu's IPU Model, in hand-written JAX, on Paddle's CPU executor with its "
            "defaults and tuned, and in eager torch where that is installed. The engines take "
            "turns in one run; their losses must agree."
        ),
        epilog=(
            "Quick trial: --layers 2 --hidden 128 --sequence 32 --vocabulary 1000 --steps 3. The "
            "exit status is 1 where losses differ by more than 1e-4 relative. Where jax[cuda] is "
            "installed, paddle_ipu, the two JAX engines and JAX's sgemm peak run on the GPU, with "
            "float32 products not rounded to TF32; the other engines and NumPy's peak stay on the "
            "CPU, peak GB is the host's memory, and what keeps freed memory is for the CPU. "
            "JAX_PLATFORMS=cpu keeps all on the CPU. Tuned Paddle is "
            + " ".join(f"{k}={v}" for k, v in TUNED.items())
            + ", tuned JAX "
            + " ".join(f"{k}={v}" for k, v in KEPT_MEMORY.items())
            + "."
        ),
    )
    parser.add_argument("--steps", type=int, default=7, help="timed steps (default 7)")
    parser.add_argument("--warmup", type=int, default=1, help="steps before them (default 1)")
    for name in ("batch", "layers", "hidden", "sequence", "predictions", "vocabulary"):
        value = getattr(default, name)
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument(
        "--only",
        default=",".join(ENGINES),
        metavar="ENGINES",
        help="engines, separated by commas, out of " + ", ".join(ENGINES),
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
    parser.add_argument("--worker", choices=[*ENGINES, "peak"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in ENGINES]
    if unknown:
        parser.error(f"--only: unknown engine {', '.join(unknown)}; choose from {list(ENGINES)}")
    if arguments.steps < 1 or arguments.warmup < 0:
        parser.error("--steps must be at least 1 and --warmup at least 0")
    if arguments.hidden % 64:
        parser.error(f"--hidden must be a multiple of 64, the width of a head: {arguments.hidden}")
    if arguments.predictions > arguments.sequence:
        parser.error(
            f"--predictions must be at most --sequence: {arguments.predictions} masked positions "
            f"in {arguments.sequence}"
        )
    return arguments


def _config(arguments: argparse.Namespace) -> Config:
    names = ("batch", "layers", "hidden", "sequence", "predictions", "vocabulary")
    return Config(**{name: getattr(arguments, name) for name in names})


# -- in a worker --------------------------------------------------------------------------------


class _Engine:
    """Answers ``prepare`` and ``step``."""

    def __init__(self, name: str, config: Config) -> None:
        self._name = name
        self._config = config
        self._step: Callable[[], float] | None = None

    def __call__(self, do: str, cache_path: str | None = None) -> Answer:
        if do == "prepare":
            return self._prepare(cache_path)
        start, cpu = time.perf_counter(), time.process_time()
        loss = self._step()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "loss": loss}

    def _prepare(self, cache_path: str | None) -> Answer:
        start = time.perf_counter()
        if self._name.startswith("jax"):
            import bert_jax

            imported = time.perf_counter()
            self._step, times = bert_jax.prepare(self._config, cache_path)
        elif self._name == "torch":
            import bert_torch

            imported = time.perf_counter()
            self._step, times = bert_torch.prepare(self._config)
        else:
            import bert_program

            imported = time.perf_counter()
            on_ipu = self._name == "paddle_ipu"
            self._step, times = bert_program.prepare(self._config, on_ipu, cache_path)
        return {"times": {"import": imported - start, **times}, **_about()}


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
    config: Config,
    names: Sequence[str],
    warmup: int,
    steps: int,
    undisturbed: bool,
    level: str | None,
) -> dict[str, Any]:
    command = [f"--{key}={value}" for key, value in asdict(config).items() if key != "positions"]

    def start(name: str, settings: dict[str, str]) -> Worker:
        return Worker(os.path.abspath(__file__), [*command, "--worker", name], settings)

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
                workers[name] = start(name, ENGINES[name][1])
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
                again = start(name, ENGINES[name][1])
                try:
                    engines[name]["times_cached"] = again.ask(
                        do="prepare", cache_path=caches[name]
                    )["times"]
                finally:
                    again.close()
    after = peak()
    return {
        "machine": isa.description(level),
        "config": asdict(config),
        "undisturbed": undisturbed,
        "gflop_per_step": step_flops(config) / 1e9,
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


def _table(result: dict[str, Any]) -> str:
    engines = result["engines"]
    medians = {
        name: statistics.median(step["seconds"] for step in _counted(engine))
        for name, engine in engines.items()
    }
    peak = max(result["peak_gflops"].values())

    def against(name: str, other: str) -> str:
        return f"{medians[name] / medians[other]:.3f}" if other in medians else "-"

    rows = [
        "engine | steps | median s | min | max | CPU s | to JAX | to Paddle | share of peak | "
        "import s | build s | compile s | its CPU s | cached s | its CPU s | peak GB".split(" | ")
    ]
    for name, engine in engines.items():
        counted, times = _counted(engine), engine["times"]
        seconds = [step["seconds"] for step in counted]
        share = result["gflop_per_step"] / medians[name] / peak
        rows.append([
            isa.marked(ENGINES[name][0], engine["steps"][-1]["avx512"]),
            str(len(counted)),
            f"{medians[name]:.3f}",
            f"{min(seconds):.3f}",
            f"{max(seconds):.3f}",
            f"{statistics.median(step['cpu_seconds'] for step in counted):.2f}",
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


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    config = _config(arguments)
    if arguments.worker == "peak":
        serve(_measure_peak)
        return 0
    if arguments.worker:
        serve(_Engine(arguments.worker, config))
        return 0
    isa.cap(arguments.isa)
    result = _run(
        config,
        present(arguments.only.split(",")),
        arguments.warmup,
        arguments.steps,
        arguments.undisturbed,
        arguments.isa,
    )
    few = [n for n, engine in result["engines"].items() if len(_counted(engine)) == 0]
    if few:
        print(f"no undisturbed step of {', '.join(few)}: the machine is too busy to measure")
        return 1
    differences, largest = _differences(result)
    rates = ", ".join(f"{rate:.0f} in {name}" for name, rate in result["peak_gflops"].items())
    print(
        f"{result['machine']}{config}\n"
        f"{result['gflop_per_step']:.0f} GFLOP in the matrix products of a step; "
        f"sgemm {_PEAK_SIZE}^3 GFLOP/s: {rates}; share of peak is of the greater\n"
        f"JAX devices: {', '.join(result['devices'])}; versions: {result['versions']}\n\n"
        f"{_table(result)}\n\nSeconds by phase\n{_phases(result)}\n\n{differences}"
    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    if largest > TOLERANCE:
        print(f"losses differ by {largest:.1e} relative, more than {TOLERANCE:.0e}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

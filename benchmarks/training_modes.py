"""Times ways to train a small BERT: accumulation, pipelining, replicas, recomputation, precision.

Each mode runs on the IPU Model, in hand-written JAX and, where it can do the work, on Paddle's CPU
executor; the engines of a group of modes take turns in one run, from the same weights on the same
rows. fp16 of BERT-Base is timed against its fp32 at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import isa
from bert_config import Config
from training_mode import GROUPS, Mode
from worker import Answer, Worker, serve

TINY = Config(
    batch=8, layers=4, hidden=128, sequence=64, predictions=10, vocabulary=4000, positions=64
)
# Its activations are most of what a step keeps.
DEEP = replace(TINY, layers=8, batch=32)
BASE = Config()
BASE_GROUP = "BERT-Base"
BASE_MODES = {name: Mode(precision=name) for name in ("fp32", "fp16", "bf16")}
ENGINES: Mapping[str, tuple[str, dict[str, str]]] = {
    "paddle_ipu": ("paddle_ipu", {}),
    "jax": ("JAX", {}),
    "paddle": ("Paddle", {"PADDLE_IPU_AUTOLOAD": "0"}),
}
# Relative, of losses against those of a group's first mode; half losses have three digits.
TOLERANCES = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-1}


def _arguments() -> argparse.Namespace:
    groups = [*GROUPS, BASE_GROUP]
    parser = argparse.ArgumentParser(
        description=(
            "Time ways to train BERT: gradient accumulation, pipelining, replicas in one process, "
            "recomputation, fp16 and bf16. Each runs on the IPU Model, in hand-written JAX and, in "
            "fp32, on Paddle's CPU executor, which gets the rows of a step as one batch. Engines "
            "and modes of a group take turns."
        ),
        epilog=(
            "The exit status is 1 where an engine fails, or its loss differs from that of the "
            "first engine in the group's first mode by more than "
            + ", ".join(f"{value:g} ({name})" for name, value in TOLERANCES.items())
            + " relative."
        ),
    )
    parser.add_argument("--steps", type=int, default=5, help="timed steps (default 5)")
    parser.add_argument("--warmup", type=int, default=1, help="steps before them (default 1)")
    parser.add_argument(
        "--only",
        default=",".join(groups),
        metavar="GROUPS",
        help="groups, separated by commas, out of " + ", ".join(groups),
    )
    parser.add_argument(
        "--engines",
        default=",".join(ENGINES),
        help="engines, separated by commas, out of " + ", ".join(ENGINES),
    )
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    parser.add_argument("--worker", nargs=3, metavar=("ENGINE", "GROUP", "MODE"),
                        help=argparse.SUPPRESS)  # fmt: skip
    arguments = parser.parse_args()
    for option, known in (("only", groups), ("engines", list(ENGINES))):
        unknown = [name for name in getattr(arguments, option).split(",") if name not in known]
        if unknown:
            parser.error(f"--{option}: unknown {', '.join(unknown)}; choose from {known}")
    if arguments.steps < 1 or arguments.warmup < 0:
        parser.error("--steps must be at least 1 and --warmup at least 0")
    return arguments


def _modes(group: str) -> Mapping[str, Mode]:
    return BASE_MODES if group == BASE_GROUP else GROUPS[group]


def _config(group: str) -> Config:
    return {BASE_GROUP: BASE, "recomputation": DEEP}.get(group, TINY)


# -- in a worker --------------------------------------------------------------------------------


class _Engine:
    """Answers ``prepare`` and ``step``."""

    def __init__(self, engine: str, config: Config, mode: Mode) -> None:
        self._engine, self._config, self._mode = engine, config, mode
        self._step: Callable[[], float] | None = None

    def __call__(self, do: str) -> Answer:
        if do == "prepare":
            if self._engine == "jax":
                import modes_jax

                self._step, found = modes_jax.prepare(self._config, self._mode)
            else:
                import modes_program

                on_ipu = self._engine == "paddle_ipu"
                self._step, found = modes_program.prepare(self._config, self._mode, on_ipu)
            return found
        start, cpu = time.perf_counter(), time.process_time()
        loss = self._step()
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
            "loss": loss,
        }


# -- in the benchmark ---------------------------------------------------------------------------


def _can(engine: str, group: str, mode: Mode) -> bool:
    """Whether the engine can do a mode's work; Paddle's has no half and keeps all activations."""
    if engine != "paddle":
        return True
    return mode.precision == "fp32" and not mode.recompute


def _run(
    group: str, engines: list[str], warmup: int, steps: int
) -> tuple[dict[str, Any], list[str]]:
    """(Mode -> engine -> what its worker said, with its steps; what failed)."""
    found: dict[str, Any] = {name: {} for name in _modes(group)}
    workers: dict[tuple[str, str], Worker] = {}
    failed = []

    def ask(name: str, engine: str, do: str) -> Answer | None:
        """The answer; None where the engine failed, which the others do not wait for."""
        try:
            return workers[name, engine].ask(do=do)
        except RuntimeError as error:
            failed.append(f"{group}: {name}: {engine}: {error}")
            workers.pop((name, engine)).close()
            found[name].pop(engine, None)
            return None

    try:
        for name, mode in _modes(group).items():
            for engine in engines:
                if not _can(engine, group, mode):
                    continue
                _say(f"{group}: {name}: {engine}: preparing")
                workers[name, engine] = Worker(
                    os.path.abspath(__file__), ["--worker", engine, group, name], ENGINES[engine][1]
                )
                prepared = ask(name, engine, "prepare")
                if prepared is not None:
                    found[name][engine] = {**prepared, "steps": []}
        for turn in range(warmup + steps):
            for name, engine in list(workers):
                answer = ask(name, engine, "step")
                if answer is None:
                    continue
                found[name][engine]["peak_bytes"] = answer["peak_bytes"]
                found[name][engine]["steps"].append(answer)
                _say(
                    f"{group}: {name}: {engine}: step {turn}: {answer['seconds']:.4f} s, "
                    f"loss {answer['loss']:.6f}"
                )
                # Idle threads of Paddle's OpenMP spin for 0.2 s.
                if engine == "paddle":
                    time.sleep(0.3)
    finally:
        for worker in workers.values():
            worker.close()
    for engine_of in found.values():
        for engine in engine_of.values():
            timed = [step["seconds"] for step in engine["steps"][warmup:]]
            engine["median"] = statistics.median(timed)
    return found, failed


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _title(group: str) -> str:
    config = _config(group)
    return (
        f"{group}: {config.layers} layers of {config.hidden}, sequence {config.sequence}, "
        f"vocabulary {config.vocabulary}, micro-batches of {config.batch}:"
    )


def _table(group: str, found: dict[str, Any]) -> str:
    """One row a mode: time of a sample, ratios, memory."""
    config, modes = _config(group), _modes(group)
    first = next(iter(modes))
    rows = [
        "mode | ms a sample | to the first | JAX ms | to JAX | Paddle ms | to Paddle | "
        "temporaries MB | JAX MB | peak GB | JAX GB".split(" | ")
    ]

    def per_sample(name: str, engine: str) -> float | None:
        if engine not in found[name]:
            return None
        samples = config.batch * modes[name].micro_batches
        return float(found[name][engine]["median"]) / samples * 1e3

    def ratio(value: float | None, other: float | None) -> str:
        return "-" if value is None or other is None else f"{value / other:.2f}"

    def number(value: float | None, digits: int = 3) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    for name in modes:
        ours, jax, paddle = (per_sample(name, engine) for engine in ENGINES)
        memory = [
            found[name].get(engine, {}).get(what)
            for what in ("temporaries", "peak_bytes")
            for engine in ("paddle_ipu", "jax")
        ]
        rows.append([
            name,
            number(ours),
            ratio(ours, per_sample(first, "paddle_ipu")),
            number(jax),
            ratio(ours, jax),
            number(paddle),
            ratio(ours, paddle),
            *(number(None if m is None else m / 1e6, 1) for m in memory[:2]),
            *(number(None if m is None else m / 1e9, 2) for m in memory[2:]),
        ])  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def _differences(group: str, found: dict[str, Any]) -> list[str]:
    """The engines and modes whose losses are not those of the group's reference."""
    first = next(iter(found.values()))
    if not first:
        return [f"{group}: nothing ran in its first mode, whose losses the others are held to"]
    reference = [step["loss"] for step in next(iter(first.values()))["steps"]]
    told = []
    for name, engines in found.items():
        allowed = TOLERANCES[_modes(group)[name].precision]
        for engine, answers in engines.items():
            losses = [step["loss"] for step in answers["steps"]]
            pairs = zip(losses, reference, strict=True)
            largest = max(abs(a - b) / abs(b) for a, b in pairs)
            # A loss that is no number is not within any bound.
            if not largest <= allowed:
                told.append(
                    f"{group}: {name}: {engine}: losses differ by {largest:.1e} relative from "
                    f"those of {next(iter(first))}, more than {allowed:g}"
                )
    return told


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    arguments = _arguments()
    if arguments.worker:
        engine, group, name = arguments.worker
        serve(_Engine(engine, _config(group), _modes(group)[name]))
        return 0
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa))
    results, told = {"machine": isa.description(arguments.isa)}, []
    for group in arguments.only.split(","):
        found, failed = _run(group, arguments.engines.split(","), arguments.warmup, arguments.steps)
        results[group] = {"config": asdict(_config(group)), "modes": found}
        print(f"\n{_title(group)}\n\n{_table(group, found)}", flush=True)
        told += failed + _differences(group, found)
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    print("\n".join(["", *told]))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())

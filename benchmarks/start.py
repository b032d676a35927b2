"""How long a program takes to start: compiled for the first time, and found in the cache.

Each start is a process of its own, and kinds of starts take turns. JAX's import, without which
nothing is compiled or loaded here, is measured beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import isa

MODELS = {
    "mlp": "MLP of three layers",
    "transformer": "2-layer Transformer",
    "bert": "BERT-Base, batch 4",
}
_HERE = Path(__file__).parent


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Seconds until training programs with Adam are compiled, and until their first "
        "step has run: without a cache, and by a process that finds what an earlier one compiled.",
    )
    parser.add_argument("--only", choices=MODELS, action="append", help="this model; repeat")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each kind (default 5)")
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number to FILE")
    return parser.parse_args()


def _start(what: str, cache: str) -> dict[str, float]:
    """The numbers of one process; `cache` is its folder of compiled programs, "" for none."""
    environment = {
        name: value
        for name, value in os.environ.items()
        # Without bytecode each process would compile all sources.
        if name not in ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR")
    }
    paths = [str(_HERE.parent), *filter(None, [environment.get("PYTHONPATH")])]
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "IPU_CACHE_PATH": cache}
    command = [sys.executable, str(_HERE / "start_program.py"), what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what}: exit status {done.returncode}\n{done.stderr}")
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main() -> int:
    """Measures and prints; 1 where a program from the cache has another loss."""
    arguments = _arguments()
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa), end="\n\n", flush=True)
    models = arguments.only or list(MODELS)
    numbers: dict[str, list[dict[str, float]]] = {"jax": []}
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            _start(model, folder)
        for _ in range(arguments.rounds):
            numbers["jax"].append(_start("jax", ""))
            for model in models:
                for kind, cache in (("cold", ""), ("cached", folder)):
                    numbers.setdefault(f"{model} {kind}", []).append(_start(model, cache))
    brought = statistics.median(row["import"] for row in numbers["jax"])
    print(f"JAX's import takes {brought:.2f} s; medians of {arguments.rounds} starts:\n")
    print("| program | start | compile s | beyond JAX's import | first step s |")
    print("| --- | --- | --- | --- | --- |")
    for model in models:
        for kind in ("cold", "cached"):
            rows = numbers[f"{model} {kind}"]
            compiling, step = (statistics.median(r[n] for r in rows) for n in ("compile", "step"))
            told = f"{compiling:.2f} | {compiling - brought:.2f} | {step:.2f}"
            print(f"| {MODELS[model]} | {kind} | {told} |")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    losses = {model: {r["loss"] for k in ("cold", "cached") for r in numbers[f"{model} {k}"]}
              for model in models}  # fmt: skip
    different = {model: found for model, found in losses.items() if len(found) > 1}
    for model, found in different.items():
        print(f"{model}: losses differ: {sorted(found)}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())

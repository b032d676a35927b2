"""What recomputation does to the memory of a BERT training step, and what it costs in time.

Each kind of recomputation runs in a process of its own, and their losses must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

import isa
from bert_config import Config, initial_weights, make_batch
from worker import NO_CACHE, peak_bytes

KINDS = ("NoRecompute", "Standard", "NormOnly", "RecomputeAll")
"""Those of one IPU; Pipeline is for pipelines."""


def _arguments() -> argparse.Namespace:
    default = Config()
    parser = argparse.ArgumentParser(
        description=(
            "Time and measure one BERT training step (forward, backward, Adam) on paddle_ipu's IPU "
            "Model for each kind of recomputation: the step's temporary buffers by XLA's account, "
            "the process's peak of resident memory, and the median time. Losses must agree."
        ),
        epilog=(
            "Quick trial: --layers 4 --hidden 128 --vocabulary 1000. The exit status is 1 where "
            "the losses of two kinds differ."
        ),
    )
    for name, value in asdict(default).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--steps", type=int, default=3, help="timed steps (default 3)")
    parser.add_argument("--half", action="store_true", help="in float16")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches (default 1)")
    parser.add_argument("--kinds", nargs="+", default=["NoRecompute", "Standard", "NormOnly"],
                        choices=KINDS, help="default: NoRecompute Standard NormOnly")  # fmt: skip
    isa.add_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write every number")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(config: Config, kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One process's numbers."""
    import numpy as np
    import paddle
    from bert_program import build

    import paddle_ipu

    paddle_ipu.activate()
    paddle.enable_static()
    main, startup, feeds, loss = build(config)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    for name, array in initial_weights(config):
        paddle.static.global_scope().find_var(name).get_tensor().set(array, paddle.CPUPlace())
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    strategy.set_precision_config(enable_fp16=arguments.half)
    strategy.set_options({"auto_recomputation": kind})
    micro = arguments.accumulation
    if micro > 1:
        strategy.set_options({"enable_gradient_accumulation": True, "accumulation_factor": micro})
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(feeds, [loss])
    batch = {name: np.concatenate([array] * micro) for name, array in make_batch(config).items()}
    seconds, losses = [], []
    for _ in range(arguments.steps + 1):
        start = time.perf_counter()
        (result,) = executor.run(program, feed=batch, fetch_list=[loss])
        seconds.append(time.perf_counter() - start)
        losses.append(float(np.mean(result)))
    return {
        "kind": kind,
        "temporary MB": program.report().temporary_bytes / 1e6,
        "peak MB": peak_bytes() / 1e6,
        "median s": statistics.median(seconds[1:]),
        "losses": losses,
    }


def main() -> int:
    """Runs the children one after the other; returns the exit status."""
    arguments = _arguments()
    config = Config(**{name: getattr(arguments, name) for name in asdict(Config())})
    if arguments.child:
        print(json.dumps(measure(config, arguments.child, arguments)))
        return 0
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa))
    found = []
    print(f"{'kind':14} {'temporary MB':>12} {'peak MB':>9} {'median s':>9}")
    for kind in arguments.kinds:
        child = subprocess.run(
            [sys.executable, *sys.argv, "--child", kind], env=os.environ | NO_CACHE,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(json.loads(child.stdout.splitlines()[-1]))
        row = found[-1]
        print(
            f"{kind:14} {row['temporary MB']:12.1f} {row['peak MB']:9.0f} {row['median s']:9.3f}",
            flush=True,
        )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    first = found[0]["losses"]
    alike = all(
        abs(a - b) <= 1e-6 * abs(b)
        for row in found
        for a, b in zip(row["losses"], first, strict=True)
    )
    return 0 if alike else 1


if __name__ == "__main__":
    sys.exit(main())

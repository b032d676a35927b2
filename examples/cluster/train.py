"""Trains a small network over all instances of a launch, with checkpoints to go on from.

    poprun --offline-mode=yes --num-instances=2 --num-replicas=4 \
        python3 -m examples.cluster.train --output out/cluster

Instance 0 writes the checkpoints; a launch that is started again goes on from the newest one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paddle

import popdist

ROWS, FEATURES = 4, 8
"""Rows of a replica in a step; numbers in each."""


def main(words: Sequence[str] | None = None) -> float:
    """Trains; returns the last step's loss, the mean of all replicas."""
    arguments = _arguments(words)
    paddle.enable_static()
    paddle.seed(1)
    loss = _network()
    main_program = paddle.static.default_main_program()
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    checkpoints = Path(arguments.output)
    first = _newest(checkpoints)
    if first:
        paddle.static.load(main_program, str(checkpoints / f"step_{first}"))
        _say(f"going on from step {first}")

    program = _compiled(loss)
    mean = float("nan")
    for step in range(first, arguments.steps):
        (losses,) = exe.run(program, feed=_feed(step), fetch_list=[loss])
        mean = float(popdist.allReduce(np.mean(losses)))
        if (step + 1) % arguments.every == 0:
            _say(f"step {step + 1}: loss {mean:.4f}")
            popdist.execute_on_instances({0}, _save, main_program, checkpoints, step + 1)
    popdist.barrier()
    return mean


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40, help="steps in all (default: 40)")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument(
        "--output",
        default="out/cluster",
        help="folder for checkpoints, which all instances see (default: out/cluster)",
    )
    return parser.parse_args(words)


def _network() -> Any:
    """Builds the network and its optimizer; returns the loss."""
    x = paddle.static.data("x", [ROWS, FEATURES], "float32")
    y = paddle.static.data("y", [ROWS, 1], "float32")
    # The names by which a checkpoint finds them again.
    weight, bias = paddle.ParamAttr("weight"), paddle.ParamAttr("bias")
    predicted = paddle.static.nn.fc(x, 1, weight_attr=weight, bias_attr=bias)
    loss = paddle.mean((predicted - y) ** 2)
    paddle.optimizer.Adam(0.1).minimize(loss)
    return loss


def _compiled(loss: Any) -> Any:
    """The program for the replicas of this instance."""
    local, total = popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=local, is_training=True)
    strategy.set_options(
        {
            "enable_distribution": True,
            "enable_replicated_graphs": local > 1,
            "replicated_graph_count": local,
            "enable_distributed_replicated_graphs": total > local,
            "global_replication_factor": total,
            "global_replica_offset": popdist.getReplicaIndexOffset(),
        }
    )
    main_program = paddle.static.default_main_program()
    compiler = paddle.static.IpuCompiledProgram(main_program, ipu_strategy=strategy)
    return compiler.compile(["x", "y"], [loss])


def _feed(step: int) -> dict[str, Any]:
    """The rows of this instance's replicas, out of those that all replicas have in a step."""
    local, total = popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()
    first = popdist.getReplicaIndexOffset()
    rows = np.random.default_rng(step).normal(size=(total, ROWS, FEATURES)).astype("float32")
    own = rows[first : first + local].reshape(-1, FEATURES)
    return {"x": own, "y": own.sum(axis=1, keepdims=True)}


def _newest(checkpoints: Path) -> int:
    """The newest step that every instance sees a whole checkpoint of, 0 for none."""
    done = [int(path.stem.split("_")[1]) for path in checkpoints.glob("step_*.whole")]
    return int(popdist.allReduce(float(max(done, default=0)), "min"))


def _save(program: Any, checkpoints: Path, step: int) -> None:
    checkpoints.mkdir(parents=True, exist_ok=True)
    paddle.static.save(program, str(checkpoints / f"step_{step}"))
    # Written last: what has it is whole.
    (checkpoints / f"step_{step}.whole").touch()


def _say(text: str) -> None:
    if popdist.getInstanceIndex() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()

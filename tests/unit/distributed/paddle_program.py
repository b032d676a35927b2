"""Ten updates of a Paddle program by this instance's replicas. Run by test_paddle_training."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import paddle

import paddle_ipu
import popdist

STEPS, TOTAL, MICRO = 10, 4, 2


def main(kind: str, target: str) -> None:
    """Trains, and lets instance 0 write the weights.

    Args:
        kind: ``sgd`` or ``adam``.
        target: the file for the weights.
    """
    paddle_ipu.activate()
    paddle.enable_static()
    rank = popdist.getInstanceIndex()
    if "PADDLE_TRAINER_ID" in os.environ:
        assert int(os.environ["PADDLE_TRAINER_ID"]) == rank
    # Instance 0's weights count: the others start elsewhere.
    paddle.seed(1 + rank)
    outside = not popdist.isPopdistEnvSet()
    local = TOTAL if outside else popdist.getNumLocalReplicas()
    first = popdist.getReplicaIndexOffset()
    program, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, start):
        x = paddle.static.data("x", [4, 8], "float32")
        y = paddle.static.data("y", [4, 1], "float32")
        hidden = paddle.nn.functional.dropout(paddle.tanh(paddle.static.nn.fc(x, 16)), 0.25)
        loss = paddle.mean((paddle.static.nn.fc(hidden, 1) - y) ** 2)
        optimizers: Any = {"sgd": paddle.optimizer.SGD(0.1), "adam": paddle.optimizer.Adam(0.01)}
        optimizers[kind].minimize(loss)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=local, is_training=True)
    strategy.set_options({
        "random_seed": 5,
        "enable_gradient_accumulation": True,
        "accumulation_factor": MICRO,
        "enable_distribution": True,
        "enable_replicated_graphs": True,
        "replicated_graph_count": local,
        "enable_distributed_replicated_graphs": not outside,
        "global_replication_factor": TOTAL,
        "global_replica_offset": first,
    })  # fmt: skip
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(start)
    compiled = paddle.static.IpuCompiledProgram(program, ipu_strategy=strategy)
    runnable = compiled.compile(["x", "y"], [loss.name])
    generator = np.random.default_rng(0)
    for _ in range(STEPS):
        rows = generator.normal(size=(MICRO, TOTAL, 4, 8)).astype(np.float32)
        own = rows[:, first : first + local].reshape(-1, 8)
        feed = {"x": own, "y": own.sum(axis=1, keepdims=True)}
        executor.run(runnable, feed=feed, fetch_list=[loss])
    state = [np.asarray(value) for _, value in sorted(program.state_dict().items())]
    popdist.execute_on_instances({0}, np.savez, target, *state)
    popdist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])

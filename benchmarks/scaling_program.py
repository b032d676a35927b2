"""One instance of BERT's training under poprun, for `scaling.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import paddle
from bert_config import Array, Config, initial_weights, shapes
from bert_program import build

import popdist


def prepare(config: Config, batch: dict[str, Array]) -> tuple[Callable[[], float], dict[str, Any]]:
    """Compiles the program for this instance's replica.

    Returns:
        A function that makes one step and returns this replica's loss; what the executable cache
        did, and seconds by phase.
    """
    import paddle_ipu  # noqa: F401  (activates it where the installation has not)

    paddle.enable_static()
    main, startup, feeds, loss = build(config)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    scope = paddle.static.global_scope()
    for name, array in initial_weights(config):
        scope.find_var(name).get_tensor().set(array, paddle.CPUPlace())
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True)
    if popdist.getNumInstances() > 1:
        strategy.set_options(
            {
                "enable_distribution": True,
                "enable_replicated_graphs": True,
                "replicated_graph_count": 1,
                "enable_distributed_replicated_graphs": True,
                "global_replication_factor": popdist.getNumTotalReplicas(),
                "global_replica_offset": popdist.getReplicaIndexOffset(),
            }
        )
    start = time.perf_counter()
    compiled = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(feeds, [loss])
    seconds = time.perf_counter() - start

    def step() -> float:
        (result,) = executor.run(compiled, feed=batch, fetch_list=[loss])
        return float(np.mean(result))

    return step, {"origin": compiled.report().cache, "compile": seconds}


def collective(config: Config) -> Callable[[], None]:
    """The sum of all instances' gradients, alone, as a step has it."""
    import jax
    import jax.numpy as jnp

    from paddle_ipu.xla.lowerings.registry import INSTANCE_AXIS
    from paddle_ipu.xla.step import instance_collectives

    together = instance_collectives.joined()
    gradients = {name: jnp.ones((1, *shape)) for name, shape in shapes(config).items()}
    summed = jax.jit(
        jax.shard_map(
            partial(instance_collectives.summed, instances=together.count),
            mesh=together.mesh,
            in_specs=(jax.P(INSTANCE_AXIS),),
            out_specs=jax.P(),
            check_vma=False,
        )
    )
    sharding = jax.NamedSharding(together.mesh, jax.P(INSTANCE_AXIS))
    whole = {
        name: jax.make_array_from_single_device_arrays(
            (together.count, *array.shape[1:]), sharding, [array]
        )
        for name, array in gradients.items()
    }

    def run() -> None:
        jax.block_until_ready(summed(whole))

    return run

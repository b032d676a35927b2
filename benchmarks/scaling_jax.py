"""One process of BERT's training written by hand in JAX under mpirun, for `scaling.py`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from bert_config import Array, Config, initial_weights, shapes
from bert_jax import Weights, adam, loss_of
from jax import lax

AXIS = "processes"


def connect(coordinator: str) -> jax.sharding.Mesh:
    """The devices of all processes that mpirun started, one of each."""
    count = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    if count > 1:
        jax.distributed.initialize(
            coordinator, count, int(os.environ["OMPI_COMM_WORLD_RANK"]),
            cluster_detection_method="deactivate",
        )  # fmt: skip
    return jax.sharding.Mesh(np.asarray(jax.devices()), (AXIS,))


def prepare(
    config: Config, batch: dict[str, Array], mesh: jax.sharding.Mesh
) -> tuple[Callable[[], float], dict[str, Any]]:
    """Compiles the step: the gradients' mean over all processes, then Adam.

    Returns:
        A function that makes one step and returns this process's loss; seconds by phase.
    """
    shared, own = jax.NamedSharding(mesh, jax.P()), jax.NamedSharding(mesh, jax.P(AXIS))

    def step(
        weights: Weights,
        first: Weights,
        second: Weights,
        count: jax.Array,
        rows: dict[str, jax.Array],
    ) -> tuple[Weights, Weights, Weights, jax.Array, jax.Array]:
        rows = {name: array[0] for name, array in rows.items()}
        loss, gradients = jax.value_and_grad(lambda w: loss_of(config, w, rows))(weights)
        gradients = lax.pmean(gradients, AXIS)
        return *adam(weights, gradients, first, second, count), loss[None]

    whole = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(jax.P(), jax.P(), jax.P(), jax.P(), jax.P(AXIS)),
        out_specs=(jax.P(), jax.P(), jax.P(), jax.P(), jax.P(AXIS)),
        check_vma=False,
    )

    def everywhere(array: Array) -> jax.Array:
        return jax.make_array_from_process_local_data(shared, np.asarray(array))

    weights = {name: everywhere(array) for name, array in initial_weights(config)}
    first, second = (
        {name: everywhere(np.zeros(a.shape, np.float32)) for name, a in weights.items()}
        for _ in range(2)
    )
    state = (weights, first, second, everywhere(np.zeros((), np.float32)))
    local = {
        name: array.astype(jax.dtypes.canonicalize_dtype(array.dtype))[None]
        for name, array in batch.items()
    }

    def fed() -> dict[str, Any]:
        return {n: jax.make_array_from_process_local_data(own, a) for n, a in local.items()}

    start = time.perf_counter()
    compiled = jax.jit(whole, donate_argnums=(0, 1, 2, 3)).lower(*state, fed()).compile()
    seconds = time.perf_counter() - start

    def run() -> float:
        nonlocal state
        results = compiled(*state, fed())
        state = results[:-1]
        return float(results[-1].addressable_data(0)[0])

    return run, {"origin": "compiled", "compile": seconds}


def collective(config: Config, mesh: jax.sharding.Mesh) -> Callable[[], None]:
    """The sum of all processes' gradients, alone, as a step has it."""
    own = jax.NamedSharding(mesh, jax.P(AXIS))
    gradients = {
        name: jax.make_array_from_process_local_data(own, np.ones((1, *shape), np.float32))
        for name, shape in shapes(config).items()
    }
    summed = jax.jit(
        jax.shard_map(
            lambda tree: jax.tree.map(lambda a: a[0], lax.psum(tree, AXIS)),
            mesh=mesh,
            in_specs=(jax.P(AXIS),),
            out_specs=jax.P(),
            check_vma=False,
        )
    )

    def run() -> None:
        jax.block_until_ready(summed(gradients))

    return run

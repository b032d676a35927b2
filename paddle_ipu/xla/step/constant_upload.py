"""Weights that no run changes on the device: copied, widened or packed by threads, in a block."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.rewrites.fused_products import FusedProduct
from paddle_ipu.xla.step import memory


def put(
    weights: Mapping[str, HostArray],
    packed: Mapping[str, FusedProduct],
    widened: Collection[str] = (),
) -> dict[str, jax.Array]:
    """The weights on the device, in memory that is theirs alone.

    Args:
        weights: name -> array as a run takes it, or as a model has it where it is packed.
        packed: the products, by their kernels, that read packed weights.
        widened: weights of half types that become float32.
    """

    def kind(name: str, array: HostArray) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if name in packed:
            return (packed[name].packed,), np.dtype(np.float32)
        return array.shape, np.dtype(np.float32) if name in widened else array.dtype

    arrays = memory.allocate({name: kind(name, array) for name, array in weights.items()})

    def write(name: str) -> None:
        if name in packed:
            packed[name].pack(np.asarray(weights[name]), arrays[name])
        else:
            np.copyto(arrays[name], weights[name])

    # The largest first, so that the threads are done at the same time.
    names = sorted(arrays, key=lambda name: -arrays[name].nbytes)
    with ThreadPoolExecutor(library.threads(), "paddle_ipu-weights") as threads:
        list(threads.map(write, names))
    # On a CPU these are the same memory: no run changes it, so that it need not be JAX's own.
    return dict(jax.device_put(arrays))

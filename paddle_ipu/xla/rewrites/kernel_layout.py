"""Kernels of convolutions that no run changes, kept in the layout in which convolution reads them.

``channels_last.py`` convolves with kernels [space, C, M]. A model has them as [M, C, space], and
turning ResNet-50's takes as long as a third of its convolutions. Weights that runs change stay as
they are: their gradients and updates have the model's layout.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import jax
import numpy as np
import onnx_ir as ir

from paddle_ipu.xla.lowerings.node_values import STANDARD
from paddle_ipu.xla.lowerings.registry import Array, HostArray

Kernel = TypeVar("Kernel", jax.Array, HostArray)


def constant_kernels(graph: ir.Graph, weights: Collection[str]) -> frozenset[str]:
    """The weights that nothing but convolutions over all channels read, as their kernels.

    Args:
        graph: the PopART graph.
        weights: those that no run changes.
    """
    kernels: set[str] = set()
    others = {str(value.name) for value in graph.outputs}
    for node in ir.traversal.RecursiveGraphIterator(graph):
        convolves = node.op_type == "Conv" and node.domain in STANDARD
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            is_kernel = convolves and index == 1 and node.attributes.get_int("group", 1) == 1
            (kernels if is_kernel else others).add(str(value.name))
    return frozenset(kernels.intersection(weights) - others)


def to_device(array: HostArray) -> HostArray:
    """[M, C, space] as [space, C, M]."""
    return array.transpose(*range(2, array.ndim), 1, 0)


def to_model(array: Kernel) -> Kernel:
    """[space, C, M] as [M, C, space]."""
    return array.transpose(array.ndim - 1, array.ndim - 2, *range(array.ndim - 2))


def on_host(array: Array) -> HostArray:
    """A kernel on the device as the host reads it."""
    return to_model(np.asarray(array))

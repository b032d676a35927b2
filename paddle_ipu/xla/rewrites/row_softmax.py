"""Softmax over contiguous rows, lowered to a kernel of its own.

XLA takes four passes and may wake threads between them. The kernel of
``kernels/avx512/softmax.cc`` does all of a row while it is near the core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.kernels.softmax import SoftmaxSpec
from paddle_ipu.xla.lowerings.node_values import STANDARD, is_float32, static_dims
from paddle_ipu.xla.rewrites.replacement import become

if TYPE_CHECKING:
    from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph


LEAST_COLUMNS = 16
"""Rows of fewer are XLA's: they do not fill a vector of AVX-512."""


class FuseSoftmax:
    """Has a kernel do softmax over rows, one pass for the four of XLA."""

    name = "fuse_softmax"
    requires = ("attention fused",)
    ensures = ("softmax fused",)

    def run(self, program: InferenceGraph, /) -> bool:
        """Nothing where the kernel cannot be used, or softmax is unstable, as its is not."""
        if not program.allows_kernels or program.unstable_softmax or not library.has_avx512():
            return False
        specs = {node: _spec(node) for node in program.graph if _is_softmax(node)}
        supported = {node: spec for node, spec in specs.items() if spec is not None}
        for node, spec in supported.items():
            become(node, "Softmax", spec=spec)
        return bool(supported)


def _is_softmax(node: ir.Node) -> bool:
    return node.op_type == "Softmax" and node.domain in STANDARD and is_float32(node.outputs[0])


def _spec(node: ir.Node) -> SoftmaxSpec | None:
    dims = static_dims(node.inputs[0])
    axis = node.attributes.get_int("axis", 1)
    if not dims or not -len(dims) <= axis < len(dims):
        return None
    # The axis and all behind it are one, by opset 11.
    start = axis % len(dims)
    rows, columns = math.prod(dims[:start]), math.prod(dims[start:])
    if columns < LEAST_COLUMNS or not rows:
        return None
    return SoftmaxSpec(rows=rows, columns=columns, threads=library.threads())

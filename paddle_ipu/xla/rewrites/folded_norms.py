"""Batch norms by constant statistics, put into the weights of the product before them.

With f = scale / sqrt(variance + epsilon), a norm of a convolution or a matrix product with weights
W and, where there is one, a bias b is the same product with weights f W, plus
f (b - mean) + norm's bias. What is on the device under the names of these weights are the folded
ones, computed in float64 and rounded once; the host keeps and reads the model's own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from paddle_ipu.xla.lowerings.node_values import (
    POPARTS,
    STANDARD,
    is_float32,
    needed_tensors,
    static_dims,
)
from paddle_ipu.xla.lowerings.normalization import folded_whole, folded_without_bias
from paddle_ipu.xla.lowerings.registry import REWRITTEN, HostArray, lowering

lowering(REWRITTEN, "FoldedNorm")(folded_whole)
lowering(REWRITTEN, "FoldedNormBias")(folded_without_bias)


@dataclass(frozen=True, slots=True)
class FoldedNorm:
    """A norm and the product before it, by the ids of their weights.

    Attributes:
        result: the norm's result.
        kernel: the product's weights.
        axis: of the channels in them.
        scale: of the norm; so are `bias`, `mean`, `variance` and `epsilon`.
        added: what is added to the product by channel before the norm; None for nothing.
    """

    result: str = field(compare=False)
    kernel: str
    axis: int
    scale: str
    bias: str
    mean: str
    variance: str
    epsilon: float
    added: str | None

    @property
    def changed(self) -> tuple[str, str]:
        """The weights that are others on the device than in the model."""
        return self.kernel, self.added or self.bias

    @property
    def members(self) -> tuple[str, ...]:
        """All weights that the folded ones are made of."""
        own = (self.kernel, self.scale, self.bias, self.mean, self.variance)
        return own if self.added is None else (*own, self.added)

    def folded(self, arrays: Mapping[str, HostArray]) -> dict[str, HostArray]:
        """The weights on the device, given the model's."""

        def wide(name: str) -> HostArray:
            return np.asarray(arrays[name], np.float64).reshape(-1)

        kernel, shifted = (np.asarray(arrays[name]) for name in self.changed)
        # As on the device, what is no number is said by the results alone.
        with np.errstate(all="ignore"):
            factor = wide(self.scale) / np.sqrt(wide(self.variance) + self.epsilon)
            start = 0.0 if self.added is None else wide(self.added)
            shift = (start - wide(self.mean)) * factor + wide(self.bias)
            by_channel = factor.reshape([-1 if a == self.axis else 1 for a in range(kernel.ndim)])
            return {
                self.changed[0]: (kernel * by_channel).astype(kernel.dtype),
                self.changed[1]: shift.reshape(shifted.shape).astype(shifted.dtype),
            }


def fold(graph: ir.Graph, weights: Collection[str], kept: Collection[str]) -> list[FoldedNorm]:
    """The norms of a graph that can be folded.

    Args:
        graph: the PopART graph.
        weights: those that no run changes and no result shows.
        kept: tensors that are results, or are looked at.
    """
    search = _Search(weights, needed_tensors(graph, kept))
    candidates = (search.of(node) for node in graph)
    return [norm for norm in candidates if norm is not None]


@dataclass(frozen=True, slots=True)
class _Search:
    weights: Collection[str]
    kept: Collection[str]

    def of(self, node: ir.Node) -> FoldedNorm | None:
        if node.op_type != "BatchNormalization" or node.domain not in POPARTS:
            return None
        names = [str(value.name) for value in node.inputs if value is not None]
        if (
            len(node.outputs) != 1
            or not node.attributes.get_int("spatial", 1)
            or any(name not in self.weights for name in names[1:])
            or not all(is_float32(value) for value in (*node.inputs, *node.outputs))
        ):
            return None
        x: ir.Value | None = node.inputs[0]
        as_rows, x = self._rows_of_channels(x)
        added, x = self._without_addition(x, 1 if not as_rows else -1)
        product = None if x is None or not self._is_read_once(x) else x.producer()
        if product is None or product.domain not in STANDARD or len(product.inputs) < 2:
            return None
        kernel = product.inputs[1]
        if product.op_type == "Conv" and not as_rows:
            axis, own = 0, product.inputs[2] if len(product.inputs) > 2 else None
        elif product.op_type == "MatMul" and as_rows and kernel is not None:
            axis, own = 1, None
            if kernel.shape is None or len(kernel.shape) != 2:
                return None
        else:
            return None
        if own is not None:
            if added is not None:
                return None
            added = own
        parts = [kernel] if added is None else [kernel, added]
        if not all(self._is_own_weight(value) for value in parts):
            return None
        bias = node.inputs[2]
        if added is None and (bias is None or not self._is_own_weight(bias)):
            return None
        assert kernel is not None
        scale, bias_name, mean, variance = names[1:]
        return FoldedNorm(
            result=str(node.outputs[0].name),
            kernel=str(kernel.name),
            axis=axis,
            scale=scale,
            bias=bias_name,
            mean=mean,
            variance=variance,
            epsilon=node.attributes.get_float("epsilon", 1e-5),
            added=None if added is None else str(added.name),
        )

    def _rows_of_channels(self, x: ir.Value | None) -> tuple[bool, ir.Value | None]:
        """(whether x is [rows, channels, 1] of a tensor with channels last, that tensor or x)."""
        node = None if x is None else x.producer()
        if x is None or node is None or node.op_type != "Reshape" or not self._is_read_once(x):
            return False, x
        source = node.inputs[0]
        dims, own = static_dims(x), static_dims(source)
        if not own or dims != (math.prod(own[:-1]), own[-1], 1):
            return False, x
        return True, source

    def _without_addition(
        self, x: ir.Value | None, axis: int
    ) -> tuple[ir.Value | None, ir.Value | None]:
        """(a weight that is added to x by channel, x before that)."""
        node = None if x is None else x.producer()
        if x is None or node is None or node.op_type != "Add" or not self._is_read_once(x):
            return None, x
        whole = static_dims(x)
        if len(whole) < 2:
            return None, x
        rank = len(whole)
        wanted = [1] * rank
        wanted[axis] = whole[axis]
        for source, other in (node.inputs, reversed(node.inputs)):
            if other is None or source is None or static_dims(source) != static_dims(x):
                continue
            dims = static_dims(other)
            if [1] * (rank - len(dims)) + list(dims) != wanted:
                continue
            maker = other.producer()
            if maker is not None and maker.op_type == "Reshape" and self._is_read_once(other):
                other = maker.inputs[0]
            if other is not None and other.name in self.weights:
                return other, source
        return None, x

    def _is_own_weight(self, value: ir.Value | None) -> bool:
        """Whether a weight is read here only."""
        return (
            value is not None
            and value.name in self.weights
            and is_float32(value)
            and self._is_read_once(value)
        )

    def _is_read_once(self, value: ir.Value) -> bool:
        return value.name not in self.kept and len(value.uses()) == 1

"""Products by constant weights and what follows each of them at once, done by a kernel.

A convolution or a matrix product, its bias or folded norm, an addition and an activation are
several passes over memory for XLA and one for oneDNN or a kernel of our own, which also keep the
weights in a layout of their own. ``kernels/`` has the calls.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.xla.kernels import library, ways
from paddle_ipu.xla.kernels.library import Spec
from paddle_ipu.xla.lowerings.node_values import (
    STANDARD,
    gives_its_input,
    is_computed_in_float32,
    is_float32,
    needed_tensors,
    partials,
    static_dims,
)
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.rewrites.folded_norms import FoldedNorm
from paddle_ipu.xla.rewrites.wide_weights import is_narrow_product

_ACTIVATIONS = {(domain, "Relu") for domain in STANDARD} | {
    ("ai.graphcore", "GeluErf"),
    ("ai.graphcore", "Gelu"),
    ("ai.graphcore", "Swish"),
}


@dataclass(frozen=True, slots=True)
class FusedProduct:
    """A product and what follows it, by the ids of their tensors.

    Attributes:
        product: the product's own result.
        dropped: results between that and the last one; nothing else reads them.
        result: the last one.
        x: what is multiplied.
        kernel: the weights; on the device they are packed.
        bias: what is added to each channel, None for nothing.
        addend: what is added elementwise, None for nothing.
        spec: the work.
        packed: elements of the packed weights.
    """

    product: str
    dropped: frozenset[str] = field(compare=False)
    result: str
    x: str
    kernel: str
    bias: str | None
    addend: str | None
    spec: Spec
    packed: int

    def pack(self, array: HostArray, out: HostArray) -> None:
        """Writes the kernel, which is as a model has it, packed into `out`."""
        library.pack(self.spec, array, out)

    def on_host(self, array: Any, shape: tuple[int, ...]) -> HostArray:
        """The kernel as a model of `shape` has it, unpacked."""
        return library.unpack(self.spec, np.asarray(array), shape)


def are_alike(mine: FusedProduct | None, other: FusedProduct | None) -> bool:
    """Whether weights that two products read, None for another operator, are the same packed."""
    if mine is None or other is None:
        return mine is other
    return library.are_alike(mine.spec, other.spec)


def fuse(
    graph: ir.Graph,
    weights: Collection[str],
    kept: Collection[str],
    folded: Sequence[FoldedNorm],
    precision: Precision,
) -> list[FusedProduct]:
    """The products of a graph that oneDNN takes; none where it cannot be used.

    Args:
        graph: the PopART graph.
        weights: those that no run changes and no result shows.
        kept: tensors that are results, or are looked at.
        folded: norms that are in the weights.
        precision: how half is summed.
    """
    if library.version() is None:
        return []
    norms = {norm.result: norm for norm in folded}
    search = _Search(weights, needed_tensors(graph, kept), norms, precision)
    candidates = (search.of(node) for node in graph)
    return [product for product in candidates if product is not None]


@dataclass(slots=True)
class _Chain:
    """What follows a product, as far as it is known."""

    end: ir.Value
    bias: str | None
    addend: str | None = None
    activation: int = 0
    between: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Search:
    weights: Collection[str]
    kept: Collection[str]
    folded: Mapping[str, FoldedNorm]
    precision: Precision
    done: set[str] = field(default_factory=set)

    def of(self, node: ir.Node) -> FusedProduct | None:
        if node.domain not in STANDARD or node.op_type not in ("Conv", "MatMul"):
            return None
        x, kernel = node.inputs[0], node.inputs[1]
        if (
            x is None
            or kernel is None
            or kernel.name not in self.weights
            or len(kernel.uses()) != 1
            or not is_computed_in_float32(*filter(None, (*node.inputs, *node.outputs)))
            or is_narrow_product(node)
            or self._is_summed_in_half(node)
        ):
            return None
        work = _convolution(node) if node.op_type == "Conv" else _product(node)
        if work is None:
            return None
        own = node.inputs[2] if len(node.inputs) > 2 else None
        axis = 1 if node.op_type == "Conv" else -1
        chain = _Chain(node.outputs[0], None if own is None else str(own.name))
        while self._goes_on(chain, axis):
            pass
        spec = ways.fastest(
            replace(
                work,
                activation=chain.activation,
                has_bias=int(chain.bias is not None),
                has_addend=int(chain.addend is not None),
            )
        )
        packed = library.packed(spec)
        if packed is None:
            self.done.difference_update((*chain.between, str(chain.end.name)))
            return None
        product, result = str(node.outputs[0].name), str(chain.end.name)
        return FusedProduct(
            product=product,
            dropped=frozenset(chain.between),
            result=result,
            x=str(x.name),
            kernel=str(kernel.name),
            bias=chain.bias,
            addend=chain.addend,
            spec=spec,
            packed=packed,
        )

    def _is_summed_in_half(self, node: ir.Node) -> bool:
        """Whether its partial sums are float16, as the kernels' are not."""
        settings = self.precision
        options = {"Conv": settings.half_convolutions, "MatMul": settings.half_matmuls}
        own = partials(node)
        in_half = own == "HALF" if own else options[node.op_type]
        return in_half and node.outputs[0].dtype is ir.DataType.FLOAT16

    def _goes_on(self, chain: _Chain, axis: int) -> bool:
        """Takes the operator that reads the chain's end into it, where that is possible."""
        end = chain.end
        if not is_float32(end):
            # Each operator's result is rounded to half.
            return False
        uses = tuple(end.uses())
        if chain.activation or end.name in self.kept:
            return False
        if len(uses) == 2:
            return self._is_gated(chain)
        if len(uses) != 1:
            return False
        node = uses[0].node
        if len(node.outputs) != 1 or not is_float32(node.outputs[0]):
            return False
        out = node.outputs[0]
        if out.name in self.done:
            # The sum of two products is done with the first of them.
            return False
        norm = self.folded.get(str(out.name))
        if gives_its_input(node):
            pass
        elif norm is not None:
            if norm.added is None:
                if chain.bias is not None or chain.addend is not None:
                    return False
                chain.bias = norm.bias
        elif (node.domain, node.op_type) in _ACTIVATIONS:
            chain.activation = library.ACTIVATIONS.index(node.op_type)
        elif (
            node.domain in STANDARD
            and node.op_type == "Add"
            and static_dims(out) == static_dims(end)
        ):
            other = node.inputs[1 - uses[0].idx]
            if other is None or not is_float32(other):
                return False
            if _is_by_channel(static_dims(other), static_dims(end), axis) and chain.bias is None:
                chain.bias = str(other.name)
            elif static_dims(other) == static_dims(end) and chain.addend is None:
                chain.addend = str(other.name)
            else:
                return False
        else:
            return False
        self.done.add(str(out.name))
        chain.between.append(str(end.name))
        chain.end = out
        return True

    def _is_gated(self, chain: _Chain) -> bool:
        """Takes HardSigmoid and the product of it and what it reads into the chain: HardSwish."""
        end = chain.end
        gate, product = sorted((use.node for use in end.uses()), key=lambda n: n.op_type == "Mul")
        if (gate.op_type, product.op_type) != ("HardSigmoid", "Mul") or len(product.inputs) != 2:
            return False
        opened, out = gate.outputs[0], product.outputs[0]
        slope, offset = (gate.attributes.get_float(n, 0.0) for n in ("alpha", "beta"))
        if (
            {id(value) for value in product.inputs} != {id(end), id(opened)}
            or len(opened.uses()) != 1
            or opened.name in self.kept
            or not is_float32(out)
            or not math.isclose(slope, 1 / 6, rel_tol=1e-6)
            or offset != 0.5
        ):
            return False
        chain.activation = library.ACTIVATIONS.index("HardSwish")
        self.done.update((str(opened.name), str(out.name)))
        chain.between += [str(end.name), str(opened.name)]
        chain.end = out
        return True


def _convolution(node: ir.Node) -> Spec | None:
    """The work of a Conv in two dimensions, without what follows it."""
    x, kernel = static_dims(node.inputs[0]), static_dims(node.inputs[1])
    attributes = node.attributes
    if len(x) != 4 or len(kernel) != 4 or attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return None
    top, left, bottom, right = attributes.get_ints("pads", [0] * 4)
    stride_y, stride_x = attributes.get_ints("strides", [1, 1])
    gap_y, gap_x = attributes.get_ints("dilations", [1, 1])
    groups = attributes.get_int("group", 1)
    if x[1] != kernel[1] * groups or kernel[0] % groups or min(top, left, bottom, right) < 0:
        return None
    spec = Spec(
        x[0], x[1], x[2], x[3], kernel[0], groups, kernel[2], kernel[3], stride_y, stride_x,
        gap_y, gap_x, top, left, bottom, right, 0, 0, 0, library.threads(),
    )  # fmt: skip
    return spec if min(spec.shape) > 0 else None


def _product(node: ir.Node) -> Spec | None:
    """The work of a MatMul by a matrix: a convolution of rows by kernels of one element."""
    x, kernel = static_dims(node.inputs[0]), static_dims(node.inputs[1])
    rows = math.prod(x[:-1])
    if len(x) < 2 or len(kernel) != 2 or ways.is_xlas(rows, *kernel):
        return None
    return Spec(
        1, kernel[0], rows, 1, kernel[1], 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,
        library.threads(),
    )  # fmt: skip


def _is_by_channel(dims: tuple[int, ...], whole: tuple[int, ...], axis: int) -> bool:
    wanted = [1] * len(whole)
    wanted[axis] = whole[axis]
    return len(dims) <= len(whole) and [1] * (len(whole) - len(dims)) + list(dims) == wanted

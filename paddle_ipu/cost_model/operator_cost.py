"""Cycles of one operator, forward and backward, as compute, exchange and sync on one IPU.

With E elements of the output on the fullest tile, V of them a vector, B bytes an element:

    map      E/V x cycles a vector; every further full-sized operand is exchanged: E x B / rate
    norm     6 passes forward, of a batch 4, and 14 backward (poplibs' normalisations)
    softmax  4 passes and exp forward, 4 backward (popnn's softmax); as in norms of rows, passes
             with one value a row take more (:meth:`PartCosts.by_rows`)
             compute sets and exchanges of both as poplibs has them (:func:`_norm`)
    reduce   one pass over the input; backward broadcasts
    move     E x B / rate received, and copied into place
    gather   every tile looks at every index; rows are exchanged
    matmul, conv   :mod:`paddle_ipu.cost_model.matmul_plan`; two more products backward

An operator without a cost row receives all it reads and writes over the exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2, prod

from paddle_ipu.cost_model.constants import CONSTANTS, Constants
from paddle_ipu.cost_model.machines import Processor
from paddle_ipu.cost_model.matmul_plan import AMP_WIDTH, Product, Sliding
from paddle_ipu.cost_model.part_costs import NOTHING, Cost, PartCosts
from paddle_ipu.cost_model.program import Operator, Tensor
from paddle_ipu.cost_model.recurrent_cost import recurrent
from paddle_ipu.popart.op_schema import READS_NOTHING, CostKind, OpCost


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """Forward and backward of one operator, and whether it was priced by its bytes alone."""

    forward: Cost
    backward: Cost
    priced: bool = True


class Pricing(PartCosts):
    """Prices operators on a processor; equal operators are priced once."""

    def __init__(
        self, processor: Processor, constants: Constants = CONSTANTS, *, padded: bool = False
    ) -> None:
        super().__init__(processor, constants, padded=padded)
        self._known: dict[tuple[object, ...], OperatorCost] = {}
        self._placed: dict[tuple[object, ...], tuple[Operator, OperatorCost]] = {}

    def cost_of(self, operator: Operator) -> OperatorCost:
        """The cycles of an operator, all its `times` together."""
        # One operator at many places: its copies have the same tensors.
        same = (
            id(operator.inputs),
            id(operator.outputs),
            id(operator.schema),
            id(operator.attributes),
            operator.times,
            operator.gradient,
            operator.memory_proportion,
            operator.serial,
            operator.half_partials,
        )
        known = self._placed.get(same)
        if known is None:
            # Kept with what has these identities.
            known = self._placed[same] = (operator, self._cost_of_alike(operator))
        return known[1]

    def _cost_of_alike(self, operator: Operator) -> OperatorCost:
        """The cost of the operators that are priced alike."""
        key = (
            operator.op_type,
            operator.cost,
            tuple(
                None if t is None else (t.dims, t.dtype, t.role, t.trained) for t in operator.inputs
            ),
            tuple((t.dims, t.dtype) for t in operator.outputs),
            tuple(str(operator.attributes.get(name)) for name in _SHAPING),
            operator.times,
            operator.gradient,
            operator.memory_proportion,
            operator.serial,
            operator.half_partials,
        )
        cost = self._known.get(key)
        if cost is None:
            cost = self._known[key] = self._price(operator)
        return cost

    def _price(self, operator: Operator) -> OperatorCost:
        rule = operator.cost
        if not operator.outputs:
            return OperatorCost(NOTHING, NOTHING)
        if rule is None:
            forward = self._unpriced(operator)
            backward = forward * 2.0 if operator.gradient else NOTHING
            return OperatorCost(forward * operator.times, backward * operator.times, priced=False)
        forward, backward = _FORMULAS[rule.kind](self, operator, rule)
        times = operator.times
        return OperatorCost(forward * times, backward * times if operator.gradient else NOTHING)


_SHAPING = (
    "kernel_shape", "strides", "pads", "dilations", "group", "axes", "axis", "keepdims",
    "transA", "transB", "num_groups",
)  # fmt: skip


# -- formulas -----------------------------------------------------------------------------------

Formula = Callable[[Pricing, Operator, OpCost], tuple[Cost, Cost]]


def _free(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    return NOTHING, NOTHING


def _cycles(rule: OpCost, tensor: Tensor) -> float:
    return rule.half if tensor.item <= 2 else rule.single


def _map(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    out = operator.outputs[0]
    cycles = _cycles(rule, out)
    forward = pricing.map(out.elements, out.item, cycles)
    tile = out.bytes / pricing.processor.tiles
    exchanged, full, reduced = 0.0, 0, NOTHING
    for tensor in operator.read:
        if tensor.elements >= out.elements:
            full += 1
            exchanged += tensor.bytes if full > 1 else 0.0
        elif tensor.elements > 1:
            exchanged += min(tensor.bytes, tile) * pricing.processor.tiles
        if tensor.elements < out.elements and tensor.has_gradient:
            # Backward adds the gradient of what was broadcast.
            reduced = reduced + _sum(pricing, out)
    if exchanged:
        forward = forward + pricing.move(exchanged, copied=False)
    backward = NOTHING
    if operator.op_type == "Cast":
        backward = pricing.map(out.elements, out.item, cycles)
    elif operator.gradient_reads != READS_NOTHING:
        gradients = sum(t.has_gradient and t.elements > 1 for t in operator.read)
        # A product's gradient is a product; others compute a derivative and multiply with it.
        passes = cycles if operator.op_type == "Mul" else cycles + 1.0
        backward = pricing.map(out.elements, out.item, passes) * max(1, gradients)
    return forward, backward + reduced


def _random(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    """Backward of a dropout draws the same mask again.

    Each sets the tiles' seeds before, from one that is sent to all, and restores them
    (``maybeSaveHwSeedsAndSetSeeds`` of poplibs' poprand).
    """
    forward, _ = _map(pricing, operator, rule)
    forward = forward + pricing.calls(3) + pricing.exchanges(1)
    return forward, forward


def _sum(pricing: Pricing, tensor: Tensor) -> Cost:
    """Sums over a tensor: one pass, partial sums exchanged and added."""
    return pricing.map(tensor.elements, tensor.item, 1.0, sets=2) + pricing.exchanges(1)


def _reduce(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    read = operator.read[0] if operator.read else operator.outputs[0]
    forward = pricing.map(read.elements, read.item, _cycles(rule, read), sets=2)
    forward = forward + pricing.exchanges(1)
    return forward, pricing.map(read.elements, read.item, _cycles(rule, read))


def _move(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    cost = pricing.move(float(operator.outputs[0].bytes))
    return cost, cost


def _norm(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    """Of rows: sum, sum of squares; subtract, scale (by rows); scale, shift.

    A batch is scaled and shifted by one product and one sum, of a channel each. Backward is the
    same for both: subtract, scale; of each gradient a product and two sums; scale, copy, product,
    two sums, scale.

    Compute sets beside those passes: sums are finished in a second one, and of rows or channels
    deviations are inverted (and a batch's turned into factors, and into running statistics). An
    exchange brings what sums are finished with, and the values of rows or channels to each pass.
    """
    x = operator.outputs[0]
    passes, by_rows = pricing.constants.norm_forward, (2.0, 5.0)
    sets, exchanges = (7, 15), (5, 8)
    if operator.op_type == "BatchNormalization":
        is_known = len(operator.outputs) < 5
        passes, by_rows = passes / 6.0 * (2.0 if is_known else 4.0), (0.0, 0.0)
        sets, exchanges = (5 if is_known else 10, 16), (2 if is_known else 3, 8)
    forward = pricing.map(x.elements, x.item, passes * _cycles(rule, x), sets=sets[0])
    backward = pricing.map(x.elements, x.item, pricing.constants.norm_backward, sets=sets[1])
    forward, backward = (
        cost + pricing.by_rows(x.elements, x.item, rows) + pricing.exchanges(count)
        for cost, rows, count in zip((forward, backward), by_rows, exchanges, strict=True)
    )
    return forward, backward


def _softmax(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    """Maximum, subtract (by rows), exp, sum, scale (by rows); multiply, sum, multiply (by rows),
    subtract."""
    x = operator.outputs[0]
    passes = pricing.constants.softmax_forward + _cycles(rule, x)
    # Sums are float: of half the reciprocals are cast.
    forward = pricing.map(x.elements, x.item, passes, sets=9 if x.item <= 2 else 8)
    forward = forward + pricing.by_rows(x.elements, x.item, 2.0) + pricing.exchanges(4)
    backward = pricing.map(x.elements, x.item, pricing.constants.softmax_backward, sets=5)
    backward = backward + pricing.by_rows(x.elements, x.item, 1.0) + pricing.exchanges(2)
    return forward, backward


def _pool(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    x, out = operator.read[0], operator.outputs[0]
    window = prod(operator.attributes.get("kernel_shape") or (1,))
    halo = pricing.move(float(x.bytes), copied=False)
    forward = pricing.map(out.elements, out.item, window * _cycles(rule, out) / 2.0) + halo
    backward = pricing.map(x.elements, x.item, window * _cycles(rule, x) / 2.0) + halo
    return forward, backward


def _gather(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    indices = operator.read[1].elements if len(operator.read) > 1 else 1
    cost = pricing.move(float(operator.outputs[0].bytes))
    cost = cost + Cost(compute=indices * pricing.constants.cycles_an_index)
    return cost, cost + Cost(compute=indices * pricing.constants.cycles_an_index)


def _scatter(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    indices = operator.read[1].elements if len(operator.read) > 1 else 1
    last = operator.read[-1]
    cost = pricing.move(float(last.bytes + operator.outputs[0].bytes))
    cost = cost + Cost(compute=indices * pricing.constants.cycles_an_index)
    return cost, cost


def _sort(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    x = operator.read[0]
    length = max(2, x.dims[-1] if x.dims else 2)
    steps = ceil(log2(length)) ** 2
    forward = pricing.map(x.elements, x.item, _cycles(rule, x) * steps)
    forward = forward + pricing.move(float(x.bytes)) * steps
    return forward, pricing.move(float(x.bytes))


def _loss(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    x = operator.read[0]
    forward = pricing.map(x.elements, x.item, 1.0) + _sum(pricing, operator.outputs[0])
    return forward, pricing.map(x.elements, x.item, 2.0)


def _matmul(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    product = matmul_product(operator)
    forward = pricing.product(product, operator)
    return forward, _backward_products(pricing, operator, product, 1.0)


def _backward_products(
    pricing: Pricing, operator: Operator, forward: Product, left_share: float
) -> Cost:
    """The products of backward: of the gradient with the right operand, and with the left one."""
    g, m, k, n = forward.groups, forward.m, forward.k, forward.n
    item, partial = forward.item, forward.partial
    cost = NOTHING
    left, right = operator.read[0], operator.read[1]
    if left.has_gradient:
        data = Product(g, m, n, k, item, partial, left_share, turned=frozenset({"right"}))
        cost = cost + pricing.product(data, operator)
    if right.has_gradient:
        weights = Product(g, k, m, n, item, partial, left_share, turned=frozenset({"right"}))
        cost = cost + pricing.product(weights, operator)
    if len(operator.read) > 2:
        cost = cost + _sum(pricing, operator.outputs[0])
    return cost


def _partial(operator: Operator, item: int) -> int:
    return 2 if operator.half_partials and item <= 2 else 4


def matmul_product(operator: Operator) -> Product:
    """What a MatMul or Gemm multiplies; a matrix on the right takes all rows of the left."""
    left, right = operator.read[0], operator.read[1]
    a, b = left.dims or (1,), right.dims or (1,)
    if operator.op_type == "Gemm":
        if operator.attributes.get("transA"):
            a = (a[1], a[0])
        if operator.attributes.get("transB"):
            b = (b[1], b[0])
    a = (1, *a) if len(a) == 1 else a
    b = (*b, 1) if len(b) == 1 else b
    k, n = a[-1], b[-1]
    rows = prod(a[:-1])
    groups = 1
    if prod(b[:-2]) > 1:
        groups = max(prod(a[:-2]), prod(b[:-2]))
        rows = a[-2]
    item = operator.outputs[0].item
    return Product(
        groups,
        max(1, rows),
        max(1, k),
        max(1, n),
        item,
        _partial(operator, item),
        kept=right.role == "weight",
    )


def _conv(pricing: Pricing, operator: Operator, rule: OpCost) -> tuple[Cost, Cost]:
    product, backward = conv_products(operator)
    forward = pricing.product(product, operator)
    if len(operator.read) > 2:
        forward = forward + _bias(pricing, operator)
    cost = NOTHING
    for one in backward:
        cost = cost + pricing.product(one, operator)
    if len(operator.read) > 2:
        cost = cost + _sum(pricing, operator.outputs[0])
    return forward, cost


def _bias(pricing: Pricing, operator: Operator) -> Cost:
    out = operator.outputs[0]
    return pricing.map(out.elements, out.item, 1.0)


def conv_products(operator: Operator) -> tuple[Product, Sequence[Product]]:
    """A convolution as a matrix product, and those of its gradients.

    Rows are output positions, the summed dimension is window x input channels. Of its windows a
    part reads each input once, not once a window position. A row of a window stands in memory as
    one, so that few channels are padded to the AMP unit's 16 together with its width.
    """
    x, w, out = operator.read[0], operator.read[1], operator.outputs[0]
    transposed = operator.op_type == "ConvTranspose"
    large, small = (out, x) if transposed else (x, out)
    group = int(operator.attributes.get("group") or 1)
    window = prod(w.dims[2:])
    strides = prod(operator.attributes.get("strides") or (1,))
    rows = small.dims[0] * prod(small.dims[2:])
    inputs, outputs = large.dims[1] // group, small.dims[1] // group
    share = min(1.0, strides / window)
    item = out.item
    partial = _partial(operator, item)
    # A stride leaves some inputs out, or gives each a smaller window.
    large_rows = min(large.dims[0] * prod(large.dims[2:]), rows * window)
    taken = max(1, ceil(rows * window / large_rows))
    # poplibs computes as many small groups as fill the AMP unit as one, of mostly zero weights,
    # or the smallest by sliding windows.
    together = min(group, max(1, AMP_WIDTH // max(inputs, outputs)))
    sliding = _sliding(operator, max(inputs, outputs), together) if group > 1 else (None, None)
    group = ceil(group / together)
    inputs, outputs = inputs * together, outputs * together

    def product(m: int, k: int, n: int, share: float, line: int = 0) -> Product:
        line = line if window > 1 else 0
        return Product(
            group, m, k, n, item, partial, share, line=line, combined=together, convolution=True
        )

    down = product(rows, window * inputs, outputs, share, small.dims[-1])
    up = product(large_rows, taken * outputs, inputs, 1.0 / taken, large.dims[-1])
    down, up = (replace(one, sliding=way) for one, way in zip((down, up), sliding, strict=True))
    forward, data = (up, down) if transposed else (down, up)
    forward = replace(forward, kept=w.role == "weight")
    data = replace(data, turned=frozenset({"right"}))
    # Positions of a row of the image become what is summed, anew for each of a window's columns
    # (poplibs' ``expandDims``).
    lines = prod(w.dims[2:-1])
    stride = prod((operator.attributes.get("strides") or (1,))[:-1])
    weights = product(window * inputs, rows, outputs, min(1.0, stride / lines))
    weights = replace(weights, turned=frozenset({"left", "right"}), piece=small.dims[-1])
    backward = [data, weights] if x.has_gradient else [weights]
    return forward, backward


def _sliding(
    operator: Operator, channels: int, together: int
) -> tuple[Sliding | None, Sliding | None]:
    """How a convolution of small groups slides its windows, and the one the other way.

    The other way each position of a stride has a window of its own, smaller by the stride.

    Args:
        channels: of a group, the more of those it reads and makes.
        together: groups that are computed as one.
    """
    window = operator.read[1].dims[2:]
    strides = operator.attributes.get("strides") or [1] * len(window)
    if operator.outputs[0].item > 2 or channels > 4 or strides[-1] > 2:
        return None, None
    channels = 1 << (channels - 1).bit_length()
    quads = ceil(together * channels / 4)

    def slides(sizes: Sequence[int], stride: int) -> Sliding:
        return Sliding(channels, quads, prod(sizes[:-1]) * ceil(sizes[-1] / 4), stride)

    smaller = [ceil(size / step) for size, step in zip(window, strides, strict=True)]
    return slides(window, strides[-1]), slides(smaller, 1)


_FORMULAS: dict[CostKind, Formula] = {
    "free": _free,
    "view": _free,
    "map": _map,
    "random": _random,
    "reduce": _reduce,
    "move": _move,
    "norm": _norm,
    "softmax": _softmax,
    "pool": _pool,
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "loss": _loss,
    "matmul": _matmul,
    "conv": _conv,
    "recurrent": recurrent,
}

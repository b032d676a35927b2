"""How a matrix product is spread over the tiles of an IPU: the plan with the fewest cycles.

A product of `groups` matrices [m, k] x [k, n] is cut into pg x pm x pk x pn parts, one a tile. A
tile receives its part of both operands, multiplies with the AMP unit, and where k is cut, the
partial sums are exchanged and added. Cycles of one part (gm, gk, gn rows and columns, ceilings):

    compute   blocks x (load + start + rows x cycles a row)     a block of weights at a time
              likewise of convolutions of small groups (:class:`Sliding`), where that is faster
    exchange  (left + right) / rate                              bytes received by a tile
    arrange   (left + right) / copy rate                         into the order the AMP unit reads,
                                                                 but for weights, which lie in it
    reduce    partial sums received / rate + added / reduce rate where k is cut
    turn      of all tiles / those used: operands and result that lie the other way round, or whose
              sizes the AMP unit has to be padded for (:func:`turned_tensors`)

An operand comes whole over the exchange: it lies on the tiles as what made it left it, and that is
why a view (heads split or merged, a transpose) costs nothing before. A weight is spread over the
tiles that read it, so that each has a part of its own: right x (1 - 1/pm).

Operands, arranged copies and partial sums of a part are temporary, and must be within the share of
the tile's memory that the program allows; else the product is computed in several parts one after
another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.machines import Processor

Array = np.ndarray[Any, Any]

# poplibs' estimators of the AMP vertices: of a block, the supervisor's loops and pointers, and a
# worker's cycles beside those of its rows (with its state kept from block to block).
AMP_WIDTH = 16
AMP_SUPERVISOR_CYCLES = 25.0
AMP_WORKER_CYCLES = 19.0
# Likewise of the vertex for windows larger than one, and of it for each row of the output.
WINDOW_WORKER_CYCLES = 18.0
WINDOW_LINE_CYCLES = 16.0
# Likewise of the SLIC vertex: of four positions of a window and four channels, and of a line.
SLIDING_LOAD_CYCLES = {1: 97.0, 2: 109.0, 4: 34.0}
SLIDING_SUPERVISOR_CYCLES = 26.0
SLIDING_WORKER_CYCLES = 19.0
SLIDING_LINE_CYCLES = 10.0
# Of a tensor brought into another order: once, and a byte, by the size of its pieces (a regression
# in poplibs' ConvModel.cpp, which its planner uses where it is asked to). That pieces are the
# largest of these sizes that a row is a multiple of is assumed: the planner fills up rows first.
TURN_CYCLES = 587.0
TURN_BYTE_CYCLES = {8: 0.4404, 4: 3.125, 2: 5.1484, 1: 5.1484}

_SERIAL = (1, 2, 4, 8, 16, 32, 64, 128)
_CUTS = np.array(
    [*range(1, 17), 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 92, 96, 112, 128, 144,
     160, 184, 192, 224, 256, 320, 368, 384, 448, 512, 736, 1024, 1472],
    dtype=np.int64,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sliding:
    """A convolution of groups of at most four channels in half, by poplibs' SLIC vertex.

    Four positions of a row of the window slide over the input, for four channels at a time.

    Attributes:
        channels: of a group: 1, 2 or 4.
        quads: of four channels, of the groups that are :attr:`Product.combined`.
        blocks: of four positions that the window has, its rows filled up with zeros.
        stride: along a row.
    """

    channels: int
    quads: int
    blocks: int
    stride: int


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product, or what a convolution is as one.

    Attributes:
        groups: products of the same size, independent of one another.
        m, k, n: rows, summed, columns.
        item: bytes of an operand's element.
        partial: bytes of a partial sum.
        left_share: bytes of the left operand that a part reads, over m x k x item: below 1 where a
            convolution's windows overlap.
        kept: the right operand lies on the tiles that read it, as the AMP unit reads it: a weight,
            forward.
        line: of a convolution whose window is larger than one, the positions of a row of its
            output, which a worker begins anew; 0 for others.
        combined: groups that are computed as one, to fill the AMP unit: all their products but
            their own are with zeros.
        sliding: how they are computed without those zeros; None where they cannot be.
        turned: operands that lie the other way round, ``left`` and ``right``: weights backward, and
            for their gradient what is summed over positions.
        piece: of what is summed, elements that lie side by side in turned operands; 0 where they
            all do.
        convolution: it is one, and its AMP unit loads filters; a matrix product's loads rows.
    """

    groups: int
    m: int
    k: int
    n: int
    item: int
    partial: int
    left_share: float = 1.0
    kept: bool = False
    line: int = 0
    combined: int = 1
    sliding: Sliding | None = None
    turned: frozenset[str] = frozenset()
    piece: int = 0
    convolution: bool = False

    @property
    def flops(self) -> float:
        """Floating-point operations, those with zeros left out."""
        return 2.0 * self.groups * self.m * self.k * self.n / self.combined

    def padded(self) -> Product:
        """The same with lengths of at least :data:`AMP_WIDTH` filled up to multiples of it."""
        m, k, n = (
            _ceil(size, AMP_WIDTH) * AMP_WIDTH if size > AMP_WIDTH else size
            for size in (self.m, self.k, self.n)
        )
        return self if self.convolution else replace(self, m=m, k=k, n=n)


@dataclass(frozen=True, slots=True)
class Plan:
    """The chosen cut, with its cycles and the bytes a tile needs for it meanwhile.

    Attributes:
        sets: compute sets: operands arranged or turned, the product, its partial sums added or
            written in half, a result turned.
        exchanges: of them, those that wait for an exchange.
    """

    parts: tuple[int, int, int, int]
    serial: int
    compute: float
    exchange: float
    reduce: float
    sets: int
    exchanges: int
    temporary: float
    fits: bool

    @property
    def cycles(self) -> float:
        """Cycles without syncs."""
        return self.compute + self.exchange + self.reduce


def _ceil(value: Any, by: Any) -> Any:
    return -(-value // by)


@lru_cache(maxsize=4096)
def plan_product(
    product: Product,
    processor: Processor,
    proportion: float,
    least: int = 1,
    efficiency: float = CONSTANTS.exchange_efficiency,
    turning: float = CONSTANTS.turning,
) -> Plan:
    """The plan of fewest cycles within the memory; where none fits, the one of least memory.

    Args:
        proportion: share of a tile's memory for the plan's temporaries.
        least: the program's own serialisation.
        efficiency: share of the exchange's bandwidth that operands get.
        turning: cycles of turned bytes, over those of :data:`TURN_BYTE_CYCLES`.
    """
    limit, rate = proportion * processor.tile_memory, processor.exchange_bytes * efficiency
    smallest: Plan | None = None
    for serial in _SERIAL:
        if serial < least or serial >= 2 * max(product.m, product.n) * least:
            continue
        best = _best(product, processor, rate, limit, serial, turning)
        if best.fits:
            return best
        if smallest is None or best.temporary < smallest.temporary:
            smallest = best
    return (
        smallest if smallest is not None else _best(product, processor, rate, limit, least, turning)
    )


def _best(
    product: Product,
    processor: Processor,
    rate: float,
    limit: float,
    serial: int,
    turning: float,
) -> Plan:
    """The best plan of a product computed in `serial` parts, along its longer free side."""
    m, n = product.m, product.n
    if n >= m:
        n = _ceil(n, serial)
    else:
        m = _ceil(m, serial)
    plans = [
        _search(product, processor, rate, limit, serial, m, n, turning, swapped)
        for swapped in (False, True)
    ]
    if product.sliding is not None and n == product.n:
        plans.append(
            _search(product, processor, rate, limit, serial, m, n, turning, sliding=product.sliding)
        )

    def order(plan: Plan) -> tuple[bool, float]:
        with_syncs = plan.cycles + processor.sync_cycles * plan.exchanges
        return not plan.fits, with_syncs if plan.fits else plan.temporary

    return min(plans, key=order)


def _search(
    product: Product,
    processor: Processor,
    rate: float,
    limit: float,
    serial: int,
    m: int,
    n: int,
    turning: float,
    swapped: bool = False,
    sliding: Sliding | None = None,
) -> Plan:
    """All cuts at once.

    Args:
        rate: bytes that a tile receives a cycle.
        swapped: the AMP unit is loaded with the left operand instead of the right.
        sliding: the product is computed in this way; its groups are not cut.
    """
    tiles = processor.tiles
    cuts = _CUTS[tiles >= _CUTS]
    groups = {1, product.groups, min(product.groups, tiles)}
    groups |= {_ceil(product.groups, by) for by in (2, 3, 4, 6, 8, 12, 16)}
    pg = np.array(sorted(g for g in groups if g <= tiles), dtype=np.int64)[:, None, None]
    pk = cuts[cuts <= max(1, product.k // 8)] if product.k >= 8 else cuts[:1]
    pk = (cuts[:1] if sliding else pk)[None, :, None]
    pn = cuts[cuts <= (1 if sliding else n)][None, None, :]
    pm = np.minimum(np.maximum(tiles // (pg * pk * pn), 0), m)
    allowed = pm >= 1
    # As many parts as there are tiles for, or one: what is received may cost more than a cut saves.
    pm = np.stack([np.maximum(pm, 1), np.ones_like(pm)])
    gg, gm = _ceil(product.groups, pg), _ceil(m, pm)
    gk, gn = _ceil(product.k, pk), _ceil(n, pn)
    if sliding is None:
        compute = gg * amp_cycles(gm, gk, gn, product.item, processor, swapped, product.line)
    else:
        compute = gg * sliding_cycles(gm, sliding, product.partial, processor, product.line)
    left = gg * gm * gk * product.item * product.left_share
    right = gg * gk * gn * product.item
    # Two tiles that share a bus receive the same rows in one go, where an even number of parts
    # along the other side needs them.
    left_rate = rate * (1 if swapped else 1 + (pn % 2 == 0))
    right_rate = rate * (1 + (pm % 2 == 0) if swapped else 1)
    received = left * (1 - 1 / pn) / left_rate + right * (1 - 1 / pm) / right_rate
    # Nor has a tile its own part of an activation, but by chance or where it is the only one.
    if tiles > 1:
        received += (left / pn + (0.0 if product.kept else right / pm)) / rate
    # What is turned is brought into this order at once.
    names = frozenset() if sliding else turned_tensors(product, swapped)
    arranges = "left" not in names, not product.kept and "right" not in names
    arranged = (left * arranges[0] + right * arranges[1]) / processor.copy_bytes
    finished = product.partial > product.item
    partials = gg * gm * gn * product.partial
    exchange = received + arranged
    crossing = partials * (1 - 1 / pk)
    reduced = np.where(pk > 1, crossing / rate + partials / processor.reduce_bytes, 0.0)
    temporary = left + right + partials * np.where(pk > 1, 2, 1)
    # Once, before what follows one after another.
    once = sum(_turned(product, name, swapped, rate, turning) for name in sorted(names))
    turned = once / (pg * pm * pk * pn) + TURN_CYCLES * len(names)
    added = processor.sync_cycles + (0 if finished else processor.call_cycles)
    total = serial * (compute + exchange + reduced + np.where(pk > 1, added, 0)) + turned
    good = allowed & (temporary <= limit)
    fits = bool(good.any())
    score = np.where(good, total, np.inf) if fits else np.where(allowed, temporary, np.inf)
    at = np.unravel_index(int(np.argmin(score)), score.shape)

    def here(values: Array) -> float:
        return float(np.broadcast_to(values, score.shape)[at])

    cut = tuple(int(here(p)) for p in (pg, pm, pk, pn))
    adds = here(pk) > 1
    calls = sum(arranges) + 1 + (adds or finished)
    return Plan(
        parts=cut,  # type: ignore[arg-type]
        serial=serial,
        compute=serial * (here(compute) + (calls - 1) * processor.call_cycles),
        exchange=serial * here(exchange) + here(turned),
        reduce=serial * here(reduced),
        sets=serial * (calls + len(names)),
        exchanges=serial * (1 + adds),
        temporary=here(temporary),
        fits=fits,
    )


def turned_tensors(product: Product, swapped: bool) -> frozenset[str]:
    """Of ``left``, ``right`` and ``result``, what is brought into another order before or after.

    poplibs' planner (``addTransformCycleEstimate``) does so with what lies the other way round,
    with both operands where what is summed is no multiple of the AMP unit's depth, and with the
    loaded operand and the result where its width has to be filled up; with all three where a
    matrix product loads columns, or a convolution rows, but that the gradient of filters is wanted
    as it comes out of the latter. Plans of forward and backward are joint, and what is kept as
    weights lies well. Of a convolution the planner asks for the channels where this asks for window
    x channels.
    """
    depth = 16 if product.item <= 2 else 8
    turned = set(product.turned)
    of_filters = product.convolution and "left" in product.turned
    if product.k % depth or product.combined > 1:
        turned |= {"left", "right"}
    if (product.m if swapped else product.n) % AMP_WIDTH or product.combined > 1:
        turned |= {"left" if swapped else "right", "result"}
    if swapped == product.convolution:
        turned |= {"left", "right"}
    if (swapped == product.convolution) != of_filters:
        turned.add("result")
    if product.kept:
        turned.discard("right")
    return frozenset(turned)


def _turned(product: Product, name: str, swapped: bool, rate: float, turning: float) -> float:
    """Cycles of all tiles together for the bytes of a tensor that is turned."""
    m, k, n = product.m, product.k, product.n
    elements = {"left": m * k * product.left_share, "right": k * n, "result": m * n}[name]
    line = (m if swapped else n) if name == "result" else product.piece or k
    byte = next(by for piece, by in TURN_BYTE_CYCLES.items() if line * product.item % piece == 0)
    return product.groups * elements * product.item * (turning * byte + 1 / rate)


def amp_cycles(
    m: Any, k: Any, n: Any, item: int, processor: Processor, swapped: bool = False, line: int = 0
) -> Any:
    """Cycles of one tile's AMP unit for [m, k] x [k, n].

    It is loaded with a block of weights, 16 x 16 half or 8 x 16 float, and takes a row in as many
    cycles as the block has multiply-accumulates over those of a cycle. The rows are divided
    between the workers.
    """
    if swapped:
        m, n = n, m
    depth = 16 if item <= 2 else 8
    macs = processor.half_macs if item <= 2 else processor.float_macs
    row = depth * AMP_WIDTH / macs
    load = depth * AMP_WIDTH * item / processor.load_bytes
    blocks = _ceil(k, depth) * _ceil(n, AMP_WIDTH)
    share = _ceil(m, processor.workers)
    worker = AMP_WORKER_CYCLES + share * row
    if line and not swapped:
        worker = WINDOW_WORKER_CYCLES + _ceil(share, line) * WINDOW_LINE_CYCLES + share * row
    return processor.call_cycles + blocks * (
        load + AMP_SUPERVISOR_CYCLES + processor.workers * worker
    )


def sliding_cycles(
    m: Array | int, sliding: Sliding, partial: int, processor: Processor, line: int
) -> Array:
    """Cycles of one tile for m positions of the output, of the groups that are combined.

    A worker takes a position in a cycle, in two where its stride is 2, and goes twice over the
    input where partial sums are float.
    """
    passes = 1 if partial <= 2 else 2
    share = np.asarray(_ceil(m, processor.workers))
    lines = _ceil(share, line) if line else 1
    worker: Array = (
        SLIDING_WORKER_CYCLES
        + lines * (1 + passes) * SLIDING_LINE_CYCLES
        + passes * share * sliding.stride
    )
    block = (
        SLIDING_LOAD_CYCLES[sliding.channels]
        + SLIDING_SUPERVISOR_CYCLES
        + processor.workers * worker
    )
    return processor.call_cycles + sliding.quads * sliding.blocks * block

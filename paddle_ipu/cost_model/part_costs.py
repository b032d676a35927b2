"""Cycles of the parts that operators are made of: maps, moves and matrix products on one IPU."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from paddle_ipu.cost_model.constants import CONSTANTS, Constants
from paddle_ipu.cost_model.machines import Processor
from paddle_ipu.cost_model.matmul_plan import Product, plan_product
from paddle_ipu.cost_model.program import Operator

ROW_PIECE = 16
"""Elements of a row that lie side by side: the AMP unit's output channels, whose layout the maps
after a product keep (poplin, ``partialChansPerGroup``)."""
ROW_PIECE_CYCLES = 7.0
"""Cycles of such a piece beside those of its vectors (poplibs' estimator of
``BroadcastVectorOuterByRow``)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of an operator on its IPU, once.

    Attributes:
        flops: of its matrix products.
        temporary: bytes a tile needs meanwhile.
        sets: compute sets.
        bytes: read and written by all tiles.
    """

    compute: float = 0.0
    exchange: float = 0.0
    sync: float = 0.0
    flops: float = 0.0
    temporary: float = 0.0
    sets: float = 0.0
    bytes: float = 0.0

    @property
    def cycles(self) -> float:
        """All cycles."""
        return self.compute + self.exchange + self.sync

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.compute + other.compute,
            self.exchange + other.exchange,
            self.sync + other.sync,
            self.flops + other.flops,
            max(self.temporary, other.temporary),
            self.sets + other.sets,
            self.bytes + other.bytes,
        )

    def __mul__(self, times: float) -> Cost:
        return Cost(
            self.compute * times,
            self.exchange * times,
            self.sync * times,
            self.flops * times,
            self.temporary,
            self.sets,
            self.bytes * times,
        )


NOTHING = Cost()


class PartCosts:
    """Prices parts of operators on a processor.

    Args:
        constants: others than those of all predictions, to see what depends on them.
        padded: as if the program padded its matrix products (:meth:`Product.padded`).
    """

    def __init__(
        self, processor: Processor, constants: Constants = CONSTANTS, *, padded: bool = False
    ) -> None:
        self.processor = processor
        self.constants = constants
        self.padded = padded

    def _tile_elements(self, elements: int) -> int:
        return ceil(elements / self.processor.tiles)

    def map(self, elements: int, item: int, cycles: float, sets: int = 1) -> Cost:
        """Vertices over elements, `cycles` a vector of a worker."""
        vectors = ceil(self._tile_elements(elements) / max(1, self.processor.vector_bytes // item))
        compute = (
            vectors * cycles * self.constants.vertex_overhead + sets * self.processor.call_cycles
        )
        return Cost(compute=compute, sets=sets, bytes=2.0 * elements * item)

    def by_rows(self, elements: int, item: int, passes: float) -> Cost:
        """What maps with an operand for each row take beside :meth:`map`.

        Rows lie in pieces of :data:`ROW_PIECE`, and each begins with the row's operand.
        """
        pieces = ceil(self._tile_elements(elements) / ROW_PIECE)
        return Cost(compute=pieces * passes * ROW_PIECE_CYCLES)

    def exchanges(self, count: int) -> Cost:
        """Exchanges of a few bytes, as of a value for each row."""
        return Cost(sync=float(count * self.processor.sync_cycles))

    def calls(self, sets: int) -> Cost:
        """Compute sets with next to nothing to do."""
        return Cost(compute=float(sets * self.processor.call_cycles), sets=sets)

    def move(self, size: float, copied: bool = True) -> Cost:
        """`size` bytes, evenly on the tiles, received by them over the exchange."""
        tile = size / self.processor.tiles
        rate = self.processor.exchange_bytes * self.constants.exchange_efficiency
        compute = tile / self.processor.copy_bytes if copied else 0.0
        sync = float(self.processor.sync_cycles)
        return Cost(compute, tile / rate, sync, sets=1, bytes=size, temporary=tile)

    def _unpriced(self, operator: Operator) -> Cost:
        size = sum(t.bytes for t in (*operator.read, *operator.outputs))
        return self.move(size)

    def product(self, product: Product, operator: Operator) -> Cost:
        """A matrix product with the best plan."""
        plan = plan_product(
            product.padded() if self.padded else product,
            self.processor,
            operator.memory_proportion,
            operator.serial,
            self.constants.exchange_efficiency,
            self.constants.turning,
        )
        sync = plan.exchanges * self.processor.sync_cycles
        size = (
            product.groups
            * product.item
            * (product.m * product.k + product.k * product.n + product.m * product.n)
        )
        return Cost(
            plan.compute,
            plan.exchange + plan.reduce,
            sync,
            product.flops,
            plan.temporary,
            # Parts one after another are a loop: its code is there once.
            plan.sets / plan.serial,
            size,
        )

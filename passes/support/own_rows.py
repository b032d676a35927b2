"""How many rows a program's micro-batch has, by the shapes of its feeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Shapes = Sequence[Sequence[int]]


def fits(shapes: Shapes, micro_batch: int) -> bool:
    """Whether feeds of these shapes may hold a micro-batch of so many rows.

    One of them has a dynamic first dimension, or as many rows; the others are of another kind then,
    as tables and masks are. A feed of one dimension may hold the samples' elements in a line.
    """
    return any(
        dims[0] in (-1, micro_batch) or (len(dims) == 1 and dims[0] % micro_batch == 0)
        for dims in shapes
    )


def own_rows(shapes: Shapes, micro_batch: int) -> int:
    """Rows of a micro-batch.

    Args:
        shapes: of the feeds that have dimensions.
        micro_batch: the option's value, of which 1 is the default.
    """
    sizes = [dims[0] for dims in shapes]
    if not sizes or -1 in sizes or (micro_batch > 1 and fits(shapes, micro_batch)):
        return micro_batch
    # A table or a learning rate of one row says nothing of the others.
    several = [size for size in sizes if size > 1] or sizes
    return Counter(several).most_common(1)[0][0]

"""The number of rows of a program's micro-batch, by the shapes of its feeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Shapes = Sequence[Sequence[int]]


def fits(shapes: Shapes, micro_batch: int) -> bool:
    """Whether feeds of these shapes can hold a micro-batch of that many rows.

    One of them needs a dynamic first dimension or that many rows; the others may be tables or
    masks. A feed of rank 1 may hold the elements of all samples in sequence.
    """
    return any(
        dims[0] in (-1, micro_batch) or (len(dims) == 1 and dims[0] % micro_batch == 0)
        for dims in shapes
    )


def own_rows(shapes: Shapes, micro_batch: int) -> int:
    """The number of rows of a micro-batch.

    Args:
        shapes: of the feeds whose rank is not 0.
        micro_batch: the option's value; 1 is its default.
    """
    sizes = [dims[0] for dims in shapes]
    if not sizes or -1 in sizes or (micro_batch > 1 and fits(shapes, micro_batch)):
        return micro_batch
    # A table or a learning rate of one row does not determine the micro-batch.
    several = [size for size in sizes if size > 1] or sizes
    return Counter(several).most_common(1)[0][0]

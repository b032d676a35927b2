"""What the compared operators hand to each other in the forward part of a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from paddle_ipu.pages.layer_graph import OperatorFlow
from paddle_ipu.verification.bisection import Forward, read_by
from paddle_ipu.verification.comparison import Comparison
from paddle_ipu.verification.contents import OperatorRow


def operator_flows(forward: Forward, rows: Sequence[OperatorRow]) -> Iterator[OperatorFlow]:
    """The flows, each pair of operators once; sizes are those on the IPU.

    What is not compared, such as a constant's shape, hands on what it reads itself.

    Args:
        forward: of the program.
        rows: its operators, a row for each result.
    """
    made = {row.result.name: row for row in rows}
    for target in dict.fromkeys(row.number for row in rows):
        read: dict[int, int] = {}
        for name in dict.fromkeys(read_by(forward.nodes[target], made)):
            if name in made:
                row = made[name]
                read[row.number] = read.get(row.number, 0) + _bytes(row.result)
        for source, size in read.items():
            yield OperatorFlow(source, target, size)


def _bytes(result: Comparison) -> int:
    return math.prod(result.shape) * np.dtype(result.dtype).itemsize

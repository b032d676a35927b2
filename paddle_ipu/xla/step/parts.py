"""Cuts a program of thousands of operators into parts that XLA compiles by themselves.

To order what it runs, XLA's CPU backend looks at the pairs of a function's kernels, so that its
time grows with the square of the operators and faster. A part is a function with an order of its
own. Parts end where the fewest results are alive, as those are handed on in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.step.segments import Segment

LONG = 1000
"""Operators of the shortest program that is cut. BERT-Large's, with its loss, has 890."""

_SHARES = 4
"""Into how many parts that one is cut."""


def of(
    nodes: Sequence[LoweredNode],
    segments: Sequence[Segment],
    needed: Collection[str],
    stays: Callable[[LoweredNode], bool],
) -> list[Segment]:
    """The segments of a program, with the parts that are called.

    Args:
        nodes: the operators that are evaluated, in order.
        segments: those that recomputation cuts it into; empty for none.
        needed: tensors that are read behind all operators.
        stays: whether an operator is kept out of a part.
    """
    if len(nodes) < LONG:
        return list(segments)
    least, most = LONG // (_SHARES + 1), LONG // _SHARES
    last_use = {name: at for at, node in enumerate(nodes) for name in node.outputs}
    for at, node in enumerate(nodes):
        last_use.update((name, at) for name in node.inputs if name in last_use)
    last_use.update((name, len(nodes)) for name in needed if name in last_use)
    alive = _alive(nodes, last_use)
    whole = Segment(0, len(nodes), False, frozenset(), ())
    found: list[Segment] = []
    for segment in segments or (whole,):
        if segment.recomputed:
            found.append(replace(segment, called=segment.last - segment.first >= least))
            continue
        for first, last in _cut(segment, alive, least, most):
            part = nodes[first:last]
            results = tuple(n for node in part for n in node.outputs if last_use[n] >= last)
            found.append(
                Segment(first, last, False, frozenset(), results, not any(map(stays, part)))
            )
    return found


def _alive(nodes: Sequence[LoweredNode], last_use: dict[str, int]) -> np.ndarray:
    """How many results are alive in front of each operator."""
    change = np.zeros(len(nodes) + 2, np.int64)
    for at, node in enumerate(nodes):
        for name in node.outputs:
            change[at + 1] += 1
            change[last_use[name] + 1] -= 1
    return np.cumsum(change)[: len(nodes) + 1]


def _cut(segment: Segment, alive: np.ndarray, least: int, most: int) -> Iterator[tuple[int, int]]:
    """First and last operator of each part, the last one excluded."""
    first = segment.first
    while segment.last - first > most:
        cut = first + least + int(np.argmin(alive[first + least : first + most + 1]))
        yield first, cut
        first = cut
    yield first, segment.last

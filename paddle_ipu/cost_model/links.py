"""IPU-Links between the IPUs of a system: which links a copy takes, and what a ring gets of them.

IPUs are the ends of a ladder's rungs: 2 r and 2 r + 1 are a pair. A copy within a pair has four
links. Any other crosses the rung first, where it must change sides, by two more; then it goes up
or down its rail, rung by rung, by two links each way (poplibs' model of global exchange; IPU-Pod
data sheets). A transfer takes as long as the bundle with the most bytes for each of its links.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddle_ipu.cost_model.machines import Processor

_PAIR_LINKS = 2
"""Links whose bandwidth :attr:`Processor.link_bandwidth` is."""
_LINKS = {"rung": 4, "cross": 2, "up": 2, "down": 2}


def copy_cycles(sent: Mapping[tuple[int, int], float], processor: Processor) -> float:
    """Cycles in which IPUs send one another bytes at the same time.

    Args:
        sent: (sender, receiver) -> bytes.
    """
    loads: dict[tuple[str, int], float] = {}
    for (source, target), size in sent.items():
        for bundle in _route(source, target):
            loads[bundle] = loads.get(bundle, 0.0) + size / _LINKS[bundle[0]]
    one = link_rate(processor) / _PAIR_LINKS
    return max(loads.values(), default=0.0) / one * processor.clock


def link_rate(processor: Processor) -> float:
    """Bytes a second of two links in one direction, packets' heads left out."""
    return processor.link_bandwidth * processor.link_efficiency


def ring_rate(processor: Processor, replica_ipus: int) -> float:
    """Bytes a second that each IPU of a replica sends in rings over the replicas.

    A ring has both directions of a rail, which the IPUs of a replica on that side share.
    """
    return 2.0 * link_rate(processor) / max(1, replica_ipus // 2)


def _route(source: int, target: int) -> list[tuple[str, int]]:
    """The bundles of links from one IPU to another, each as its kind and its sender."""
    if source == target:
        return []
    if source // 2 == target // 2:
        return [("rung", source)]
    bundles, at = [], source
    if source % 2 != target % 2:
        bundles.append(("cross", at))
        at ^= 1
    kind, step = ("up", 2) if at < target else ("down", -2)
    while at != target:
        bundles.append((kind, at))
        at += step
    return bundles

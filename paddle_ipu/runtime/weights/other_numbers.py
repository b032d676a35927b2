"""Warns of a state whose layers another version of Paddle numbered: here its names say others.

Shapes may agree all the same: norms of one width, layers of a tower.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable

import paddle

_NAME = re.compile(r"(?P<kind>[a-z]\w*)_(?P<number>\d+)\.[wb]_\d+")


def warn_where_numbered_otherwise(program: Iterable[str], state: Iterable[str]) -> None:
    """Warns where each has layers of a kind that the other lacks, some of them between shared ones.

    A state that lacks the last layers, another head's, or has only some of the program's, is a part
    of its weights or of others and says nothing.

    Args:
        program: names of its variables.
        state: names of what is set.
    """
    known, given = _numbers(program), _numbers(state)
    for kind, numbers in given.items():
        here = known.get(kind, set())
        unknown, missing, both = numbers - here, here - numbers, numbers & here
        if unknown and missing and min(*unknown, *missing) < max(both, default=0):
            warnings.warn(_message(kind, min(unknown), min(missing)), UserWarning, stacklevel=4)
            return


def _message(kind: str, unknown: int, missing: int) -> str:
    if paddle.__version__.startswith("2."):
        cure = "Save it under PADDLE_IPU_LAYER_NUMBERS=2, or rename its parameters."
    else:
        cure = "PADDLE_IPU_LAYER_NUMBERS=2 numbers layers as Paddle 2 does; else rename them."
    return (
        f"the state has {kind}_{unknown}, which the program has not, and lacks {kind}_{missing}: "
        "it seems to be of another version of Paddle, which numbers layers otherwise, so that "
        f"parameters may be set to those of other layers. {cure}"
    )


def _numbers(names: Iterable[str]) -> dict[str, set[int]]:
    """Kind, as ``linear`` of ``linear_2.w_0`` -> the numbers of its layers."""
    found: dict[str, set[int]] = defaultdict(set)
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None:
            found[match["kind"]].add(int(match["number"]))
    return found

"""How a matrix product may be computed in parts: along which axis, and in how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """One mode.

    Attributes:
        operand: the one whose axis is cut, 0 or 1.
        axis: counted from the end.
        what: PopART's name of the axis.
        setting: PopART's name of the mode among its settings.
    """

    operand: int
    axis: int
    what: str
    setting: str


CUTS = {
    "input_channels": Cut(0, -2, "input channels dim", "InputChannels"),
    "reducing_dim": Cut(0, -1, "reducing dimension", "ReducingDim"),
    "output_channels": Cut(1, -1, "output channels dim", "OutputChannels"),
}
"""Mode of ``setSerializeMatMul`` -> what it cuts."""

MODES = (*CUTS, "none")
HIGHEST_RANK = 3


def _as_matrices(left: Sequence[int], right: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """A vector is a matrix of one row on the left, of one column on the right."""
    return (1, *left) if len(left) == 1 else left, (*right, 1) if len(right) == 1 else right


def uneven(mode: str, factor: int, left: Sequence[int], right: Sequence[int]) -> str:
    """Why a product cannot be cut into equal parts, in PopART's words; "" where it can.

    Args:
        mode: one of `MODES`.
        factor: the number of parts.
        left: dimensions of the first operand; below 0 where unknown.
        right: of the second.
    """
    if mode not in CUTS:
        return ""
    if factor < 1:
        return (
            f"Invalid serialisation factor {factor}. Serialisation factor must be a non-zero "
            "positive integer."
        )
    cut = CUTS[mode]
    dims = _as_matrices(left, right)[cut.operand]
    size = dims[cut.axis] if dims else 0
    if size < 0 or size % factor == 0:
        return ""
    return (
        f"Invalid serialisation factor {factor} for {cut.what} {size}. {mode} dim should be a "
        "multiple of the serialisation factor."
    )


def of_too_many_axes(
    mode: str, factor: int, left: Sequence[int], right: Sequence[int]
) -> int | None:
    """The operand, 0 or 1, that has more axes than PopART cuts; None where neither has.

    Args:
        mode: one of `MODES`.
        factor: the number of parts; a product of one part is not cut.
        left: dimensions of the first operand.
        right: of the second.
    """
    if mode not in CUTS or factor == 1:
        return None
    return next((at for at, dims in enumerate((left, right)) if len(dims) > HIGHEST_RANK), None)
